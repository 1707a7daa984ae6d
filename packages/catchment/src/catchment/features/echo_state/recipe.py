"""Recipes: a reservoir as a few hundred bytes, and the checks that each setting passes once.

A recipe names the random draws by a seed, so every machine that holds the same recipe builds the
same bits. The eigenvalue by which the recurrent matrix is scaled is found once, by
`Recipe.prepared`, with as many bits as all machines agree on; the scale is then carried as an exact
number, together with the SHA-256 fingerprint of the finished weights, and who receives it solves
nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from math import isqrt
from threading import Lock
from typing import Any

from catchment.arrays import choice, flag, real, whole
from catchment.errors import IntegrityError
from catchment.features.echo_state.weights import (
    ACTIVATIONS,
    DEFAULT_RANGE,
    LEAST_DIGITS,
    MOST_DIGITS,
    SIGNED,
    TOPOLOGIES,
    Wiring,
)

SPREADS = ("uniform", "log_uniform", "layered", "tail")


def grid_digits(value: object, name: str) -> int | None:
    """Return the digits of a grid of states, or None for float64.

    >>> grid_digits(20, "grid")
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
class Spread:
    """Leak rates that differ from unit to unit, between low and high.

    `uniform` and `log_uniform` draw each unit's rate; `layered` spaces the rates evenly, from low
    at the first unit to high at the last. `tail` gives three quarters of the units the high rate,
    and the others rates that fall geometrically from high to low: most units are quick, a few
    remember for long.

    >>> Spread("log_uniform", 0.01, 1.0)
    Spread(kind='log_uniform', low=0.01, high=1.0)
    """

    kind: str
    low: float
    high: float

    def __post_init__(self) -> None:
        choice(self.kind, "kind of a Spread", options=SPREADS)
        object.__setattr__(self, "low", real(self.low, "low", above=0.0, at_most=1.0))
        object.__setattr__(self, "high", real(self.high, "high", above=0.0, at_most=1.0))
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}; exchange them")


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Fractions of the units, placed at random, that have each activation.

    >>> Mixture(tanh=0.75, sin=0.25).parts
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
            raise ValueError(f"the fractions of a Mixture sum to {total}; make them sum to 1")

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        """Return the activations in use with their fractions."""
        pairs = ((name, float(getattr(self, name))) for name in ACTIVATIONS)
        return tuple((name, fraction) for name, fraction in pairs if fraction > 0.0)


def _or(kind: type, check: Callable[[object, str], object]) -> Callable[[object, str], object]:
    return lambda value, name: value if isinstance(value, kind) else check(value, name)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The settings of one layer, with every default filled in."""

    units: int
    inputs: int
    wiring: Wiring
    spectral_radius: float
    input_scaling: float
    input_connections: int
    bias_scaling: float
    leak_rate: float | Spread
    activation: str | Mixture
    gain: float
    shift: float


__all__ = ["Layer", "Mixture", "Recipe", "Spread"]

FORMAT = 1
_one_at_a_time = Lock()
DEFAULT_CONNECTIONS = 10
DEFAULT_REWIRING = 0.1
DEFAULT_JUMP_WEIGHT = 0.5

_CHECKS: dict[str, Callable[[object, str], object]] = {
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
    "leak_rate": _or(Spread, partial(real, above=0.0, at_most=1.0)),
    "activation": _or(Mixture, partial(choice, options=ACTIVATIONS)),
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


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a reservoir is made of; any setting may be a tuple with one value per layer.

    A recipe never changes what it means, so its defaults stay as they are; those of `EchoState`
    follow the kind of target and are what to start with.

    >>> recipe = Recipe(units=100, inputs=3, spectral_radius=0.9, leak_rate=0.3, seed=7)
    >>> Recipe.from_json(recipe.to_json()) == recipe
    True
    >>> deep = Recipe(units=(50, 50), inputs=3, leak_rate=(1.0, 0.1))
    >>> [layer.inputs for layer in deep.layers]
    [3, 50]

    Parameters
    ----------
    units
        Number of units; a tuple makes a deep stack, each layer driven by the one below.
    inputs
        Number of input columns of the first layer.
    topology
        Shape of the recurrent matrix: one of `TOPOLOGIES`.
    density, connections
        For `random`, either the fraction of non-zeros or the number that each unit receives; 10
        per unit if neither is given. For `small_world`, connections is the (even) number of nearest
        neighbors, and for `scale_free` twice the number of units that a new one links to.
    rewiring
        `small_world`: probability that an edge is moved; 0.1 if not given.
    jump, jump_weight
        `cycle_jumps`: units per jump (the root of N if not given), and weight of a jump relative to
        the cycle (0.5 if not given).
    random_signs
        `ring`, `delay_line`, `cycle_jumps`, `permutation`: a random sign for each weight.
    spectral_radius
        Largest absolute eigenvalue of the scaled matrix, to one part in a million: that of the raw
        matrix is rounded to 20 bits, which every machine finds alike. A delay line has none but 0:
        there it is the weight of the line.
    input_scaling, bias_scaling
        Input weights and biases are uniform between minus and plus this.
    input_connections
        Inputs that each unit receives. If not given: all inputs in the first layer, and at most 10
        units of the layer below in the others.
    leak_rate
        One rate for all units, or a `Spread`.
    activation
        One of `ACTIVATIONS` for all units, or a `Mixture`.
    gain, shift
        Intrinsic plasticity before any adaptation.
    seed
        64-bit number that names the draws.
    grid
        Binary digits b (8 to 24) of states, which are then integers times 2^-b: the same bits
        on every processor. None for float64.
    input_range
        With a grid: inputs are cut off at minus and plus this power of two.
    scale, fingerprint
        Filled in by `prepared`.
    cut
        With a grid, filled in by `prepared`: (L, M) if a sequence is cut every L steps, each part
        started from rest M steps before; (0, 0) if it never is.
    """

    units: int | tuple[int, ...]
    inputs: int = 1
    topology: str | tuple[str, ...] = "random"
    density: float | tuple[float | None, ...] | None = None
    connections: int | tuple[int | None, ...] | None = None
    rewiring: float | tuple[float | None, ...] | None = None
    jump: int | tuple[int | None, ...] | None = None
    jump_weight: float | tuple[float | None, ...] | None = None
    random_signs: bool | tuple[bool, ...] = False
    spectral_radius: float | tuple[float, ...] = 0.9
    input_scaling: float | tuple[float, ...] = 0.5
    input_connections: int | tuple[int | None, ...] | None = None
    bias_scaling: float | tuple[float, ...] = 0.2
    leak_rate: float | Spread | tuple[float | Spread, ...] = 0.3
    activation: str | Mixture | tuple[str | Mixture, ...] = "tanh"
    gain: float | tuple[float, ...] = 1.0
    shift: float | tuple[float, ...] = 0.0
    seed: int = 0
    scale: tuple[float, ...] | None = None
    fingerprint: str | None = None
    grid: int | None = None
    input_range: float = DEFAULT_RANGE
    cut: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        set_ = partial(object.__setattr__, self)
        set_("inputs", whole(self.inputs, "inputs", below=2**32))
        set_("seed", whole(self.seed, "seed", below=2**64))
        for name in _CHECKS:
            set_(name, _checked(getattr(self, name), name))
        if self.n_layers == 0:
            raise ValueError("units is an empty tuple; give the number of units of each layer")
        for name in _CHECKS:
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != self.n_layers:
                raise ValueError(
                    f"{name} has {len(value)} values for {self.n_layers} layers; "
                    "give one value, or a tuple with one per layer"
                )
        if (self.scale is None) != (self.fingerprint is None):
            raise ValueError(
                "a recipe carries scale and fingerprint together; clear both, or call prepared()"
            )
        if not re.fullmatch("[0-9a-f]{64}", self.fingerprint or "0" * 64):
            raise ValueError(f"fingerprint is {self.fingerprint!r}; give the 64 hexadecimal digits")
        self._check_grid()
        for index in range(self.n_layers):
            _layer(self, index)

    def _check_grid(self) -> None:
        set_ = partial(object.__setattr__, self)
        set_("grid", grid_digits(self.grid, "grid"))
        set_("input_range", power_of_two(self.input_range, "input_range"))
        if self.grid is None and self.input_range != DEFAULT_RANGE:
            raise ValueError(
                f"input_range is {self.input_range} in float64; give grid=20, or leave it out"
            )
        if self.cut is not None:
            set_("cut", cut_of(self.cut, "cut"))
        if (self.cut is not None) != (self.grid is not None and self.is_prepared):
            raise ValueError(
                "a recipe in fixed point carries cut, scale and fingerprint together; clear all "
                "three, or call prepared()"
            )

    @property
    def n_layers(self) -> int:
        return len(self.units) if isinstance(self.units, tuple) else 1

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return the settings of each layer, with every default filled in."""
        return tuple(_layer(self, index) for index in range(self.n_layers))

    @property
    def is_prepared(self) -> bool:
        return self.scale is not None

    def prepared(self) -> Recipe:
        """Return the recipe with its exact scales and fingerprint, computed once per process.

        >>> recipe = Recipe(units=20, topology="ring", spectral_radius=0.75).prepared()
        >>> recipe.scale
        (0.75,)
        >>> recipe.prepared() is recipe
        True
        """
        # Reservoirs read recipes, so a recipe can only ask for them when called.
        from catchment.features.echo_state.reservoir import prepared

        if self.is_prepared:
            return self
        # Without the lock, clients that start together would each solve for the same eigenvalue.
        with _one_at_a_time:
            return prepared(self)

    def unprepared(self) -> Recipe:
        """Return the recipe without what `prepared` found out, to change a setting of it.

        >>> recipe = Recipe(units=20, topology="ring")
        >>> recipe.prepared().unprepared() == recipe
        True
        """
        return replace(self, scale=None, fingerprint=None, cut=None)

    def to_json(self) -> str:
        """Return the recipe as one line of JSON: the same line for equal recipes.

        >>> len(Recipe(units=200, inputs=3).prepared().to_json()) < 600
        True
        """
        settings: dict[str, object] = {"format": FORMAT}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                settings[field.name] = _plain(value)
        if self.grid is None:
            del settings["input_range"]
        if self.scale is not None:
            settings["scale"] = [factor.hex() for factor in self.scale]
        return json.dumps(settings, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """Return the recipe that `to_json` wrote.

        >>> Recipe.from_json('{"format":1,"units":5,"leak":0.5}')
        Traceback (most recent call last):
        ValueError: a recipe has no setting 'leak'; the settings are units, inputs, topology, ...
        """
        try:
            settings = json.loads(text)
        except json.JSONDecodeError as error:
            raise IntegrityError(
                f"a recipe is not valid JSON ({error}); get it again from its sender"
            ) from error
        if not isinstance(settings, dict):
            raise IntegrityError(
                f"a recipe is a JSON object, got {type(settings).__name__}; pass what to_json wrote"
            )
        version = settings.pop("format", None)
        if version != FORMAT:
            raise IntegrityError(
                f"the recipe has format {version!r}, this version reads {FORMAT}; "
                "upgrade catchment, or write the recipe with this version"
            )
        known = [field.name for field in fields(cls)]
        for name in settings:
            if name not in known:
                raise ValueError(
                    f"a recipe has no setting {name!r}; the settings are {', '.join(known)}"
                )
        if "units" not in settings:
            raise ValueError("the recipe does not say how many units; add the setting 'units'")
        values = {name: _from_plain(value, name) for name, value in settings.items()}
        return cls(**values)  # type: ignore[arg-type]  # __post_init__ checks every value


def _plain(value: object) -> object:
    if isinstance(value, Spread):
        return asdict(value)
    if isinstance(value, Mixture):
        return dict(value.parts)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _from_plain(value: object, name: str) -> object:
    if isinstance(value, list):
        return tuple(_from_plain(item, name) for item in value)
    if isinstance(value, str) and name == "scale":
        try:
            return float.fromhex(value)
        except (ValueError, OverflowError):
            raise ValueError(f"scale is {value!r}; give hexadecimal floats") from None
    if isinstance(value, dict):
        kind = Mixture if name == "activation" else Spread
        known = [field.name for field in fields(kind)]
        for part in value:
            if part not in known:
                raise ValueError(f"{name} has a part {part!r}; the parts are {', '.join(known)}")
        return kind(**value)
    return value


def _checked(value: object, name: str, where: str | None = None) -> object:
    """Return the setting, or the tuple of one setting per layer, in its exact type."""
    if where is None and isinstance(value, (list, tuple)):
        return tuple(_checked(item, name, f"{name}[{i}]") for i, item in enumerate(value))
    if value is None and name in _MAY_BE_NONE:
        return None
    return _CHECKS[name](value, where or name)


def _layer(recipe: Recipe, index: int) -> Layer:
    given = ((name, getattr(recipe, name)) for name in _CHECKS)
    at = {name: v[index] if isinstance(v, tuple) else v for name, v in given}
    units, first = at["units"], index == 0
    inputs = recipe.inputs if first or isinstance(recipe.units, int) else recipe.units[index - 1]
    if at["input_connections"] is None:
        at["input_connections"] = inputs if first else min(DEFAULT_CONNECTIONS, inputs)
    if at["input_connections"] > inputs:
        raise ValueError(
            f"input_connections is {at['input_connections']} in layer {index}, which has {inputs} "
            f"inputs; give at most {inputs}"
        )
    own = {field.name: at[field.name] for field in fields(Layer) if field.name in at}
    wiring = _wiring(at, units, index, recipe.seed)
    return Layer(**own, inputs=inputs, wiring=wiring)


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
