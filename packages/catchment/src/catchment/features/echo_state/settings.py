"""Values that a recipe is made of, and the checks that each setting passes once."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from numbers import Real

from catchment.features.echo_state.topology import Wiring
from catchment.features.echo_state.weights import ACTIVATIONS
from catchment.features.echo_state.whole_weights import LEAST_DIGITS, MOST_DIGITS

SPREADS = ("uniform", "log_uniform", "layered", "tail")


def real(
    value: object,
    name: str,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
) -> float:
    """Return a finite number within the bounds as a float, or raise an error that names it.

    >>> real(1, "leak_rate", above=0.0, at_most=1.0)
    1.0
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {value!r}; give a number")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number}; give a finite number")
    if not (number > above and at_least <= number <= at_most):
        bounds = (f"> {above}" * (above > -math.inf), f">= {at_least}" * (at_least > -math.inf))
        wanted = (*bounds, f"<= {at_most}" * (at_most < math.inf))
        raise ValueError(f"{name} is {number}; give a number {' and '.join(filter(None, wanted))}")
    return number


def whole(value: object, name: str, *, at_least: int = 0, below: int | None = None) -> int:
    """Return a whole number within the bounds as an int, or raise an error that names it.

    >>> whole(3, "units", at_least=1)
    3
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # this is the check
    except TypeError:
        raise TypeError(f"{name} is {value!r}; give a whole number") from None
    if isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; give a whole number")
    if number < at_least or (below is not None and number >= below):
        wanted = f">= {at_least}" if below is None else f"from {at_least} to {below - 1}"
        raise ValueError(f"{name} is {number}; give a whole number {wanted}")
    return number


def choice(value: object, name: str, *, options: tuple[str, ...]) -> str:
    """Return the value if it is one of the options, or raise an error that lists them.

    >>> choice("ring", "topology", options=("ring", "random"))
    'ring'
    """
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(options)}")
    return value


def flag(value: object, name: str) -> bool:
    """Return the value if it is True or False.

    >>> flag(True, "random_signs")
    True
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; give True or False")
    return value


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
        raise ValueError(f"{name} is {value!r}; give two whole numbers, length and warm-up")
    L, M = whole(value[0], name), whole(value[1], name)
    if (L == 0) != (M == 0) or M > L:
        raise ValueError(f"{name} is {(L, M)}; give (0, 0), or a warm-up from 1 to the length")
    return L, M


def sha256_hex(value: object, name: str) -> str:
    """Return the value if it is written like a SHA-256.

    >>> len(sha256_hex("0" * 64, "fingerprint"))
    64
    """
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}", value):
        raise ValueError(f"{name} is {value!r}; give the 64 hexadecimal digits of a SHA-256")
    return value


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


def leak(value: object, name: str) -> float | Spread:
    """Return a leak rate in (0, 1], or the Spread itself.

    >>> leak(0.3, "leak_rate")
    0.3
    """
    return value if isinstance(value, Spread) else real(value, name, above=0.0, at_most=1.0)


def activation(value: object, name: str) -> str | Mixture:
    """Return the name of an activation, or the Mixture itself.

    >>> activation("tanh", "activation")
    'tanh'
    """
    return value if isinstance(value, Mixture) else choice(value, name, options=ACTIVATIONS)


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
