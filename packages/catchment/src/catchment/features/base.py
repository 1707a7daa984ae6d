"""What a feature map is: one base class, of which every map is one frozen dataclass.

    @dataclass(frozen=True)
    class Spectrum(FeatureMap):
        bands: int = 16

        @property
        def n_features(self) -> int:
            return self.bands

        @property
        def bounds(self) -> Array:                  # largest absolute value (F,)
            return np.ones(self.bands)

        def compute_rows(self, inputs, threads):    # one (n, F) array per recording
            return [band_energies(u, self.bands)[None] for u in inputs]

That is all. The recipe of a map is the name of its class and the values of its fields, which must
be plain (numbers, text, tuples of them), arrays, or maps; the fingerprint is their SHA-256. A class
that gives a row per step says `per_step = True`; one whose code changed says so with another
`version`. With `bits = 12` its features are rounded to 12 bits of their bounds, and its statistics
are integers. With `standardize = True` a ridge acts on its features divided by their spread.

A map that depends on the data has a field `n_inputs`, or bits of "auto": `build` returns it bound
to inputs of so many channels, which is the same class with these fields filled in.

Feature j of a map in fixed point of b bits is k 2^-d_j with |k| <= 2^b, where d_j = b - r_j binary
digits after the point and 2^r_j is the feature's bound, rounded up to a power of two.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import count
from operator import attrgetter, methodcaller
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import ArrayLike, NDArray

from catchment.arrays import Array, Integers, as_matrix, check_fields, check_type, refuse_nonfinite
from catchment.errors import ClippingWarning
from catchment.parallel import ordered_map
from catchment.plugins import installed, known
from catchment.wire import Fact, Message
from catchment.wire.kept import KEPT, KEPT_SETTINGS

KIND = "own_map"  # of the parts of a map
# The maps of this library by their names in plan files and in kept models: module and class.
LIBRARY: dict[str, tuple[str, str]] = {
    "echo_state": ("echo_state.echo_state", "EchoState"),
    "default": ("recipes", "DefaultMap"),
    "auto": ("recipes", "AutoMap"),
    "window_statistics": ("window_statistics", "WindowStatistics"),
    "feature_union": ("union", "FeatureUnion"),
    "hydra": ("hydra", "Hydra"),
    "minirocket": ("minirocket", "MiniRocket"),
    "random_projection": ("random_projection", "RandomProjection"),
    "diagonal": ("diagonal", "DiagonalReservoir"),
    "nvar": ("nvar", "NVAR"),
    "random_fourier_features": ("random_fourier", "RandomFourierFeatures"),
    "append_norm": ("union", "AppendNorm"),
}
NAMES = {place: name for name, place in LIBRARY.items()}
# Metadata of a field that is this machine's own affair, such as a path, and not in the recipe.
LOCAL: Mapping[str, Any] = MappingProxyType({"local": True})
AT_ONCE = 2**15  # features that are checked and rounded at a time
LEAST_BITS, MOST_BITS = 4, 24
Bits = Annotated[int, Ge(LEAST_BITS), Le(MOST_BITS)]  # of features in fixed point
MANY_CLIPPED = 0.01  # share of values beyond the range that is worth a warning
OR_WIDER = ", or pass a larger range"
BLOCK = 2048  # rows of a block that sums of products take
TOGETHER = 1 << 25  # bytes of the rows of short recordings that are asked for together
Arrays = tuple[Array, ...]
# Rows that one thread works on: asked with a number of buffers it yields blocks, each the number of
# its rows and [Z; Y'; 1] (F + K + 1, n), columns being rows with their targets, or zeros. A block
# stays valid until so many more were taken. None: all blocks before are void, others replace them.
Part = Callable[[int], Iterator[tuple[int, Array] | None]]


def handed(path: str) -> Any:
    """Return a property that is one of what is inside, such as "map.washout"."""
    return property(attrgetter(path))


@dataclass(frozen=True, eq=False)
class FeatureMap(ABC):
    """A fixed map from inputs (T, I) to feature rows (n, F), the same on every machine.

    `n_features`, `bounds` and `compute_rows` are a map's own; everything else has a default.

    >>> @dataclass(frozen=True)
    ... class Range(FeatureMap):
    ...     n_features = 1
    ...     bounds = np.array([np.inf])
    ...     def compute_rows(self, inputs, threads):
    ...         return [np.ptp(u, axis=0)[None] for u in inputs]
    >>> Range().rows([[1.0, 4.0, 2.0]])
    [array([[3.]])]
    """

    message_kind: ClassVar[str] = KIND
    version: ClassVar[Fact] = None  # another one wherever rows of the same settings change
    pools_always: ClassVar[bool] = False  # whether it is no map for a target per step
    n_more_inputs: ClassVar[int] = 0  # that a map within has
    class_bits: ClassVar[int] = 8  # that bits of "auto" are where targets are classes

    # Settings are checked by the types of the fields.
    __post_init__ = check_fields  # type: ignore[misc]  # a function of an instance is a method

    def __init_subclass__(cls) -> None:
        """Raise TypeError for a field without a default where every map has a property."""
        super().__init_subclass__()
        for name in cls.__annotations__:
            if name not in vars(cls) and isinstance(getattr(cls, name, None), property):
                raise TypeError(
                    f"{cls.__name__} has a field {name!r} without a default, and every map has "
                    f"{name}; give the field a default, or another name"
                )

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Columns F of its rows."""

    @property
    @abstractmethod
    def bounds(self) -> Array:
        """Largest absolute value (F,) of each feature, infinite where there is none."""

    @abstractmethod
    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> Sequence[Array]:
        """Return the rows (n, F) of each recording's inputs (T, I), which were checked."""

    def gpu_rows(self, inputs: Sequence[Array], gpu: int) -> Sequence[Array] | None:
        """Return what `compute_rows` does, made on a GPU by means of its own; None without any."""
        return None

    @property
    def n_inputs(self) -> int | None:
        """Channels that it takes, which a map inside it may say; None if any number will do."""
        return next(filter(None, map(attrgetter("n_inputs"), self.inner_maps)), None)

    @property
    def per_step(self) -> bool:
        """Whether every step after the washout gives a row, as those of maps inside it do.

        Else there is one per recording.
        """
        return any(map(attrgetter("per_step"), self.inner_maps))

    @property
    def washout(self) -> int:
        """Steps at the start of each recording that give no row: the most of maps inside it."""
        return max(map(attrgetter("washout"), self.inner_maps), default=0)

    @property
    def bits(self) -> Any:
        """Bits b of its features, None if they are plain float64; "auto" before it is bound.

        With bits feature j is an integer, of absolute value up to 2^b, times 2^(r_j - b),
        where 2^r_j is its bound rounded up to a power of two.
        """
        return None

    # The same, also of a map that calls something else its bits.
    feature_bits = handed("bits")

    @property
    def constant(self) -> bool:
        """Whether the first feature is one in every row."""
        return False

    @property
    def standardize(self) -> bool:
        """Whether a ridge should act on features divided by their spread over all clients."""
        return False

    @property
    def reservoir(self) -> Any:
        """The reservoir whose states are its features; None if it has none."""
        return None

    @property
    def precision(self) -> str:
        """Of what its features are made of."""
        return "float64"

    @property
    def cost(self) -> float:
        """Multiplications and additions for one step of one recording, about."""
        return float(self.n_features)

    def names(self) -> list[str]:
        """Return the name of every feature, in order."""
        return [f"z{k}" for k in range(self.n_features)]

    def title(self) -> str:
        """Return what people read of it: its name, with the maps inside it."""
        inner = ", ".join(one.title() for one in self.inner_maps)
        return f"{name_of(self)} ({inner})" if inner else name_of(self)

    # Binding to inputs.

    @cached_property
    def inner_maps(self) -> tuple[FeatureMap, ...]:
        """The maps that are settings of this one."""
        found = []
        for one in fields(self):
            value = getattr(self, one.name)
            for inner in value if type(value) is tuple else (value,):
                if isinstance(inner, FeatureMap):
                    found.append(inner)
        return tuple(found)

    @cached_property
    def is_bound(self) -> bool:
        """Whether all is known that depends on the data, so that it has rows."""
        if not all(map(attrgetter("is_bound"), self.inner_maps)):
            return False
        waits = self.n_inputs is None and "n_inputs" in self.__dataclass_fields__
        return not waits and self.bits != "auto"

    @property
    def known_inputs(self) -> int:
        """Channels of a map that is bound to them; ValueError before."""
        if self.n_inputs is None:
            raise self.unbound()
        return self.n_inputs

    def unbound(self) -> ValueError:
        """Return what to raise where a map is asked for what only a bound one has."""
        return ValueError(
            f"{type(self).__name__} does not know its inputs yet; call build(n_inputs, "
            "per_step=...) for the map of so many channels"
        )

    def meant(self, n_inputs: int, *, per_step: bool) -> FeatureMap:
        """Return the map that this one stands for: itself, unless overridden."""
        return self

    def settled(self, n_inputs: int, *, per_step: bool, classes: bool) -> dict[str, Any]:
        """Return fields that binding fills in beside `n_inputs`; inner maps are bound.

        Bits of "auto" are `class_bits` or 24 if it does not say (docs/concepts/integers.md).
        ValueError if it is no map for such data.
        """
        return {}

    def build(self, n_inputs: int, *, per_step: bool, classes: bool = False) -> FeatureMap:
        """Return the map bound to inputs of this many channels.

        Parameters
        ----------
        per_step
            Whether every step has a target of its own, or a whole recording has one.
        classes
            Whether targets are classes, or numbers.
        """
        meant = self.meant(n_inputs, per_step=per_step)
        if meant is not self:
            return meant.build(n_inputs, per_step=per_step, classes=classes)
        if self.is_bound:
            if self.n_inputs not in (None, n_inputs):
                raise ValueError(
                    f"the data have {n_inputs} channels, {name_of(self)} was built for "
                    f"{self.n_inputs}; pass data with the same channels, or the map before it is "
                    "built, such as EchoState(200)"
                )
            return self
        if per_step and self.pools_always:
            raise ValueError(
                f"{type(self).__name__} gives one row for a recording, and here every step has a "
                "target; use a map with a row per step, such as EchoState, or cut the recordings "
                "into windows"
            )
        made = self
        if self.inner_maps:
            inside = n_inputs + self.n_more_inputs
            bound = methodcaller("build", inside, per_step=per_step, classes=classes)
            made = self.with_inner(list(map(bound, self.inner_maps)))
        filled = made.settled(n_inputs, per_step=per_step, classes=classes)
        if "n_inputs" in self.__dataclass_fields__:
            filled["n_inputs"] = n_inputs
        if made.bits == "auto":
            filled.setdefault("bits", self.class_bits if classes else 24)
        return replace(made, **filled)

    def with_inner(self, maps: Sequence[FeatureMap]) -> Self:
        """Return it with other inner maps, in the order of `inner_maps`."""
        waiting = iter(maps)
        changed: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            items = list(value) if type(value) is tuple else [value]
            for k, item in enumerate(items):
                if isinstance(item, FeatureMap):
                    items[k] = next(waiting)
                    changed[one.name] = tuple(items) if type(value) is tuple else items[0]
        return replace(self, **changed)

    # Rows.

    def rows(self, inputs: Sequence[ArrayLike], *, threads: int | None = None) -> list[Array]:
        """Return the feature rows (n, F) of each recording's inputs."""
        if not self.is_bound:
            raise self.unbound()
        us = list(map(self.checked_inputs, inputs, count()))
        if not us:
            return []
        found = list(map(np.asarray, self.compute_rows(us, threads)))
        if len(found) != len(us):
            raise ValueError(f"{name_of(self)} gave {len(found)} results for {len(us)} recordings")
        per_step, washout, n_features = self.per_step, self.washout, self.n_features
        for u, z in zip(us, found, strict=True):
            n_rows = len(u) - washout if per_step else 1
            if z.shape != (n_rows, n_features):
                raise ValueError(
                    f"{name_of(self)} gave rows of shape {z.shape} for a recording of {len(u)} "
                    f"steps; return ({n_rows}, {n_features})"
                )
        together = np.concatenate(found, dtype=np.float64)
        # A few rows at a time stay in the cache from one step to the next.
        size = max(1, AT_ONCE // n_features)
        for at in range(0, len(together), size):
            together[at : at + size] = self.checked_rows(together[at : at + size])
        return np.split(together, np.cumsum(list(map(len, found)))[:-1])

    def refuse_segments(self) -> None:
        """Raise ValueError if the map needs recordings whole, as one without `go_on` does."""
        if type(self).go_on is FeatureMap.go_on:
            self.go_on(np.empty((0, 0)), 0, ())

    def go_on(self, u: Array, steps: int, carried: Arrays) -> tuple[Array, Arrays]:
        """Return the rows (n, F) of a recording's next steps u (T, I), and what to carry then.

        A map with a memory needs no old inputs, only what it remembers: the state of a reservoir,
        the last inputs of an autoregression, the sums of a pool. Rows of a recording in segments
        are those of the recording in one piece: the same bits in fixed point, to rounding without
        one.

        Parameters
        ----------
        steps
            How many steps of the recording came before.
        carried
            What was carried after them; nothing at a recording's first step.
        """
        raise ValueError(
            f"{name_of(self)} needs a recording whole, so that none can go on in a later "
            "round; cut recordings into windows, or use EchoState, DiagonalReservoir or NVAR"
        )

    def at_end(self, steps: int, carried: Arrays) -> Array:
        """Return the rows (0 or 1, F) that a recording of so many steps gives at its end."""
        return np.empty((0, self.n_features))

    def stacked(
        self,
        inputs: Sequence[ArrayLike],
        targets: Sequence[Array],
        roots: Array,
        *,
        threads: int | None = None,
        rounded: bool = True,
    ) -> list[Part]:
        """Return the rows of recordings beside their targets, a part of them at a time.

        Only of a map with a row per step.

        Parameters
        ----------
        targets
            (T, K) or (K,) of each recording, NaN where a row is to be left out.
        roots
            Of the recordings' weights; columns are multiplied by them.
        rounded
            Whether features are rounded to their bits; False if who takes them rounds them anyway.
        """
        n_rows = max(1, TOGETHER // (8 * self.n_features))
        groups: list[list[int]] = [[]]
        steps = 0
        for k, u in enumerate(inputs):
            if groups[-1] and steps + len(u) > n_rows:  # type: ignore[arg-type]  # they have steps
                groups.append([])
                steps = 0
            groups[-1].append(k)
            steps += len(u)  # type: ignore[arg-type]
        inside = threads if len(groups) == 1 else 1

        def part(group: list[int]) -> Part:
            def blocks(n_buffers: int) -> Iterator[tuple[int, Array]]:
                size, K = self.n_features, targets[0].shape[-1]
                block, filled = np.empty((BLOCK, size + K + 1)), 0
                for k, z, y in self._known_rows(group, inputs, targets, n_rows, inside):
                    done = 0
                    while done < len(z):
                        n = min(len(z) - done, BLOCK - filled)
                        into = block[filled : filled + n]
                        into[:, :size], into[:, size:-1] = z[done : done + n], y[done : done + n]
                        into[:, -1] = 1.0
                        if roots[k] != 1:
                            into *= roots[k]
                        done, filled = done + n, filled + n
                        if filled == BLOCK:
                            yield BLOCK, block.T
                            block, filled = np.empty_like(block), 0
                yield filled, block[:filled].T

            return blocks

        return [part(group) for group in groups]

    def _known_rows(
        self,
        group: Sequence[int],
        inputs: Sequence[ArrayLike],
        targets: Sequence[Array],
        n_rows: int,
        threads: int | None,
    ) -> Iterator[tuple[int, Array, Array]]:
        """Yield numbers of recordings, rows (n, F) whose targets are known, and these (n, K).

        A map that can go on with a recording does so every `n_rows` steps, whatever its length.
        """
        goes_on = type(self).go_on is not FeatureMap.go_on
        rows = [] if goes_on else self.rows([inputs[k] for k in group], threads=threads)
        for place, k in enumerate(group):
            carried: Arrays = ()
            u = self.checked_inputs(inputs[k], k)
            y = np.broadcast_to(targets[k], (len(u), targets[k].shape[-1]))
            done = self.washout
            for at in range(0, len(u), n_rows if goes_on else len(u)):
                if goes_on:
                    z, carried = self.go_on(u[at : at + n_rows], at, carried)
                else:
                    z = rows[place]
                own = y[done : done + len(z)]
                known = np.logical_not(np.isnan(own).any(axis=1))
                yield k, z[known], own[known]
                done += len(z)

    def stacked_each(
        self, inputs: Sequence[ArrayLike], targets: Sequence[Array], roots: Array
    ) -> Iterator[tuple[int, Array]]:
        """Yield the number and all columns [Z; Y'; 1] of each recording that is short.

        They are the same whoever else is among them, and features may not be rounded yet.
        """
        return iter(())

    def is_short(self, n_steps: int, n_targets: int) -> bool:
        """Whether a recording has so few steps that it is worth its while to wait for others."""
        return False

    def checked_inputs(self, u: ArrayLike, k: int = 0) -> Array:
        """Return the inputs (T, I) of recording k, finite and with the right channels."""
        found = as_matrix(u, f"recording {k}")
        refuse_nonfinite(found, f"recording {k}")
        if self.n_inputs not in (None, found.shape[1]):
            raise ValueError(
                f"recording {k} has {found.shape[1]} channels, {name_of(self)} was built for "
                f"{self.n_inputs}; pass inputs with shape (T, {self.n_inputs})"
            )
        return found

    def after_washout(self, u: Array) -> int:
        """Return how many steps of inputs (T, I) give features; ValueError if none does."""
        if len(u) <= self.washout:
            raise ValueError(
                f"a recording has {len(u)} steps and washout is {self.washout}; use a shorter one, "
                "or a longer recording"
            )
        return len(u) - self.washout

    def checked_rows(self, z: Array) -> Array:
        """Return rows that are finite and within their bounds, in fixed point if they are."""
        if not (np.abs(z) <= self.limits).all():
            if not np.isfinite(z).all():
                raise ValueError(
                    f"{name_of(self)} gave features that are not finite; mend its rows"
                )
            raise ValueError(
                f"{name_of(self)} gave a feature of {np.abs(z).max():g}, outside its bounds; widen "
                "`bounds`, or limit the values"
            )
        if self.feature_bits is None:
            return z
        return in_fixed_point(z, self.feature_digits, self.feature_bits)

    @cached_property
    def limits(self) -> Array:
        """Bounds (F,) with room for rounding; finite, so that no infinite feature is within."""
        given = np.asarray(self.bounds, dtype=np.float64)
        if given.shape != (self.n_features,) or np.isnan(given).any():
            raise ValueError(
                f"bounds of {name_of(self)} have shape {given.shape}; give the largest absolute "
                f"value of each of {self.n_features} features"
            )
        return np.minimum(given * (1 + 1e-9), np.finfo(np.float64).max)

    @cached_property
    def feature_digits(self) -> Integers:
        """Binary digits (F,) after the point of features in fixed point."""
        check_type(self.feature_bits, Bits, f"bits of {name_of(self)}")
        return digits_after_point(self.bounds, self.feature_bits)

    @property
    def reached_bounds(self) -> Array:
        """The largest absolute value (F,) of each feature after it was rounded to fixed point.

        That may be beyond the bound by half a step. The power of two that fixed point
        hangs on stays the same.

        >>> from catchment import WindowStatistics
        >>> built = WindowStatistics(range=5.3).build(1, per_step=False, classes=True)
        >>> float(built.bounds[0]), float(built.reached_bounds[0])
        (5.3, 5.3125)
        """
        if self.feature_bits is None:
            return self.bounds
        digits = self.feature_digits
        return np.ldexp(np.ceil(np.ldexp(self.bounds, digits)), -digits)

    # The traveling form.

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that could change a row, in hexadecimal."""
        return hashlib.sha256(self.parts().to_bytes()).hexdigest()

    def parts(self) -> Message:
        """Return the recipe as it travels and is kept; `restored` rebuilds the map from it."""
        from catchment.features.recipes import told

        name = name_of(self)
        if "__dataclass_fields__" not in vars(type(self)):
            raise TypeError(
                f"{name} is no dataclass; write @dataclass(frozen=True) above it, so that its "
                "settings are known"
            )
        facts: dict[str, Fact] = {"class": KEPT.get(name, name), "version": self.version}
        if self.bits is not None:
            facts["grid"] = self.bits
        arrays: list[NDArray[Any]] = []
        settings: dict[str, Fact] = {}
        for one in fields(self):
            if not one.metadata.get("local"):
                value, kept = getattr(self, one.name), KEPT_SETTINGS.get(one.name, one.name)
                settings[kept] = told(value, f"{name}.{one.name}", arrays)
        return Message(KIND, facts | {"settings": settings}, tuple(arrays))

    def describes(
        self,
        parts: Message,
        n_inputs: int,
        *,
        per_step: bool,
        classes: bool = False,
        adapted: bool = False,
    ) -> bool:
        """Return whether parts are those of this map bound to such inputs, but for the scale.

        Nothing is built from them, so that what somebody else asks for is compared before it costs
        anything, and no eigenvalue is solved.

        Parameters
        ----------
        adapted
            Whether plasticity may have changed it since.

        >>> from catchment import FeatureUnion, EchoState
        >>> parts = FeatureUnion(EchoState(20), EchoState(10)).build(1, per_step=True).parts()
        >>> FeatureUnion(EchoState(20), EchoState(10)).describes(parts, 1, per_step=True)
        True
        >>> FeatureUnion(EchoState(10), EchoState(20)).describes(parts, 1, per_step=True)
        False
        """
        mine = self.build(n_inputs, per_step=per_step, classes=classes)
        return mine.is_told_by(parts, adapted=adapted)

    def is_told_by(self, parts: Message, *, adapted: bool) -> bool:
        """Return whether parts are those of this bound map, as `describes` compares."""
        from catchment.features.recipes import is_told

        if not self.inner_maps:
            return self.parts().to_bytes() == parts.to_bytes()
        name = name_of(self)
        facts = {"class": KEPT.get(name, name), "version": self.version}
        facts |= {} if self.bits is None else {"grid": self.bits}
        settings = parts.facts.get("settings")
        own = [one.name for one in fields(self) if not one.metadata.get("local")]
        kept = {k: KEPT_SETTINGS.get(k, k) for k in own}
        return (
            parts.kind == KIND
            and {**parts.facts, "settings": None} == {**facts, "settings": None}
            and isinstance(settings, dict)
            and settings.keys() == {*kept.values()}
            and all(is_told(getattr(self, k), settings[kept[k]], parts, adapted) for k in own)
        )


# Members of a map that is never bound itself: it stands for another, and knows no inputs.
UNBOUND = handed("known_inputs")


def name_of(features: FeatureMap) -> str:
    """Return what a map is called, as a plan file names it: a user's own by its class."""
    module, inside = type(features).__module__, type(features).__qualname__
    if module.startswith("catchment.features."):
        return NAMES.get((module.removeprefix("catchment.features."), inside), inside)
    place, brought = f"{module}:{inside}", installed("maps")
    own = (name for name in known("maps") if name in brought and brought[name].value == place)
    return next(own, place)


def digits_after_point(bounds: Array, bits: int) -> Integers:
    """Return the binary digits (F,) after the point of features with these bounds.

    >>> digits_after_point(np.array([1.0, 8.0, 0.3]), 12)
    array([12,  9, 13])
    """
    if not (np.isfinite(bounds).all() and (bounds > 0).all()):
        raise ValueError(
            f"fixed point of {bits} bits needs finite bounds above zero, and a feature has "
            f"{bounds[~(np.isfinite(bounds) & (bounds > 0))][0]}; declare bounds, or bits=None"
        )
    # frexp is exact where a logarithm is not: bound = fraction 2^exponent, fraction in [1/2, 1).
    fraction, exponent = np.frexp(bounds)
    return np.asarray(bits - (exponent - (fraction == 0.5)), dtype=np.int64)


def in_fixed_point(rows: Array, digits: Integers, bits: int) -> Array:
    """Return rows (n, F) rounded to fixed point, ties to even, and cut off where its range ends.

    >>> in_fixed_point(np.array([[0.30, -9.0]]), np.array([2, 1]), 4)
    array([[ 0.25, -8.  ]])
    """
    unit = np.ldexp(1.0, digits)
    scaled = rows * unit
    np.rint(scaled, out=scaled)
    np.clip(scaled, -(2.0**bits), 2.0**bits, out=scaled)
    scaled /= unit
    scaled += 0.0  # turns -0 into 0, so that equal numbers have equal bits
    return scaled


def in_batches(
    work: Callable[[list[Array]], Array], inputs: Sequence[Array], threads: int | None, n_steps: int
) -> list[Array]:
    """Return the rows (1, F) of each recording (T, I), in order.

    Parameters
    ----------
    work
        Returns rows (n, F) of recordings of one length.
    n_steps
        Of a task of one thread, unless one recording has more.

    >>> mean = lambda us: np.stack(us).mean(axis=1)
    >>> in_batches(mean, [np.array([[1.0], [3.0]]), np.array([[5.0]])], 1, 9)
    [array([[2.]]), array([[5.]])]
    """
    by_length: dict[int, list[int]] = {}
    for k, u in enumerate(inputs):
        by_length.setdefault(len(u), []).append(k)
    tasks, given = [], []
    for length, places in by_length.items():
        size = max(1, n_steps // length)
        for at in range(0, len(places), size):
            tasks.append(places[at : at + size])
            given.append(list(map(inputs.__getitem__, tasks[-1])))
    rows: list[Array] = [np.empty(0)] * len(inputs)
    for task, z in zip(tasks, ordered_map(work, given, threads=threads), strict=True):
        for k, row in zip(task, z, strict=True):
            rows[k] = row[None]
    return rows


def power_of_two(value: float, name: str) -> float:
    """Return the value if it is a power of two.

    >>> power_of_two(8, "range")
    8.0
    """
    if math.frexp(value)[0] != 0.5:
        raise ValueError(f"{name} is {value:g}; give a power of two, such as 4 or 8")
    return float(value)


def warn_of_clipping(
    n_clipped: int | np.integer[Any], size: int, largest: float, more: str = ""
) -> None:
    """Warn if many of the input values, so many of all, are cut off at this absolute value.

    >>> warn_of_clipping(0, 5, 8.0)
    """
    share = n_clipped / max(1, size)
    if share > MANY_CLIPPED:
        warnings.warn(
            f"{share:.2%} of the input values lie beyond {largest:g} and were cut off there; scale "
            f"the inputs to a standard deviation of 1{more}",
            ClippingWarning,
            stacklevel=4,
        )
