"""Array types, and the checks that every user's array and setting passes once."""

from __future__ import annotations

import datetime as dt
import math
import operator
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

LINE = 64  # bytes of a cache line: a lane's numbers that straddle two cost twice
LARGEST = 1e100  # the squares of larger values, and sums of them, would overflow

# What numpy would turn into numbers without a word, and what to do instead.
_TIMES = "times"
_REMEDIES = {
    "c": "complex numbers; pass the real and the imaginary part as columns of their own",
    "m": f"{_TIMES}; pass numbers, and times as seconds in times=",
    "M": f"{_TIMES}; pass numbers, and times as seconds in times=",
    "S": "text; convert it to numbers, or name the classes if it holds labels",
    "U": "text; convert it to numbers, or name the classes if it holds labels",
    "V": "records of several fields; pass one column for each",
}


def as_numbers(value: Any, name: str) -> Array:
    """Return values as float64; ValueError if they are no real numbers, or have a mask.

    Truth values are 0 and 1. Nothing is dropped on the way: neither an imaginary part, nor a mask,
    nor the meaning of a date.

    >>> as_numbers([True, 2, 0.5], "y")
    array([1. , 2. , 0.5])
    >>> as_numbers([1j], "inputs")
    Traceback (most recent call last):
    ValueError: inputs are complex numbers; pass the real and the imaginary part as columns of their
    own
    """
    array = value if isinstance(value, np.ndarray) else None
    if array is None or array.dtype != np.float64 or isinstance(array, np.ma.MaskedArray):
        array = refuse_conversions(value, name)
        # Only a frame's own conversion knows what its missing values are.
        value = value if array.dtype.kind == "O" else array
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} are not numbers: {error}") from error


def refuse_conversions(value: Any, name: str) -> NDArray[Any]:
    """Return values as an array of whatever they are.

    ValueError if numpy would make other numbers of them than they are.
    """
    refuse_mask(value, name)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} are not one array of numbers: {error}") from error
    kind: str = array.dtype.kind
    if kind == "O":
        kind = next(filter(None, map(_kind, array.reshape(-1).tolist())), "")
    if kind in _REMEDIES:
        raise ValueError(f"{name} are {_REMEDIES[kind]}")
    return array


def refuse_mask(value: Any, name: str) -> None:
    """Raise ValueError if values have a mask, which numpy would drop."""
    if _is_masked(value):
        raise ValueError(
            f"{name} have a mask, which would be lost; pass .filled(np.nan) for missing values"
        )


def _is_masked(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and not isinstance(value[0], float) and any(map(_is_masked, value))
    return isinstance(value, np.ma.MaskedArray)


def _kind(one: object) -> str:
    """Return what a value among objects is, nothing if it may be a number."""
    match one:
        case complex():
            return "c"
        case str() | bytes():
            return "U"
        case dt.date() | dt.time() | dt.timedelta() | np.datetime64() | np.timedelta64():
            return "M"
    return ""


def as_matrix(value: Any, name: str) -> Array:
    """Return (T, n) float64 rows from a number sequence (one column) or a matrix.

    >>> as_matrix([1, 2, 3], "u").shape
    (3, 1)
    """
    array = as_numbers(value, name)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(
            f"{name} has {array.ndim} dimensions, expected 2; pass an array (steps, columns)"
        )
    return array


def refuse_nonfinite(array: Array, name: str, *, missing: bool = False) -> None:
    """Raise ValueError, naming the first row, if any value is NaN, infinite or beyond 1e100.

    Parameters
    ----------
    missing
        Whether values may be NaN, which means missing.
    """
    if not array.size or (array.min() >= -LARGEST and array.max() <= LARGEST):
        return
    infinite = np.isinf(array) if missing else ~np.isfinite(array)
    large = np.argwhere(infinite)
    if len(large) and missing:
        said = f"infinite at row {int(large[0][0])}; remove or replace infinite values"
    elif len(large):
        said = f"not finite at row {int(large[0][0])}; fill or drop missing values first"
    else:
        large = np.argwhere((array > LARGEST) | (array < -LARGEST))
        if not len(large):
            return
        place = tuple(large[0])
        said = (
            f"{array[place]:g} at row {int(place[0]) if place else 0}; scale the values, beyond "
            f"{LARGEST:g} their squares overflow"
        )
    raise ValueError(f"{name} is {said}")


def frozen(array: Array) -> Array:
    """Return the array itself, made read-only."""
    array.flags.writeable = False
    return array


def aligned(shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return an array, not filled, that starts on a cache line.

    >>> aligned((2, 3)).ctypes.data % 64
    0
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + LINE, dtype=np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + size].view(dtype).reshape(shape)


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
    """Return an integer within the bounds as an int, or raise an error that names it.

    >>> whole(3, "units", at_least=1)
    3
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # this is the check
    except TypeError:
        raise TypeError(f"{name} is {value!r}; give an integer") from None
    if isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; give an integer")
    if number < at_least or (below is not None and number >= below):
        wanted = f">= {at_least}" if below is None else f"from {at_least} to {below - 1}"
        raise ValueError(f"{name} is {number}; give an integer {wanted}")
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
