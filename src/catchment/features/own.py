"""A feature map of one's own: a small frozen dataclass becomes a full `FeatureMap`.

    @dataclass(frozen=True)
    class Spectrum:
        bands: int = 16
        n_features = property(lambda self: self.bands)
        bounds = (0.0, 1.0)                         # or one pair per feature

        def rows(self, recordings):                 # one (n, F) array per recording
            return [band_energies(r.u, self.bands)[None] for r in recordings]

That is all. Its recipe is the name of the class and the values of its fields, which must be plain
(numbers, text, tuples of them) or arrays; the fingerprint is their SHA-256. A class that gives a
row per step says `per_step = True`; one whose code changed says so with another `version`. With
`grid = 12` its features are rounded to 12 bits of their bounds, and its statistics are integers.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catchment.arrays import Array, as_matrix, refuse_nonfinite
from catchment.data.recording import Recording
from catchment.errors import IntegrityError, UnknownMapError
from catchment.features.feature_map import FeatureMap
from catchment.features.grid import checked_bits, digits_after_point, on_grid
from catchment.wire import Fact, Parts

KIND = "own_map"


@runtime_checkable
class OwnMap(Protocol):
    """What a class must have to be used as a feature map."""

    @property
    def n_features(self) -> int: ...

    @property
    def bounds(self) -> Any:
        """(lowest, highest) value of a feature, or one such pair per feature (F, 2)."""

    def rows(self, recordings: Sequence[Recording], /) -> Sequence[ArrayLike]:
        """Return the feature rows (n, F) of each recording."""


@dataclass(frozen=True, eq=False)
class Adapted:
    """A user's own map with all that the library asks of one.

    >>> @dataclass(frozen=True)
    ... class Range:
    ...     n_features = 1
    ...     bounds = (0.0, float("inf"))
    ...     def rows(self, recordings):
    ...         return [np.ptp(r.u, axis=0)[None] for r in recordings]
    >>> Adapted(Range()).rows([[1.0, 4.0, 2.0]])
    [array([[3.]])]
    """

    inner: OwnMap

    def __post_init__(self) -> None:
        if not is_dataclass(self.inner):
            raise TypeError(
                f"{type(self.inner).__name__} is no dataclass; write @dataclass(frozen=True) above "
                "it, so that its settings are known"
            )
        if not isinstance(self.n_features, int) or self.n_features < 1:
            raise ValueError(f"n_features is {self.n_features!r}; give a whole number from 1 on")
        self.fingerprint  # noqa: B018  # raises now if a setting cannot travel

    @property
    def n_inputs(self) -> None:
        return None

    @property
    def n_features(self) -> int:
        return self.inner.n_features

    @property
    def per_step(self) -> bool:
        return bool(getattr(self.inner, "per_step", False))

    @property
    def washout(self) -> int:
        return int(getattr(self.inner, "washout", 0))

    @cached_property
    def bounds(self) -> Array:
        given = np.asarray(self.inner.bounds, dtype=np.float64)
        if given.shape not in ((2,), (self.n_features, 2)) or np.isnan(given).any():
            raise ValueError(
                f"bounds of {self.name} have shape {given.shape}; give (lowest, highest), or one "
                f"such pair for each of {self.n_features} features"
            )
        return np.array(np.broadcast_to(np.abs(given).max(axis=-1), (self.n_features,)))

    @property
    def grid(self) -> int | None:
        bits = getattr(self.inner, "grid", None)
        return None if bits is None else checked_bits(bits, f"grid of {self.name}")

    @property
    def constant(self) -> bool:
        return False

    @property
    def cost(self) -> float:
        return float(getattr(self.inner, "cost", self.n_features))

    @property
    def name(self) -> str:
        """Where the class is, as a plan file names it: `module:Class`."""
        kind = type(self.inner)
        return f"{kind.__module__}:{kind.__qualname__}"

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.parts().to_bytes()).hexdigest()

    def names(self) -> list[str]:
        return [f"z{k}" for k in range(self.n_features)]

    def rows(self, inputs: Sequence[ArrayLike], *, threads: int | None = None) -> list[Array]:
        us = [as_matrix(u, f"recording {k}") for k, u in enumerate(inputs)]
        for k, u in enumerate(us):
            refuse_nonfinite(u, f"recording {k}")
        found = [
            np.asarray(z, dtype=np.float64) for z in self.inner.rows([Recording(u) for u in us])
        ]
        if len(found) != len(us):
            raise ValueError(f"{self.name} gave {len(found)} results for {len(us)} recordings")
        for u, z in zip(us, found, strict=True):
            n_rows = len(u) - self.washout if self.per_step else 1
            if z.shape != (n_rows, self.n_features):
                raise ValueError(
                    f"{self.name} gave rows of shape {z.shape} for a recording of {len(u)} steps; "
                    f"return ({n_rows}, {self.n_features})"
                )
            if not np.isfinite(z).all():
                raise ValueError(f"{self.name} gave features that are not finite; mend its rows")
            if (np.abs(z) > self.bounds * (1 + 1e-9)).any():
                raise ValueError(
                    f"{self.name} gave a feature of {np.abs(z).max():g}, outside its bounds; widen "
                    "`bounds`, or limit the values"
                )
        if self.grid is None:
            return found
        digits = digits_after_point(self.bounds, self.grid)
        return [on_grid(z, digits, self.grid) for z in found]

    def parts(self) -> Parts:
        facts: dict[str, Fact] = {"class": self.name}
        facts["version"] = getattr(self.inner, "version", None)
        if self.grid is not None:
            facts["grid"] = self.grid
        settings: dict[str, Fact] = {}
        arrays: list[NDArray[Any]] = []
        for field in fields(self.inner):  # type: ignore[arg-type]  # __post_init__ checked it
            value = getattr(self.inner, field.name)
            if isinstance(value, np.ndarray):
                settings[field.name] = {"array": len(arrays)}
                arrays.append(value)
            else:
                settings[field.name] = _plain(value, f"{self.name}.{field.name}")
        facts["settings"] = settings
        return Parts(KIND, facts, tuple(arrays))


def as_map(value: FeatureMap | OwnMap) -> FeatureMap:
    """Return a feature map as the library uses it; a user's own is adapted."""
    if isinstance(value, FeatureMap):
        return value
    if isinstance(value, OwnMap):
        return Adapted(value)
    raise TypeError(
        f"{type(value).__name__} is no feature map; it needs n_features, bounds and "
        "rows(recordings), as catchment.features.own shows"
    )


def name_of(features: FeatureMap) -> str:
    """Return what a map is called: a user's own by its class, as a plan file names it."""
    return features.name if isinstance(features, Adapted) else type(features).__name__


def own_from_parts(parts: Parts, classes: Iterable[type] = ()) -> Adapted:
    """Return a user's own map that was kept; `classes` are those that may be meant.

    A file does not import anything: the class is one of `classes`, or of a module that this program
    has imported already.
    """
    name, settings = str(parts.facts.get("class")), parts.facts.get("settings")
    if not isinstance(settings, dict):
        raise IntegrityError(f"the map {name!r} lacks its settings")
    kind = _found(name, classes)
    values = {
        key: parts.arrays[value["array"]] if isinstance(value, dict) else _tuples(value)
        for key, value in settings.items()
    }
    made = Adapted(kind(**values))
    version = made.parts().facts["version"]
    if version != parts.facts.get("version"):
        raise IntegrityError(
            f"{name} has version {version!r} here, what was kept used "
            f"{parts.facts.get('version')!r}; install that version of its module"
        )
    return made


def imported(name: str) -> Any:
    """Return the class or function that `module:Name` names, importing the module.

    >>> imported("collections:OrderedDict").__name__
    'OrderedDict'
    """
    module, _, inside = name.partition(":")
    if not module or not inside:
        raise ValueError(f"{name!r} names no class; write module:Class")
    try:
        value: Any = importlib.import_module(module)
    except ImportError as error:
        raise ValueError(
            f"{name!r} cannot be imported ({error}); check the module's name"
        ) from error
    for part in inside.split("."):
        if not hasattr(value, part):
            raise ValueError(f"{module} has no {inside!r}; check the name")
        value = getattr(value, part)
    return value


def _found(name: str, classes: Iterable[type]) -> Any:
    for kind in classes:
        if f"{kind.__module__}:{kind.__qualname__}" == name:
            return kind
    module, _, inside = name.partition(":")
    value: Any = sys.modules.get(module)
    for part in inside.split("."):
        value = getattr(value, part, None)
    if not isinstance(value, type) or not is_dataclass(value):
        raise UnknownMapError(
            f"the model uses the feature map {name}, which is not known here; import its module "
            f"first, pass its class to load, or on the command line say --use {name}"
        )
    return value


def _plain(value: object, where: str) -> Fact:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [_plain(item, where) for item in value]
    raise TypeError(
        f"{where} is a {type(value).__name__}; settings of a map are numbers, text, arrays, and "
        "tuples of those"
    )


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
