"""The settings of a reservoir: the checks that each passes once, and the matrix of each layer.

Of the recurrent matrices `random`, `small_world` (Watts and Strogatz 1998) and `scale_free`
(Barabási and Albert 1999) have weights uniform in (-1, 1); both directions of an edge of the last
two get a weight of their own. `ring`, `delay_line`, `permutation` and `cycle_jumps` (Rodan and Tiňo
2011, 2012) have weight 1, or a random sign each. `orthogonal` is a product of rotations. Row i
holds what unit i receives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from math import isqrt
from numbers import Real
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

import numpy as np
from annotated_types import Ge, Le, Lt
from numpy.typing import NDArray

from catchment.arrays import (
    Array,
    Factor,
    Integers,
    NonNegativeFloat,
    NonNegativeInt,
    check_fields,
    check_type,
)
from catchment.features.echo_state.weights import (
    ACTIVATIONS,
    LEAST_DIGITS,
    MOST_DIGITS,
    Purpose,
    SparseRows,
    Words,
    distinct,
    geometric,
    integers,
    log_uniform,
    orthogonal,
    permutation,
    signs,
    uniform,
)

if TYPE_CHECKING:
    from catchment.features.echo_state.reservoir import Reservoir

SIGNED = ("ring", "delay_line", "cycle_jumps", "permutation")

# The values that settings of one layer may have; `check_fields` holds a reservoir to them.
Units = Annotated[int, Ge(1), Lt(2**32)]
Topology = Literal[
    "random",
    "small_world",
    "scale_free",
    "ring",
    "delay_line",
    "cycle_jumps",
    "permutation",
    "orthogonal",
]
Topologies = Topology | tuple[Topology, ...]
TOPOLOGIES: tuple[str, ...] = get_args(Topology)
Activation = Literal["tanh", "sigmoid", "relu", "sin", "identity"]
Inputs = Annotated[int, Ge(0), Lt(2**32)]
StateBits = Annotated[int, Ge(LEAST_DIGITS), Le(MOST_DIGITS)]
InputRange = Annotated[float, Ge(2**-8), Le(2**8)]  # a power of two

DEFAULT_CONNECTIONS = 10
DEFAULT_REWIRING = 0.1
DEFAULT_JUMP_WEIGHT = 0.5

_WHOLE = ("units", "inputs", "connections", "jump", "input_connections", "seed")  # integers
_APPLIES = {  # topologies that a setting is for
    "density": ("random",),
    "connections": ("random", "small_world", "scale_free"),
    "rewiring": ("small_world",),
    "jump": ("cycle_jumps",),
    "jump_weight": ("cycle_jumps",),
    "random_signs": SIGNED,
}
_LEAST_UNITS = {"small_world": 3, "scale_free": 2, "cycle_jumps": 4}


def cut_of(value: Any, name: str) -> tuple[int, int]:
    """Return the length of a part and its warm-up: both 0, or a warm-up up to the length.

    >>> cut_of([1024, 256], "cut")
    (1024, 256)
    """
    check_type(value, tuple[NonNegativeInt, ...], name)
    L, M = map(int, value) if len(value) == 2 else (0, 1)
    if (L == 0) != (M == 0) or M > L:
        raise ValueError(
            f"{name} is {value!r}; give two integers: (0, 0), or a length and a warm-up from 1 to "
            "the length"
        )
    return L, M


@dataclass(frozen=True)
class Uniform:
    """Leak rates that differ from unit to unit, drawn evenly between low and high.

    >>> Uniform(0.1, 0.9)
    Uniform(low=0.1, high=0.9)
    """

    kind: ClassVar[str] = "uniform"  # in files

    low: Factor
    high: Factor

    def __post_init__(self) -> None:
        check_fields(self)
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
        return np.append(np.full(n_quick, self.high), geometric(n - n_quick, self.low, self.high))


RANGES = {one.kind: one for one in (Uniform, LogUniform, Linspace, LongTail)}


@dataclass(frozen=True, kw_only=True)
class MixedActivation:
    """Fractions of the units, placed at random, that have each activation.

    >>> MixedActivation(tanh=0.75, sin=0.25).parts
    (('tanh', 0.75), ('sin', 0.25))
    """

    tanh: NonNegativeFloat = 0.0
    sigmoid: NonNegativeFloat = 0.0
    relu: NonNegativeFloat = 0.0
    sin: NonNegativeFloat = 0.0
    identity: NonNegativeFloat = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
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


Activations = Activation | MixedActivation | tuple[Activation | MixedActivation, ...]


@dataclass(frozen=True, kw_only=True)
class LayerSettings:
    """The settings of one layer, with every default filled in; a topology reads only its own."""

    topology: str
    units: int
    density: float | None = None
    connections: int = 0
    rewiring: float = 0.0
    jump: int = 1
    jump_weight: float = 0.0
    random_signs: bool = False
    seed: int = 0
    layer: int = 0
    inputs: int = 1
    spectral_radius: float = 1.0
    input_scaling: float = 1.0
    input_connections: int = 1
    bias_scaling: float = 0.0
    leak_rate: Uniform = Uniform(1.0, 1.0)
    activation: MixedActivation = MixedActivation(tanh=1.0)
    gain: float = 1.0
    shift: float = 0.0

    def words(self, purpose: Purpose) -> Words:
        return Words(seed=self.seed, layer=self.layer, purpose=purpose)

    @property
    def wiring(self) -> LayerSettings:
        """What of it decides the raw matrix, the rest being left as it is by default."""
        return LayerSettings(**{name: getattr(self, name) for name in _OF_WIRING})

    @property
    def leaks(self) -> Array:
        """Leak rates (N,) of the units."""
        return self.leak_rate.rates(self.words(Purpose.LEAK), self.units)

    @property
    def activations(self) -> NDArray[np.uint8]:
        """Places (N,) in `ACTIVATIONS` of the units' activations."""
        return self.activation.codes(self.words(Purpose.ACTIVATION), self.units)


_OF_WIRING = [one.name for one in fields(LayerSettings)][:10]

# Settings of which each layer may have its own.
PER_LAYER = [one.name for one in fields(LayerSettings)]
PER_LAYER = [*(name for name in PER_LAYER if name not in ("seed", "layer", "inputs")), "scale"]


def plain(value: object) -> object:
    """Return a setting as JSON has it; `from_plain` reads it."""
    if isinstance(value, Uniform):
        return {"kind": value.kind, "low": float(value.low), "high": float(value.high)}
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
    if (kind := value.pop("kind", None)) not in RANGES:
        raise ValueError(f"kind of {name} is {kind!r}; choose one of {', '.join(RANGES)}")
    return RANGES[kind](**value)


def per_layer(value: Any) -> tuple[Any, ...]:
    """Return a setting as a tuple of those that layers have, of one for all as a single one."""
    return value if isinstance(value, tuple) else (value,)


def exact(value: Any, name: str) -> Any:
    """Return a setting that was checked in its exact type, those of several layers as a tuple.

    >>> exact([1, np.float64(2)], "gain"), exact(np.int64(3), "units")
    ((1.0, 2.0), 3)
    """
    if isinstance(value, list | tuple | np.ndarray):
        return tuple(exact(one, name) for one in value)
    if isinstance(value, np.bool_):
        return bool(value)
    kind: Any = int if name in _WHOLE else float
    return kind(value) if isinstance(value, Real) and not isinstance(value, bool) else value


def settings_of(reservoir: Reservoir, index: int) -> LayerSettings:
    """Return the settings of one layer, with every default filled in."""
    given = ((name, getattr(reservoir, name)) for name in PER_LAYER)
    at = {name: v[index] if isinstance(v, tuple) else v for name, v in given}
    units, first = at["units"], index == 0
    inputs = reservoir.inputs if first else per_layer(reservoir.units)[index - 1]
    if at["input_connections"] is None:
        at["input_connections"] = inputs if first else min(DEFAULT_CONNECTIONS, inputs)
    if at["input_connections"] > inputs:
        raise ValueError(
            f"input_connections is {at['input_connections']} in layer {index}, which has {inputs} "
            f"inputs; give at most {inputs}"
        )
    leak, activation = at["leak_rate"], at["activation"]
    if not isinstance(leak, Uniform):
        at["leak_rate"] = Uniform(leak, leak)
    if not isinstance(activation, MixedActivation):
        at["activation"] = MixedActivation(**{activation: 1.0})
    _fill_wiring(at, units, index)
    del at["scale"]
    return LayerSettings(**at, inputs=inputs, seed=reservoir.seed, layer=index)


def _fill_wiring(at: dict[str, Any], units: int, index: int) -> None:
    """Fill in the defaults of a topology; ValueError for settings that it does not have."""
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
    if topology not in _APPLIES["connections"] or density is not None:
        at["connections"] = 0
    elif connections is None:
        even = max(2, (units - 1) // 2 * 2)
        at["connections"] = min(DEFAULT_CONNECTIONS, units if topology == "random" else even)
    else:
        most = {"random": units, "small_world": units - 1, "scale_free": 2 * units - 2}[topology]
        if connections > most:
            raise ValueError(
                f"connections is {connections}, more than {units} units of topology {topology!r} "
                f"can have; give at most {most}"
            )
        if topology != "random" and (connections % 2 or connections < 2):
            raise ValueError(
                f"connections is {connections}; topology {topology!r} needs an even number >= 2"
            )
    if at["rewiring"] is None:
        at["rewiring"] = DEFAULT_REWIRING if topology == "small_world" else 0.0
    if topology != "cycle_jumps":
        at["jump"], at["jump_weight"] = 1, 0.0
        return
    if at["jump_weight"] is None:
        at["jump_weight"] = DEFAULT_JUMP_WEIGHT
    if at["jump"] is None:
        at["jump"] = max(2, isqrt(units))
    if not 2 <= at["jump"] <= units // 2:
        raise ValueError(
            f"jump is {at['jump']}; for {units} units give an integer from 2 to {units // 2}"
        )


def raw_matrix(layer: LayerSettings) -> SparseRows:
    """Return the recurrent matrix (N, N) before scaling.

    >>> raw_matrix(LayerSettings(topology="ring", units=3)).to_dense()
    array([[0., 0., 1.],
           [1., 0., 0.],
           [0., 1., 0.]])
    """
    N = layer.units
    if layer.topology == "orthogonal":
        return SparseRows.from_dense(orthogonal(layer.words(Purpose.RECURRENT_VALUES), N))
    rows, columns = _places(layer)
    rng = layer.words(Purpose.RECURRENT_VALUES)
    if layer.topology not in SIGNED:
        values = uniform(rng, len(rows), -1.0, 1.0)
    else:
        values = signs(rng, len(rows)) if layer.random_signs else np.ones(len(rows))
    if layer.topology == "cycle_jumps":
        values[N:] *= layer.jump_weight
    return SparseRows.from_coordinates(rows, columns, values, N, N)


def known_radius(layer: LayerSettings) -> float | None:
    """Return the spectral radius of the raw matrix where a formula gives it, else None.

    A delay line has no cycle, so its radius is 0.

    >>> known_radius(LayerSettings(topology="permutation", units=50))
    1.0
    >>> known_radius(LayerSettings(topology="random", units=50, density=0.1))
    """
    if layer.topology in ("ring", "permutation", "orthogonal"):
        return 1.0
    return 0.0 if layer.topology == "delay_line" else None


def _places(layer: LayerSettings) -> tuple[Integers, Integers]:
    """Return the rows and columns of the non-zeros."""
    N = layer.units
    units = np.arange(N)
    match layer.topology:
        case "random":
            rng, k = layer.words(Purpose.RECURRENT_PLACES), layer.connections
            if layer.density is not None:
                place = distinct(rng, 1, round(layer.density * N * N), N * N)[0]
                return place // N, place % N
            return np.repeat(units, k), distinct(rng, N, k, N).ravel()
        case "small_world":
            return _both_directions(_small_world_edges(layer))
        case "scale_free":
            return _both_directions(_scale_free_edges(layer))
        case "ring":
            return units, (units - 1) % N
        case "delay_line":
            return units[1:], units[:-1]
        case "permutation":
            return units, permutation(layer.words(Purpose.RECURRENT_PLACES), N)
        case "cycle_jumps":
            jump = layer.jump
            start = units[: N // jump] * jump
            there, back = _both_directions(np.stack([start, (start + jump) % N], axis=1))
            # With two jumps in all, the way there and the way back are the same pair twice.
            once = np.unique(there * N + back)
            return np.concatenate([units, once // N]), np.concatenate([(units - 1) % N, once % N])
    raise ValueError(f"topology is {layer.topology!r}; choose one of {', '.join(TOPOLOGIES)}")


def _both_directions(edges: Integers) -> tuple[Integers, Integers]:
    there, back = edges[:, 0], edges[:, 1]
    return np.concatenate([there, back]), np.concatenate([back, there])


def _small_world_edges(layer: LayerSettings) -> Integers:
    """Return the edges (n, 2) of a ring of nearest neighbors, some moved to a random far end."""
    N, k = layer.units, layer.connections
    rng = layer.words(Purpose.RECURRENT_PLACES)
    near = np.tile(np.arange(N), k // 2)
    far = (near + np.repeat(np.arange(1, k // 2 + 1), N)) % N
    moved = np.flatnonzero(uniform(rng, len(near)) < layer.rewiring)
    linked: list[set[int]] = [set() for _ in range(N)]
    for i, j in zip(near.tolist(), far.tolist(), strict=True):
        linked[i].add(j)
        linked[j].add(i)
    for edge in moved.tolist():
        i, old = int(near[edge]), int(far[edge])
        if len(linked[i]) == N - 1:
            continue
        new = i
        while new == i or new in linked[i]:
            new = int(integers(rng, 1, N)[0])
        linked[i].remove(old)
        linked[old].remove(i)
        linked[i].add(new)
        linked[new].add(i)
        far[edge] = new
    return np.stack([near, far], axis=1)


def _scale_free_edges(layer: LayerSettings) -> Integers:
    """Return the edges (n, 2) of a graph grown unit by unit, a new one linking to popular ones."""
    N, m = layer.units, layer.connections // 2
    rng = layer.words(Purpose.RECURRENT_PLACES)
    # An end of a random edge is a unit drawn in proportion to its number of edges.
    edges = [(0, i) for i in range(1, m + 1)]
    ends = [unit for edge in edges for unit in edge]
    for new in range(m + 1, N):
        chosen: set[int] = set()
        while len(chosen) < m:
            chosen.add(ends[int(integers(rng, 1, len(ends))[0])])
        for unit in sorted(chosen):
            edges.append((new, unit))
            ends += (new, unit)
    return np.array(edges, dtype=np.int64).reshape(-1, 2)
