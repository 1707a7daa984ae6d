"""The settings of a reservoir: the checks that each passes once, and what a layer has of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from math import isqrt
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, choice, flag, real, whole
from catchment.features.echo_state.weights import (
    ACTIVATIONS,
    LEAST_DIGITS,
    MOST_DIGITS,
    SIGNED,
    TOPOLOGIES,
    Purpose,
    Wiring,
    Words,
    geometric,
    log_uniform,
    permutation,
    uniform,
)

if TYPE_CHECKING:
    from catchment.features.echo_state.reservoir import Reservoir


def grid_digits(value: object, name: str) -> int | None:
    """Return the digits of a grid of states, or None for float64.

    >>> grid_digits(20, "bits")
    20
    """
    if value is None:
        return None
    try:
        return whole(value, name, at_least=LEAST_DIGITS, below=MOST_DIGITS + 1)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error}, or None for float64") from None


def power_of_two(value: object, name: str) -> float:
    """Return the value if it is a power of two from 1/256 to 256.

    >>> power_of_two(8, "input_range")
    8.0
    """
    number = real(value, name, at_least=2.0**-8, at_most=2.0**8)
    if math.frexp(number)[0] != 0.5:
        raise ValueError(f"{name} is {number}; give a power of two, such as 4 or 8")
    return number


def cut_of(value: object, name: str) -> tuple[int, int]:
    """Return the length of a part and its warm-up: both 0, or a warm-up up to the length.

    >>> cut_of([1024, 256], "cut")
    (1024, 256)
    """
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{name} is {value!r}; give two integers, length and warm-up")
    L, M = whole(value[0], name), whole(value[1], name)
    if (L == 0) != (M == 0) or M > L:
        raise ValueError(f"{name} is {(L, M)}; give (0, 0), or a warm-up from 1 to the length")
    return L, M


@dataclass(frozen=True)
class Uniform:
    """Leak rates that differ from unit to unit, drawn evenly between low and high.

    >>> Uniform(0.1, 0.9)
    Uniform(low=0.1, high=0.9)
    """

    kind: ClassVar[str] = "uniform"  # in files

    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", real(self.low, "low", above=0.0, at_most=1.0))
        object.__setattr__(self, "high", real(self.high, "high", above=0.0, at_most=1.0))
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}; exchange them")

    def rates(self, rng: Words, n: int) -> Array:
        """Return the rates (n,) of n units."""
        return uniform(rng, n, self.low, self.high)


class LogUniform(Uniform):
    """Leak rates whose logarithms are drawn evenly."""

    kind = "log_uniform"

    def rates(self, rng: Words, n: int) -> Array:
        return log_uniform(rng, n, self.low, self.high)


class Linspace(Uniform):
    """Leak rates evenly spaced, from low at the first unit to high at the last."""

    kind = "layered"

    def rates(self, rng: Words, n: int) -> Array:
        spaced = self.low + (self.high - self.low) * (np.arange(n) / max(1, n - 1))
        return np.clip(spaced, self.low, self.high)


class LongTail(Uniform):
    """The high rate for three quarters of the units, and rates that fall geometrically to the low.

    Most units are quick, a few remember for long.
    """

    kind = "tail"

    def rates(self, rng: Words, n: int) -> Array:
        n_quick = round(0.75 * n)
        slow = geometric(n - n_quick, self.low, self.high)
        return np.append(np.full(n_quick, self.high), slow)


RANGES = {one.kind: one for one in (Uniform, LogUniform, Linspace, LongTail)}


@dataclass(frozen=True, kw_only=True)
class MixedActivation:
    """Fractions of the units, placed at random, that have each activation.

    >>> MixedActivation(tanh=0.75, sin=0.25).parts
    (('tanh', 0.75), ('sin', 0.25))
    """

    tanh: float = 0.0
    sigmoid: float = 0.0
    relu: float = 0.0
    sin: float = 0.0
    identity: float = 0.0

    def __post_init__(self) -> None:
        for name in ACTIVATIONS:
            object.__setattr__(self, name, real(getattr(self, name), name, at_least=0.0))
        total = math.fsum(fraction for _, fraction in self.parts)
        if abs(total - 1.0) > 1e-9:
            raise ValueError(f"the fractions of activations sum to {total}; make them sum to 1")

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        """Return the activations in use with their fractions."""
        pairs = ((name, float(getattr(self, name))) for name in ACTIVATIONS)
        return tuple((name, fraction) for name, fraction in pairs if fraction > 0.0)

    def codes(self, rng: Words, n: int) -> NDArray[np.uint8]:
        """Return the places (n,) in `ACTIVATIONS` of the activations of n units."""
        names, fractions = zip(*self.parts, strict=True)
        # Largest remainders: integers of units that sum to n and follow the fractions.
        share = np.array(fractions) * n
        counts = np.floor(share).astype(np.int64)
        order = np.argsort(counts - share, kind="stable")
        counts[order[: n - int(counts.sum())]] += 1
        codes = np.array([ACTIVATIONS.index(name) for name in names], dtype=np.uint8)
        placed = np.empty(n, dtype=np.uint8)
        placed[permutation(rng, n)] = np.repeat(codes, counts)
        return placed


def _or(kind: type, check: Callable[[object, str], object]) -> Callable[[object, str], object]:
    return lambda value, name: value if isinstance(value, kind) else check(value, name)


@dataclass(frozen=True, kw_only=True)
class LayerSettings:
    """The settings of one layer, with every default filled in."""

    units: int
    inputs: int
    wiring: Wiring
    spectral_radius: float
    input_scaling: float
    input_connections: int
    bias_scaling: float
    leak_rate: float | Uniform
    activation: str | MixedActivation
    gain: float
    shift: float

    @property
    def leaks(self) -> Array:
        """Leak rates (N,) of the units."""
        if isinstance(self.leak_rate, Uniform):
            return self.leak_rate.rates(self.wiring.words(Purpose.LEAK), self.units)
        return np.full(self.units, self.leak_rate)

    @property
    def activations(self) -> NDArray[np.uint8]:
        """Places (N,) in `ACTIVATIONS` of the units' activations."""
        if isinstance(self.activation, MixedActivation):
            return self.activation.codes(self.wiring.words(Purpose.ACTIVATION), self.units)
        return np.full(self.units, ACTIVATIONS.index(self.activation), dtype=np.uint8)


DEFAULT_CONNECTIONS = 10
DEFAULT_REWIRING = 0.1
DEFAULT_JUMP_WEIGHT = 0.5

CHECKS: dict[str, Callable[[object, str], object]] = {
    "units": partial(whole, at_least=1, below=2**32),
    "topology": partial(choice, options=TOPOLOGIES),
    "density": partial(real, at_least=0.0, at_most=1.0),
    "connections": whole,
    "rewiring": partial(real, at_least=0.0, at_most=1.0),
    "jump": whole,
    "jump_weight": real,
    "random_signs": flag,
    "spectral_radius": partial(real, at_least=0.0),
    "input_scaling": partial(real, at_least=0.0),
    "input_connections": whole,
    "bias_scaling": partial(real, at_least=0.0),
    "leak_rate": _or(Uniform, partial(real, above=0.0, at_most=1.0)),
    "activation": _or(MixedActivation, partial(choice, options=ACTIVATIONS)),
    "gain": real,
    "shift": real,
    "scale": real,
}
_MAY_BE_NONE = (
    "density",
    "connections",
    "rewiring",
    "jump",
    "jump_weight",
    "input_connections",
    "scale",
)
_APPLIES = {
    "density": ("random",),
    "connections": ("random", "small_world", "scale_free"),
    "rewiring": ("small_world",),
    "jump": ("cycle_jumps",),
    "jump_weight": ("cycle_jumps",),
    "random_signs": SIGNED,
}
_LEAST_UNITS = {"small_world": 3, "scale_free": 2, "cycle_jumps": 4}


def plain(value: object) -> object:
    """Return a setting as JSON has it; `from_plain` reads it."""
    if isinstance(value, Uniform):
        return {"kind": value.kind, "low": value.low, "high": value.high}
    if isinstance(value, MixedActivation):
        return dict(value.parts)
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def from_plain(value: object, name: str) -> object:
    """Return the setting of this name that `plain` made JSON of."""
    if isinstance(value, list):
        return tuple(from_plain(item, name) for item in value)
    if isinstance(value, str) and name == "scale":
        try:
            return float.fromhex(value)
        except (ValueError, OverflowError):
            raise ValueError(f"scale is {value!r}; give hexadecimal floats") from None
    if not isinstance(value, dict):
        return value
    known = ACTIVATIONS if name == "activation" else ("kind", "low", "high")
    for part in value:
        if part not in known:
            raise ValueError(f"{name} has a part {part!r}; the parts are {', '.join(known)}")
    if name == "activation":
        return MixedActivation(**value)
    kind = choice(value.pop("kind", None), f"kind of {name}", options=tuple(RANGES))
    return RANGES[kind](**value)


def checked_setting(value: object, name: str, where: str | None = None) -> object:
    """Return the setting, or the tuple of one setting per layer, in its exact type."""
    if where is None and isinstance(value, (list, tuple)):
        return tuple(checked_setting(item, name, f"{name}[{i}]") for i, item in enumerate(value))
    if value is None and name in _MAY_BE_NONE:
        return None
    return CHECKS[name](value, where or name)


def settings_of(reservoir: Reservoir, index: int) -> LayerSettings:
    """Return the settings of one layer, with every default filled in."""
    given = ((name, getattr(reservoir, name)) for name in CHECKS)
    at = {name: v[index] if isinstance(v, tuple) else v for name, v in given}
    units, first = at["units"], index == 0
    below = reservoir.units if isinstance(reservoir.units, tuple) else ()
    inputs = reservoir.inputs if first else below[index - 1]
    if at["input_connections"] is None:
        at["input_connections"] = inputs if first else min(DEFAULT_CONNECTIONS, inputs)
    if at["input_connections"] > inputs:
        raise ValueError(
            f"input_connections is {at['input_connections']} in layer {index}, which has {inputs} "
            f"inputs; give at most {inputs}"
        )
    own = {field.name: at[field.name] for field in fields(LayerSettings) if field.name in at}
    wiring = _wiring(at, units, index, reservoir.seed)
    return LayerSettings(**own, inputs=inputs, wiring=wiring)


def _wiring(at: dict[str, Any], units: int, index: int, seed: int) -> Wiring:
    topology = at["topology"]
    for name, topologies in _APPLIES.items():
        if at[name] is not None and at[name] is not False and topology not in topologies:
            raise ValueError(
                f"{name} is set for layer {index}, whose topology is {topology!r}; it applies to "
                f"{', '.join(topologies)}: leave it out, or pass a tuple with None for this layer"
            )
    if units < _LEAST_UNITS.get(topology, 1):
        raise ValueError(
            f"units is {units} in layer {index}; topology {topology!r} needs at least "
            f"{_LEAST_UNITS[topology]}"
        )
    density, connections = at["density"], at["connections"]
    if density is not None and connections is not None:
        raise ValueError(
            f"density {density} and connections {connections} both set layer {index}; give one"
        )
    small_world, cycle_jumps = topology == "small_world", topology == "cycle_jumps"
    rewiring, weight = at["rewiring"], at["jump_weight"]
    if rewiring is None:
        rewiring = DEFAULT_REWIRING if small_world else 0.0
    if weight is None:
        weight = DEFAULT_JUMP_WEIGHT if cycle_jumps else 0.0
    jump = max(2, isqrt(units)) if at["jump"] is None else at["jump"]
    if cycle_jumps and not 2 <= jump <= units // 2:
        raise ValueError(
            f"jump is {jump}; for {units} units give an integer from 2 to {units // 2}"
        )
    return Wiring(
        topology=topology,
        units=units,
        density=density,
        connections=_connections(topology, units, density, connections),
        rewiring=rewiring,
        jump=jump if cycle_jumps else 1,
        jump_weight=weight,
        random_signs=at["random_signs"],
        seed=seed,
        layer=index,
    )


def _connections(topology: str, units: int, density: float | None, given: int | None) -> int:
    if topology not in _APPLIES["connections"] or density is not None:
        return 0
    most = {"random": units, "small_world": units - 1, "scale_free": 2 * units - 2}[topology]
    if given is None:
        even = max(2, (units - 1) // 2 * 2)
        return min(DEFAULT_CONNECTIONS, units if topology == "random" else even)
    if given > most:
        raise ValueError(
            f"connections is {given}, more than {units} units of topology {topology!r} can have; "
            f"give at most {most}"
        )
    if topology != "random" and (given % 2 or given < 2):
        raise ValueError(f"connections is {given}; topology {topology!r} needs an even number >= 2")
    return given
