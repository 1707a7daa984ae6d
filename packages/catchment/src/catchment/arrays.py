"""Array types, and the checks that every user's array and setting passes once."""

from __future__ import annotations

import datetime as dt
import math
import operator
import sys
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache, partial
from itertools import repeat
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from numpy.typing import DTypeLike, NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

# Types of settings, with the limits that `check_fields` and plan files hold them to.
PositiveInt = Annotated[int, Ge(1)]
NonNegativeInt = Annotated[int, Ge(0)]
Seed = Annotated[int, Ge(0), Lt(1 << 64)]
PositiveFloat = Annotated[float, Gt(0)]
NonNegativeFloat = Annotated[float, Ge(0)]
Probability = Annotated[float, Gt(0), Lt(1)]
Fraction = Annotated[float, Ge(0), Le(1)]
Factor = Annotated[float, Gt(0), Le(1)]
Finite = Annotated[float, Gt(-math.inf)]

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


_MANY = {"is": "are", "has": "have", "holds": "hold"}


def _verb(name: str, one: str) -> str:
    """Return the name of values with a verb of its number.

    >>> _verb("recording 0", "is"), _verb("inputs", "is")
    ('recording 0 is', 'inputs are')
    """
    return f"{name} {_MANY[one] if name.endswith('s') and name != 'series' else one}"


def as_numbers(value: Any, name: str) -> Array:
    """Return values as float64; ValueError if they are no real numbers, or have a mask.

    Truth values are 0 and 1. Nothing is dropped on the way: neither an imaginary part, nor a mask,
    nor the meaning of a date.

    >>> as_numbers([True, 2, 0.5], "y")
    array([1. , 2. , 0.5])
    >>> as_numbers([1j], "inputs")
    Traceback (most recent call last):
    ValueError: inputs hold complex numbers; pass the real and the imaginary part as columns of ...
    """
    array = value if isinstance(value, np.ndarray) else None
    if array is None or array.dtype != np.float64 or isinstance(array, np.ma.MaskedArray):
        array = refuse_conversions(value, name)
        # Only a frame's own conversion knows what its missing values are.
        value = value if array.dtype.kind == "O" else array
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{_verb(name, 'is')} not numeric: {error}") from error


def refuse_conversions(value: Any, name: str) -> NDArray[Any]:
    """Return values as an array of whatever they are.

    ValueError if numpy would make other numbers of them than they are.
    """
    refuse_mask(value, name)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{_verb(name, 'is')} not one array of numbers: {error}") from error
    kind: str = array.dtype.kind
    if kind == "O":
        kind = next(filter(None, map(_kind, array.reshape(-1).tolist())), "")
    if kind in _REMEDIES:
        raise ValueError(f"{_verb(name, 'holds')} {_REMEDIES[kind]}")
    return array


def refuse_mask(value: Any, name: str) -> None:
    """Raise ValueError if values have a mask, which numpy would drop."""
    if _is_masked(value):
        raise ValueError(
            f"{_verb(name, 'has')} a mask, which would be lost; pass .filled(np.nan) for missing "
            "values"
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
            f"{_verb(name, 'has')} {array.ndim} dimensions, expected 2; pass an array (steps, "
            "columns)"
        )
    return array


def is_finite(array: Array) -> bool:
    """Return whether no value is NaN, infinite or beyond 1e100."""
    return not array.size or bool(array.min() >= -LARGEST and array.max() <= LARGEST)


def refuse_nonfinite(array: Array, name: str, *, missing: bool = False) -> None:
    """Raise ValueError, naming the first row, if any value is NaN, infinite or beyond 1e100.

    Parameters
    ----------
    missing
        Whether values may be NaN, which means missing.
    """
    if is_finite(array):
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
    raise ValueError(f"{_verb(name, 'is')} {said}")


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


LIMITS: Mapping[type, tuple[str, Callable[[Any, Any], bool], str]] = {
    Ge: ("ge", operator.ge, "{:g} or more"),
    Gt: ("gt", operator.gt, "more than {:g}"),
    Le: ("le", operator.le, "at most {:g}"),
    Lt: ("lt", operator.lt, "less than {:g}"),
}


def check_fields(made: object) -> None:
    """Raise ValueError for the first field of a dataclass that is not as its type says.

    Looked at are truths, choices (`Literal`) and numbers with limits (`Annotated[float, Gt(0)]`,
    `PositiveInt`), which are finite. Plan files read the same types.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Smoothing:
    ...     steps: PositiveInt | Literal["auto"] = "auto"
    ...     def __post_init__(self) -> None:
    ...         check_fields(self)
    >>> Smoothing(0)
    Traceback (most recent call last):
    ValueError: steps is 0; give an integer, 1 or more, or 'auto'
    """
    kind: Any = type(made)
    for name, hint in _limited(kind):
        check_type(getattr(made, name), hint, name)


def check_type(value: object, hint: Any, name: str) -> None:
    """Raise ValueError if a value is not of a type, or not within the limits beside it.

    >>> check_type(["a", 3], tuple[str, ...], "classes")
    Traceback (most recent call last):
    ValueError: classes is ['a', 3]; give a list of texts
    """
    if not fits(value, hint):
        raise ValueError(f"{name} is {value!r}; give {_words(hint)}")


@cache
def _limited(kind: type) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a dataclass whose types have a choice or a limit.

    Types that only a type checker knows, or the function that a class is in, say neither.
    """
    found = []
    for one in fields(kind):
        for of in reversed(kind.__mro__):  # the class that declares it
            if one in vars(of).get("__dataclass_fields__", {}).values():
                break
        alone = types.SimpleNamespace(__annotations__={one.name: one.type})
        with suppress(NameError):
            known = vars(sys.modules[of.__module__])
            hints = get_type_hints(alone, known, dict(vars(of)), include_extras=True)
            if one.init and _is_limited(hints[one.name]):
                found.append((one.name, hints[one.name]))
    return tuple(found)


def _is_limited(hint: Any) -> bool:
    origin = get_origin(hint)
    if hint is bool or origin is Literal or (origin is Annotated and _limits(hint)):
        return True
    return any(map(_is_limited, get_args(hint)))


@cache
def _limits(hint: Any) -> list[tuple[Any, Callable[[Any, Any], bool], str]]:
    """Return the limits beside an annotated type: each with the test for it, and in words."""
    found = []
    for one in hint.__metadata__:
        if type(one) in LIMITS:
            name, test, word = LIMITS[type(one)]
            found.append((getattr(one, name), test, word))
    return found


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of a type, within the limits that stand beside it.

    >>> fits(3, PositiveInt), fits(0.5, int), fits("a", Literal["a", "b"]), fits([1], tuple[int])
    (True, False, True, True)
    """
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(map(partial(fits, value), inside))
    if origin is Literal:
        return isinstance(value, str | Real) and value in inside and not isinstance(value, bool)
    if origin is Annotated:
        found = fits(value, inside[0])
        for limit, test, _ in _limits(hint):
            found = found and abs(value) < math.inf and test(value, limit)
        return found
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    if hint in (int, float):
        number = Integral if hint is int else Real
        return isinstance(value, number) and not isinstance(value, bool)
    if origin is tuple:
        listed = not isinstance(value, str | Mapping) and np.iterable(value)
        return listed and all(map(fits, value, repeat(inside[0])))
    kind = origin or hint
    return isinstance(value, kind) if isinstance(kind, type) else True


def _words(hint: Any) -> str:
    """Return what a value of a type may be, in words."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        said = []
        for one in inside:
            each = get_args(one)[0] if get_origin(one) is tuple else None
            kinds = get_args(each) if get_origin(each) in (Union, types.UnionType) else (each,)
            such = each is not None and {*kinds} <= {*inside, types.NoneType}
            said.append("a list of such" if such else _words(one))
        return ", or ".join(said)
    if origin is Literal:
        return " or ".join(filter(None, (", ".join(map(repr, inside[:-1])), repr(inside[-1]))))
    if origin is Annotated:
        said = [word.format(limit) for limit, _, word in _limits(hint) if limit > -math.inf]
        return ", ".join([_words(inside[0]), *said])
    if origin is tuple:
        each, several, limits = _words(inside[0]).partition(",")
        each = f"{each[2:]}s" if each.startswith("a ") else each
        return f"a list of {each}{several}{limits}"
    known = {int: "an integer", float: "a number", str: "a text", bool: "true or false"}
    known[types.NoneType] = "None"
    return known.get(hint) or f"a {getattr(origin or hint, '__name__', hint)}"
