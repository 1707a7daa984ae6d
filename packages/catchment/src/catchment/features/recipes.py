"""Names and messages of maps: how one is called, told, compared with what was told, and rebuilt.

A recipe is a message: the name of the class and its settings as JSON, arrays beside it, and maps
within as recipes of their own. Reading one imports nothing. What somebody else asks for is compared
with one's own map before anything is built.

"default" is what a plan or a call without a map gets, and "auto" chooses; docs/concepts/defaults.md
says why.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from math import comb
from pkgutil import resolve_name
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import PositiveInt
from catchment.errors import IntegrityError, UnknownMapError, nearest
from catchment.features.base import KIND, LIBRARY, UNBOUND
from catchment.features.base import FeatureMap as FeatureMap
from catchment.plugins import known, plugin
from catchment.wire import Fact, Message
from catchment.wire.kept import TODAY

Made = TypeVar("Made", bound=Callable[..., Any])
_FORMS: dict[tuple[str, type], Callable[..., Any]] = {}
Allowed = Callable[[Message], bool]
_ALLOWED: ContextVar[Allowed | None] = ContextVar("allowed", default=None)
UNITS = 200  # of the reservoir
LAGS = 48  # of a forecast, where there are columns for them
FEWEST = 84  # kernels of MiniRocket: with less room than that it had better have all columns


def is_told(own: object, told: object, parts: Message, adapted: bool) -> bool:
    """Return whether what was told is one's own setting."""
    match told:
        case list():
            return (
                isinstance(own, tuple | list)
                and len(told) == len(own)
                and all(is_told(a, b, parts, adapted) for a, b in zip(own, told, strict=True))
            )
        case {"map": {"kind": str(kind), "facts": dict(facts), "arrays": list(places)}}:
            if not isinstance(own, FeatureMap) or not set(places) <= set(range(len(parts.arrays))):
                return False
            inside = Message(kind, facts, tuple(parts.arrays[k] for k in places))
            return own.is_told_by(inside, adapted=adapted)
        case {"array": int(k)}:
            if not isinstance(own, np.ndarray) or not 0 <= k < len(parts.arrays):
                return False
            return np.array_equal(own, parts.arrays[k])
    return isinstance(own, bool) is isinstance(told, bool) and own == told


def form(what: str, *kinds: type[FeatureMap]) -> Callable[[Made], Made]:
    """Register a function as what makes another form of some maps; it stands above the function.

    Parameters
    ----------
    what
        "torch", "onnx", "c", or whatever else a package makes of maps.

    >>> from catchment import NVAR
    >>> @form("words", NVAR)
    ... def in_words(one):
    ...     return f"{one.delays} delays"
    >>> form_maker("words", NVAR(3))(NVAR(3))
    '3 delays'
    """

    def registered(make: Made) -> Made:
        _FORMS.update(((what, kind), make) for kind in kinds)
        return make

    return registered


def form_maker(what: str, features: FeatureMap) -> Callable[..., Any] | None:
    """Return what makes a form of a map, None if it has none; a subclass has none of its own."""
    return _FORMS.get((what, type(features)))


def known_map(value: object) -> FeatureMap:
    """Return a map, or the one of a name as it is when nothing is set.

    >>> known_map("echo_state").units
    200
    >>> known_map("echo_sate")
    Traceback (most recent call last):
    ValueError: there is no map 'echo_sate'; did you mean 'echo_state'?
    """
    if isinstance(value, str):
        kind = library_class(value)
        if kind is None:
            raise ValueError(f"there is no map {value!r}; {nearest(value, LIBRARY)}")
        try:
            value = kind()
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{value!r} needs settings ({error}); pass {kind.__name__}(...) in place of the "
                "name"
            ) from error
    if isinstance(value, type) and issubclass(value, FeatureMap):
        raise TypeError(f"the map is the class {value.__name__}; pass {value.__name__}(...)")
    if not isinstance(value, FeatureMap):
        kind = value if isinstance(value, type) else type(value)
        raise TypeError(
            f"{kind.__name__} is no feature map; write class {kind.__name__}(FeatureMap), with "
            "n_features, bounds and compute_rows, as catchment.features.base shows"
        )
    if value.is_bound:
        if not isinstance(value.n_features, int) or value.n_features < 1:
            raise ValueError(f"n_features is {value.n_features!r}; give an integer from 1 on")
        value.fingerprint  # noqa: B018  # raises now if a setting cannot travel
    return value


def label_of(features: FeatureMap) -> str:
    """Return what people read of a map: its name, maps inside it, and its number of features.

    >>> from catchment import FeatureUnion, EchoState
    >>> label_of(EchoState(50).build(3, per_step=True))
    'echo_state (50 units), 53 features'
    >>> label_of(FeatureUnion(EchoState(5), EchoState(10, seed=1)).build(1, per_step=True))
    'echo_state (5 units) + echo_state (10 units), 17 features'
    """
    return f"{features.title()}, {features.n_features} features"


@cache
def library_class(name: str) -> Any:
    """Return the class of a map of this project, None if there is none of this name.

    Its file is read only now, when somebody wants it.

    Of one that a package beside this one brings it is a MissingExtraError if that is missing.

    >>> library_class("nothing") is None
    True
    """
    if name not in LIBRARY:
        return plugin("maps", name) if name in known("maps") else None
    module, inside = LIBRARY[name]
    return getattr(importlib.import_module(f"catchment.features.{module}"), inside)


@contextmanager
def building_only(allowed: Allowed) -> Iterator[None]:
    """Within this, build only maps whose parts are allowed, and of classes that are named.

    For requests and files of somebody else: what they ask for is compared before it costs anything.
    """
    token = _ALLOWED.set(allowed)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def restored(parts: Message, classes: Iterable[type] = ()) -> FeatureMap:
    """Return the map that `parts` describes; no eigenvalue is solved.

    A file does not import anything: the class is one of the library, of `classes`, or of a module
    that this program has imported already; within `building_only` imported modules do not count.

    Parameters
    ----------
    parts
        As a map's `parts` made them.
    classes
        A user's own maps that may be meant.
    """
    guard = _ALLOWED.get()
    if guard is not None and not guard(parts):
        raise IntegrityError("the feature map is not one that was agreed on; nothing was built")
    own: Any = library_class(parts.kind)
    if own is not None and own.message_kind == parts.kind:
        found: FeatureMap = own.from_message(parts)
        return found
    if parts.kind != KIND:
        raise IntegrityError(
            f"there is no feature map of kind {parts.kind[:40]!r}; upgrade catchment"
        )
    name, settings = str(parts.facts.get("class")), parts.facts.get("settings")
    name = TODAY.get(name, name)
    if not isinstance(settings, dict):
        raise IntegrityError(f"the map {name!r} lacks its settings")
    named = tuple(classes)
    if name == "thinned" and "map" in settings:  # once a map, now the `row_stride` of sums
        inside: FeatureMap = _value(settings["map"], parts.arrays, named)
        return inside
    kind: Any = library_class(name) or _found(name, named, only_named=guard is not None)
    try:
        values = map(partial(_value, arrays=parts.arrays, classes=named), settings.values())
        own, told = kind.__dataclass_fields__, {}
        for k, one in zip(settings, values, strict=True):
            told[k if k in own else TODAY.get(k, k)] = one
        made = known_map(kind(**told))
    except (AttributeError, TypeError, KeyError, IndexError) as error:
        raise IntegrityError(f"the settings of the map {name!r} are not valid: {error}") from error
    if made.version != parts.facts.get("version"):
        raise IntegrityError(
            f"{name} has version {made.version!r} here, what was kept used "
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
        return resolve_name(name)
    except ImportError as error:
        raise ValueError(
            f"{name!r} cannot be imported ({error}); check the module's name"
        ) from error
    except AttributeError:
        raise ValueError(f"{module} has no {inside!r}; check the name") from None


def _found(name: str, classes: Iterable[type], *, only_named: bool) -> Any:
    for kind in classes:
        if f"{kind.__module__}:{kind.__qualname__}" == name:
            return kind
    module, _, inside = name.partition(":")
    value: Any = None if only_named else sys.modules.get(module)
    for part in inside.split("."):
        value = getattr(value, part, None)
    if not isinstance(value, type) or not issubclass(value, FeatureMap):
        raise UnknownMapError(
            f"the model uses the feature map {name}, which is not known here; import its module "
            f"first, pass its class to load, or on the command line say --use {name}"
        )
    return value


def told(value: object, where: str, arrays: list[NDArray[Any]]) -> Fact:
    """Return a setting as plain JSON; its arrays are appended and named by their places."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case np.ndarray():
            arrays.append(value)
            return {"array": len(arrays) - 1}
        case tuple() | list():
            return list(map(partial(told, where=where, arrays=arrays), value))
        case FeatureMap():
            parts = value.parts()
            first = len(arrays)
            arrays.extend(parts.arrays)
            places = list(range(first, len(arrays)))
            return {"map": {"kind": parts.kind, "facts": parts.facts, "arrays": places}}
    raise TypeError(
        f"{where} is a {type(value).__name__}; settings of a map are numbers, text, arrays, maps, "
        "and tuples of those"
    )


def _value(told: Any, arrays: Sequence[NDArray[Any]], classes: tuple[type, ...]) -> Any:
    """Return the setting that `told` told of."""
    match told:
        case {"array": int(place)}:
            return arrays[place]
        case {"map": {"kind": str(kind), "facts": dict(facts), "arrays": list(places)}}:
            inside = Message(kind, facts, tuple(map(arrays.__getitem__, places)))
            if _ALLOWED.get() is None:
                return restored(inside, classes)
            with building_only(lambda _: True):  # it was compared with the map around it
                return restored(inside, classes)
        case list():
            return tuple(map(partial(_value, arrays=arrays, classes=classes), told))
        case dict():
            raise TypeError(f"{str(told)[:40]} is no setting")
    return told


@dataclass(frozen=True)
class DefaultMap(FeatureMap):
    """Window statistics beside MiniRocket for windows, a reservoir of 200 units for steps.

    Forecasts, whose preparation has a horizon, are linear in the last values: 48 of every channel,
    or as many as there are columns for.

    Parameters
    ----------
    columns
        Features for one target per recording. What the statistics leave of them (17 a channel, and
        the correlations of up to 12 channels) are convolutions; where that would be fewer than 84,
        all are. Several channels have their norm as one more.
    seed
        Names the random draws.
    bits
        Bits of the features, as in the maps themselves.

    >>> windows = DefaultMap().build(3, per_step=False, classes=True)
    >>> windows.n_features, windows.standardize, windows.names()[0]
    (510, True, 'map0_mean_u0')
    >>> DefaultMap().build(3, per_step=True).n_features
    203
    """

    columns: PositiveInt = 510
    seed: int = 0
    bits: int | Literal["auto"] | None = "auto"

    is_bound = False
    n_features = bounds = compute_rows = UNBOUND

    def meant(self, n_inputs: int, *, per_step: bool) -> FeatureMap:
        """Return the map that this one stands for.

        >>> type(DefaultMap(100).meant(9, per_step=False)).__name__
        'AppendNorm'
        """
        if per_step:
            return _reservoir(self.seed, self.bits)
        statistics = library_class("window_statistics")(bits=self.bits)
        channels = n_inputs + (n_inputs > 1)
        left = self.columns - statistics.build(channels, per_step=False).n_features
        n_kernels = self.columns if left < FEWEST else left
        meant: FeatureMap = library_class("minirocket")(n_kernels, seed=self.seed, bits=self.bits)
        if left >= FEWEST:
            meant = library_class("feature_union")(statistics, meant)
        if n_inputs > 1:
            meant = library_class("append_norm")(meant)
        return meant


@dataclass(frozen=True)
class DefaultForecast(DefaultMap):
    """What the default map is where a horizon is set.

    >>> [DefaultForecast().meant(channels, per_step=True).delays for channels in (1, 20)]
    [48, 25]
    """

    def meant(self, n_inputs: int, *, per_step: bool) -> FeatureMap:
        """Return the last values, fewer of each channel where there are many channels."""
        if not per_step:  # windows with what is ahead of them
            return super().meant(n_inputs, per_step=False)
        lags = min(LAGS, max(1, self.columns // n_inputs))
        meant: FeatureMap = library_class("nvar")(lags, order=1, bits=self.bits)
        return meant


@dataclass(frozen=True)
class AutoMap(DefaultMap):
    """One of a few maps, chosen on clients left out: by accuracy for classes, by error otherwise.

    Clients send the statistics of every candidate in one message, as large as all of theirs
    together; classes are counted by three clients or more in one round more. The default map stays
    unless another is better by a standard error over clients, and of others that are as good the
    one that takes less work and fewer bytes is taken: candidates stand in this order. One owner
    chooses by generalized cross-validation. Where nothing can be chosen, because the server sees
    only a sum or there is one client, it is the default map.

    Parameters
    ----------
    columns
        Features of the larger candidates.
    seed
        Names the random draws.
    bits
        Bits of the features, as in the maps themselves.

    >>> [type(one).__name__ for one in AutoMap().candidates(3, per_step=False)]
    ['DefaultMap', 'WindowStatistics', 'MiniRocket', 'EchoState']
    >>> [type(one).__name__ for one in AutoMap().candidates(3, per_step=True)]
    ['EchoState', 'DiagonalReservoir', 'NVAR']
    """

    @property
    def fallback(self) -> DefaultMap:
        """What it is where nothing can be chosen, which is what `build` makes, too."""
        return DefaultMap(self.columns, self.seed, self.bits)

    def candidates(
        self, n_inputs: int, *, per_step: bool, ahead: bool = False
    ) -> tuple[FeatureMap, ...]:
        """Return the descriptions to choose from; the first of a forecast is its default."""
        reservoir = _reservoir(self.seed, self.bits)
        if per_step:
            diagonal = library_class("diagonal")(UNITS, seed=self.seed, bits=self.bits)
            # Products of as many delays as there is room for; none if not even two fit.
            fitting = [k for k in range(2, 11) if comb(k * n_inputs + 2, 2) <= self.columns]
            products = (library_class("nvar")(k, bits=self.bits) for k in fitting[-1:])
            return (*([self.fallback] if ahead else []), reservoir, diagonal, *products)
        convolutions = library_class("minirocket")(self.columns, seed=self.seed, bits=self.bits)
        statistics = library_class("window_statistics")(bits=self.bits)
        if self.fallback.meant(n_inputs, per_step=False) == convolutions:
            return convolutions, statistics, reservoir
        return self.fallback, statistics, convolutions, reservoir


def _reservoir(seed: int, bits: int | Literal["auto"] | None) -> FeatureMap:
    given = {"bits" if bits in ("auto", None) else "feature_bits": bits}
    made: FeatureMap = library_class("echo_state")(UNITS, seed=seed, **given)
    return made
