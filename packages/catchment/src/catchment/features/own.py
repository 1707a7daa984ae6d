"""A feature map of one's own: a small frozen dataclass becomes a full `FeatureMap`.

    @dataclass(frozen=True)
    class Spectrum:
        bands: int = 16
        n_features = property(lambda self: self.bands)
        bounds = (0.0, 1.0)                         # or one pair per feature

        def rows(self, recordings):                 # one (n, F) array per recording
            return [band_energies(r.u, self.bands)[None] for r in recordings]

That is all. Its recipe is the name of the class and the values of its fields, which must be plain
(numbers, text, tuples of them), arrays, or built feature maps; the fingerprint is their SHA-256. A
class that gives a row per step says `per_step = True`; one whose code changed says so with another
`version`. With `grid = 12` its features are rounded to 12 bits of their bounds, and its statistics
are integers. With `standardise = True` a ridge acts on its features divided by their spread.

The maps of this library but the reservoir use the same door. They are known by a short name
(`catchment.features.library`), and have `array_rows`, which is told how many threads to use.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catchment.arrays import Array, Booleans, as_matrix, refuse_nonfinite
from catchment.data.recording import Recording
from catchment.errors import IntegrityError, UnknownMapError
from catchment.features.feature_map import FeatureMap, Part
from catchment.features.grid import checked_bits, digits_after_point, on_grid
from catchment.features.library import library_class, library_name
from catchment.features.stacked import stacked_rows
from catchment.wire import Fact, Parts

KIND = "own_map"
# Metadata of a field that is this machine's own affair, such as a path, and not in the recipe.
LOCAL: Mapping[str, Any] = MappingProxyType({"local": True})
AT_ONCE = 2**15  # features that are checked and rounded at a time


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


@runtime_checkable
class ArrayMap(Protocol):
    """A map that takes bare inputs and may use several threads."""

    @property
    def n_features(self) -> int: ...

    @property
    def bounds(self) -> Any: ...

    def array_rows(self, inputs: Sequence[Array], threads: int | None, /) -> Sequence[Array]:
        """Return the feature rows (n, F) of each recording's inputs (T, I)."""


@runtime_checkable
class Streaming(Protocol):
    """A map with a row per step that can give those that are wanted, a few at once."""

    def row_blocks(self, inputs: Array, wanted: Booleans, n_rows: int, /) -> Iterator[Array]:
        """Yield the rows (n, F) of the steps of inputs (T, I) that are wanted (T,), in order."""


@runtime_checkable
class NamedFeatures(Protocol):
    """A map that names its features."""

    def names(self) -> list[str]: ...


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

    inner: OwnMap | ArrayMap

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
    def n_inputs(self) -> int | None:
        n: int | None = getattr(self.inner, "n_inputs", None)
        return n

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
        return bool(getattr(self.inner, "constant", False))

    @property
    def standardise(self) -> bool:
        return bool(getattr(self.inner, "standardise", False))

    @property
    def cost(self) -> float:
        return float(getattr(self.inner, "cost", self.n_features))

    @property
    def name(self) -> str:
        """What a plan file calls it: its name in the library, or `module:Class`."""
        return _name_of_class(type(self.inner))

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.parts().to_bytes()).hexdigest()

    def names(self) -> list[str]:
        if isinstance(self.inner, NamedFeatures):
            return list(self.inner.names())
        return [f"z{k}" for k in range(self.n_features)]

    @property
    def streams(self) -> bool:
        """Whether `row_blocks` gives rows a few at once."""
        return self.per_step and isinstance(self.inner, Streaming)

    def row_blocks(self, inputs: ArrayLike, wanted: Booleans, n_rows: int) -> Iterator[Array]:
        """Yield the rows of the steps of one recording that are wanted (T,), `n_rows` at once.

        Only maps that stream have them.
        """
        assert isinstance(self.inner, Streaming)
        for z in self.inner.row_blocks(self.checked_inputs(inputs, 0), wanted, n_rows):
            yield self.checked_rows(z)

    def stacked(
        self,
        inputs: Sequence[ArrayLike],
        targets: Sequence[Array],
        roots: Array,
        *,
        threads: int | None = None,
        rounded: bool = True,
    ) -> list[Part]:
        """Return the parts of recordings with their targets; see `FeatureMap`."""
        return stacked_rows(self, inputs, targets, roots, threads=threads)

    def stacked_each(
        self, inputs: Sequence[ArrayLike], targets: Sequence[Array], roots: Array
    ) -> Iterator[tuple[int, Array]]:
        """Yield nothing: no recording is short."""
        return iter(())

    def is_short(self, n_steps: int, n_targets: int) -> bool:
        """Whether a recording gains by company: never."""
        return False

    def checked_inputs(self, u: ArrayLike, k: int = 0) -> Array:
        """Return the inputs (T, I) of recording k, finite and with the right channels."""
        found = as_matrix(u, f"recording {k}")
        refuse_nonfinite(found, f"recording {k}")
        if self.n_inputs not in (None, found.shape[1]):
            raise ValueError(
                f"recording {k} has {found.shape[1]} channels, {self.name} was built for "
                f"{self.n_inputs}; pass inputs with shape (T, {self.n_inputs})"
            )
        return found

    def rows(self, inputs: Sequence[ArrayLike], *, threads: int | None = None) -> list[Array]:
        us = [self.checked_inputs(u, k) for k, u in enumerate(inputs)]
        if not us:
            return []
        if isinstance(self.inner, ArrayMap):
            given: Sequence[ArrayLike] = self.inner.array_rows(us, threads)
        else:
            given = self.inner.rows([Recording(u) for u in us])
        found = [np.asarray(z, dtype=np.float64) for z in given]
        if len(found) != len(us):
            raise ValueError(f"{self.name} gave {len(found)} results for {len(us)} recordings")
        per_step, washout, n_features = self.per_step, self.washout, self.n_features
        for u, z in zip(us, found, strict=True):
            n_rows = len(u) - washout if per_step else 1
            if z.shape != (n_rows, n_features):
                raise ValueError(
                    f"{self.name} gave rows of shape {z.shape} for a recording of {len(u)} steps; "
                    f"return ({n_rows}, {n_features})"
                )
        together = np.concatenate(found)
        # A few rows at a time stay in the cache from one step to the next.
        size = max(1, AT_ONCE // n_features)
        for at in range(0, len(together), size):
            together[at : at + size] = self.checked_rows(together[at : at + size])
        ends = np.cumsum([len(z) for z in found]).tolist()
        return [together[a:b] for a, b in zip([0, *ends], ends, strict=False)]

    def checked_rows(self, z: Array) -> Array:
        """Return rows that are finite and within their bounds, on the grid if there is one."""
        if not (np.abs(z) <= self.limits).all():
            if not np.isfinite(z).all():
                raise ValueError(f"{self.name} gave features that are not finite; mend its rows")
            raise ValueError(
                f"{self.name} gave a feature of {np.abs(z).max():g}, outside its bounds; widen "
                "`bounds`, or limit the values"
            )
        if self.grid is None:
            return z
        return on_grid(z, digits_after_point(self.bounds, self.grid), self.grid)

    @cached_property
    def limits(self) -> Array:
        """Bounds (F,) with room for rounding; finite, so that no infinite feature is within."""
        return np.minimum(self.bounds * (1 + 1e-9), np.finfo(np.float64).max)

    def parts(self) -> Parts:
        facts: dict[str, Fact] = {"class": self.name}
        facts["version"] = getattr(self.inner, "version", None)
        if self.grid is not None:
            facts["grid"] = self.grid
        arrays: list[NDArray[Any]] = []
        facts["settings"] = {
            field.name: _told(getattr(self.inner, field.name), f"{self.name}.{field.name}", arrays)
            for field in fields(self.inner)  # type: ignore[arg-type]  # __post_init__ checked it
            if not field.metadata.get("local")
        }
        return Parts(KIND, facts, tuple(arrays))


def as_map(value: FeatureMap | OwnMap | ArrayMap) -> FeatureMap:
    """Return a feature map as the library uses it; a user's own is adapted."""
    if isinstance(value, FeatureMap):
        return value
    if isinstance(value, OwnMap | ArrayMap):
        return Adapted(value)
    raise TypeError(
        f"{type(value).__name__} is no feature map; it needs n_features, bounds and "
        "rows(recordings), as catchment.features.own shows"
    )


def name_of(features: FeatureMap) -> str:
    """Return what a map is called: a user's own by its class, as a plan file names it."""
    return features.name if isinstance(features, Adapted) else type(features).__name__


def own_from_parts(
    parts: Parts,
    classes: Iterable[type],
    restored: Callable[[Parts], FeatureMap],
    *,
    only_named: bool = False,
) -> Adapted:
    """Return a map that was kept; `classes` are those of users that may be meant.

    A file does not import anything: the class is one of the library, of `classes`, or of a module
    that this program has imported already.

    Parameters
    ----------
    restored
        Rebuilds maps that are settings of this one.
    only_named
        Whether modules that were imported do not count: what comes from somebody else is of the
        library or of `classes`.
    """
    name, settings = str(parts.facts.get("class")), parts.facts.get("settings")
    if not isinstance(settings, dict):
        raise IntegrityError(f"the map {name!r} lacks its settings")
    kind = library_class(name) or _found(name, classes, only_named=only_named)
    try:
        values = {key: _value(value, parts.arrays, restored) for key, value in settings.items()}
        made = Adapted(kind(**values))
    except (AttributeError, TypeError, KeyError, IndexError) as error:
        raise IntegrityError(f"the settings of the map {name!r} are not valid: {error}") from error
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


def _name_of_class(kind: type) -> str:
    return library_name(kind) or f"{kind.__module__}:{kind.__qualname__}"


def _found(name: str, classes: Iterable[type], *, only_named: bool = False) -> Any:
    for kind in classes:
        if f"{kind.__module__}:{kind.__qualname__}" == name:
            return kind
    module, _, inside = name.partition(":")
    value: Any = None if only_named else sys.modules.get(module)
    for part in inside.split("."):
        value = getattr(value, part, None)
    if not isinstance(value, type) or not is_dataclass(value):
        raise UnknownMapError(
            f"the model uses the feature map {name}, which is not known here; import its module "
            f"first, pass its class to load, or on the command line say --use {name}"
        )
    return value


def _told(value: object, where: str, arrays: list[NDArray[Any]]) -> Fact:
    """Return a setting as plain JSON; its arrays are appended and named by their places."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case np.ndarray():
            arrays.append(value)
            return {"array": len(arrays) - 1}
        case tuple() | list():
            return [_told(item, where, arrays) for item in value]
        case FeatureMap():
            parts = value.parts()
            first = len(arrays)
            arrays.extend(parts.arrays)
            places = list(range(first, len(arrays)))
            return {"map": {"kind": parts.kind, "facts": parts.facts, "arrays": places}}
    raise TypeError(
        f"{where} is a {type(value).__name__}; settings of a map are numbers, text, arrays, built "
        "maps, and tuples of those"
    )


def _value(
    told: Any, arrays: Sequence[NDArray[Any]], restored: Callable[[Parts], FeatureMap]
) -> Any:
    """Return the setting that `_told` told of."""
    match told:
        case {"array": int(place)}:
            return arrays[place]
        case {"map": {"kind": str(kind), "facts": dict(facts), "arrays": list(places)}}:
            return restored(Parts(kind, facts, tuple(arrays[place] for place in places)))
        case list():
            return tuple(_value(item, arrays, restored) for item in told)
        case dict():
            raise TypeError(f"{str(told)[:40]} is no setting")
    return told
