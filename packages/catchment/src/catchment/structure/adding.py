"""Sums, differences and equality of values, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

import numpy as np

from catchment.errors import UploadError
from catchment.structure.fields import GATHERED, POOLED, Declared, Part, defines, layout
from catchment.structure.gathered import gathered

T = TypeVar("T")
EXACT = 2**53  # whole numbers below it are exact in float64


def added(one: T, other: T) -> T:
    """Return the sum of two values, field by field.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Sum:
    ...     n: int
    ...     unit: str
    >>> added(Sum(1, "m"), Sum(2, "m"))
    Sum(n=3, unit='m')
    >>> added(Sum(1, "m"), Sum(2, "km"))
    Traceback (most recent call last):
    catchment.errors.UploadError: values of unit 'm' and 'km' do not add
    """
    return _combined(one, other, plus)


def subtracted(one: T, other: T) -> T:
    """Return a value without another that was added; ValueError if a count would be negative."""
    return _combined(one, other, _minus)


def is_whole(value: object) -> bool:
    """Return whether all that adds in a value are whole numbers: its sums have no order then.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Sum:
    ...     n: int
    ...     total: float
    >>> is_whole(Sum(1, 2.0)), is_whole(Sum(1, 2.5))
    (True, False)
    """
    if isinstance(value, Mapping):
        return all(map(is_whole, value.values()))
    if isinstance(value, tuple | list):
        return all(map(is_whole, value))
    if isinstance(value, np.ndarray):
        kind = value.dtype.kind
        return kind in "iu" or (kind == "O" and all(isinstance(one, int) for one in value.flat))
    if isinstance(value, float):
        return value.is_integer() and abs(value) < EXACT
    if is_dataclass(value) and not isinstance(value, type):
        adds = (part for part in layout(type(value)).parts if part.form != "fact")
        return all(is_whole(vars(value)[part.name]) for part in adds if GATHERED not in part.marks)
    return value is None or isinstance(value, int)


def plus(one: Any, other: Any) -> Any:
    """Return the sum of two values: by their own `+`, field by field if they have none."""
    if is_dataclass(one) and not defines(type(one), "__add__"):
        return added(one, other)
    return one + other


def _minus(one: Any, other: Any) -> Any:
    if is_dataclass(one) and not defines(type(one), "__sub__"):
        return subtracted(one, other)
    if isinstance(one, int) and other > one:
        raise ValueError(f"cannot take {other} out of {one}; subtract only what was added")
    return one - other


def _combined(one: T, other: T, how: Any) -> T:
    if type(one) is not type(other):
        raise TypeError(f"cannot combine {type(one).__name__} with {type(other).__name__}")
    values: dict[str, Any] = {}
    for part in layout(type(one)).parts:
        a, b = vars(one)[part.name], vars(other)[part.name]
        if part.form == "fact":
            if a != b:
                raise UploadError(
                    "different", f"values of {part.name} {_short(a)} and {_short(b)} do not add"
                )
            values[part.name] = a
        elif part.form == "named":
            values[part.name] = _by_key(part, a, b, how)
        elif part.form in ("arrays", "listed"):
            if len(a) != len(b):
                raise UploadError("shape", f"{len(b)} {part.name} do not add to {len(a)}")
            pairs = zip(a, b, strict=True)
            values[part.name] = tuple(_one_sum(part, x, y, how) for x, y in pairs)
        elif a is None or b is None:
            if a is not b:
                raise UploadError("kind", f"a value with {part.name} and one without do not add")
            values[part.name] = None
        else:
            values[part.name] = _one_sum(part, a, b, how)
    return type(one)(**values)


def _one_sum(part: Part, one: Any, other: Any, how: Any) -> Any:
    if isinstance(one, np.ndarray) and np.shape(one) != np.shape(other):
        raise UploadError(
            "shape", f"{part.name} of {np.shape(other)} and {np.shape(one)} do not add"
        )
    return how(one, other)


def _by_key(part: Part, one: Mapping[Any, Any], other: Mapping[Any, Any], how: Any) -> Any:
    if GATHERED in part.marks:
        return gathered(one, other)
    if POOLED in part.marks and how is plus:
        new = {
            key: _one_sum(part, one[key], v, how) if key in one else v for key, v in other.items()
        }
        return {**one, **new}
    if one.keys() != other.keys():
        raise UploadError(
            "different",
            f"{part.name} {_short(sorted(other))} do not add to {_short(sorted(one))}",
        )
    return {key: _one_sum(part, held, other[key], how) for key, held in one.items()}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def equal(one: object, other: object) -> bool:
    """Return whether two values are equal in every field, to the bit.

    >>> equal((np.ones(2), {"a": 1}), (np.ones(2), {"a": 1}))
    True
    """
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(cast(Any, one), cast(Any, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(v, other[k]) for k, v in one.items())
    if isinstance(one, tuple) and isinstance(other, tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(equal(a, b) for a, b in pairs)
    if isinstance(one, Declared) and type(one).own_parts is not Declared.own_parts:
        return one == other
    if is_dataclass(one) and type(one) is type(other):
        return all(equal(vars(one)[f.name], vars(other)[f.name]) for f in fields(one))
    return one == other
