"""Values that say themselves what they are made of: how they add, compare, travel and are kept."""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Self, TypeVar, cast, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from catchment.errors import IntegrityError, UploadError
from catchment.wire.fields import (
    ANY_FLOAT,
    GATHERED,
    LATER,
    NOT_NEGATIVE,
    POOLED,
    SIGNED,
    WEIGHT,
    Declared,
    Layout,
    Part,
    bind_sizes,
    defines,
    dtype_of,
    gathered,
    is_array,
    is_value,
    kind_of,
    layout,
    members_of,
)
from catchment.wire.messages import NOTHING, Fact, Parts, join, split

T = TypeVar("T")
LARGEST = 2**53  # whole numbers up to here are exact in float64


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
        return value.is_integer() and abs(value) < LARGEST
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
        elif GATHERED in part.marks:
            values[part.name] = gathered(a, b)
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


def taken_apart(value: object) -> Parts:
    """Return a value as it travels or is kept.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Sum:
    ...     n: int
    ...     total: NDArray[np.float64]
    >>> sent = taken_apart(Sum(2, np.array([1.0, 4.0])))
    >>> sent.kind, sent.arrays
    ('sum', (array([2.]), array([1., 4.])))
    """
    if isinstance(value, Declared):
        own = value.own_parts()
        return _apart(layout(type(value)), value) if own is None else own
    if value is None:
        return NOTHING
    if isinstance(value, np.ndarray):
        return Parts("array", {}, (value,))
    if isinstance(value, int | float):
        return Parts("number", {}, (np.array(float(value)),))
    if defines(type(value), "parts"):
        return cast(Any, value).parts()  # type: ignore[no-any-return]
    return _apart(layout(type(value)), value)


def _apart(shape: Layout, value: object) -> Parts:
    numbers = []
    for part in shape.numbers:
        numbers.append(float(vars(value)[part.name]))
    arrays: list[NDArray[Any]] = [np.array(numbers)] if numbers else []
    facts: dict[str, Fact] = {}
    several = len(shape.many) > 1
    for part in shape.own:
        held = vars(value)[part.name]
        if part.form == "fact":
            if not (LATER in part.marks and held == part.otherwise()):
                facts[part.name] = _fact(held)
        elif part.form == "array":
            arrays.append(np.asarray(held))
        else:
            arrays.extend(held)
            if several:
                facts[f"n_{part.name}"] = len(held)
    own = Parts(shape.kind.name, facts, tuple(arrays))
    inside = shape.inside
    if not inside:
        return own
    named = {"": own} if facts or arrays else {}
    for part in inside:
        held = vars(value)[part.name]
        if part.form == "nested":
            named |= {} if held is None else {part.name: taken_apart(held)}
        else:
            pairs = sorted(held.items()) if part.form == "named" else enumerate(held)
            named |= {f"{part.name}/{key}": taken_apart(one) for key, one in pairs}
    return join(shape.kind.name, named)


def _fact(value: Any) -> Fact:
    if defines(type(value), "to_json"):
        return cast(Fact, value.to_json())
    return list(map(_fact, value)) if isinstance(value, tuple) else cast(Fact, value)


def put_together(hint: type[T], parts: Parts, *, trusted: bool = False) -> T:
    """Return the value of a class that travelled or was kept.

    Parameters
    ----------
    hint
        The class.
    trusted
        Whether numbers may be anything, as in what the server itself has kept; else they must be
        finite, and counts not negative.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Sum:
    ...     n: int
    ...     total: NDArray[np.float64]
    >>> put_together(Sum, Parts("sum", {}, (np.array([2.0]), np.array([np.nan]))))
    Traceback (most recent call last):
    catchment.errors.UploadError: total holds NaN or infinite numbers
    """
    if isinstance(hint, type) and issubclass(hint, Declared):
        return cast(T, _together(layout(hint), parts, trusted))
    return cast(T, _value(hint, parts, trusted))


def _value(hint: Any, parts: Parts, trusted: bool) -> Any:
    members = members_of(hint)
    if parts.kind == NOTHING.kind and types.NoneType in members:
        return None
    members = tuple(member for member in members if member is not types.NoneType)
    if len(members) > 1:
        members = tuple(m for m in members if is_value(m) and kind_of(m).name == parts.kind)
        if not members:
            raise IntegrityError(f"a message of kind {parts.kind!r} was not expected here")
    (hint,) = members
    if is_array(hint):
        (array,) = parts.expect("array", 1).arrays
        return _checked_array(array, dtype_of(hint), (), "an array", trusted)
    if hint in (int, float):
        (array,) = parts.expect("number", 1).arrays
        return _number(hint, float(array.reshape(-1)[0]) if array.size else np.nan, "it", (), True)
    made: Any = get_origin(hint) or hint
    if isinstance(made, type) and not issubclass(made, Declared) and defines(made, "from_parts"):
        for array in parts.arrays:
            _checked_array(array, None, (), f"a {parts.kind}", trusted)
        return cast(Any, made).from_parts(parts)
    return _together(layout(hint), parts, trusted)


def _together(shape: Layout, parts: Parts, trusted: bool) -> Any:
    if issubclass(shape.made, Declared):
        made = shape.made.from_own_parts(parts)
        if made is not None:
            return made
    inside = shape.inside
    own, named = parts, {}
    if inside:
        named = split(parts, shape.kind.name)
        own = named.pop("", Parts(shape.kind.name))
    values = _own_values(shape, own, trusted)
    for part in inside:
        values[part.name] = _inside(part, named, trusted)
    if named:
        raise IntegrityError(f"{shape.kind.name!r} came with {str(sorted(named))[:80]} too many")
    made = shape.made(**values)
    if not trusted:
        bind_sizes(made)
    return made


def _own_values(shape: Layout, own: Parts, trusted: bool) -> dict[str, Any]:
    numbers, many = shape.numbers, shape.many
    n_fixed = bool(numbers) + len(shape.single)
    counts = {}
    for part in many:
        told = own.facts.get(f"n_{part.name}") if len(many) > 1 else len(own.arrays) - n_fixed
        counts[part.name] = _read(int, told, "")
    if min(counts.values(), default=0) < 0:
        raise IntegrityError(f"{own.kind!r} came with {len(own.arrays)} arrays, too few")
    arrays = iter(own.expect(shape.kind.name, n_fixed + sum(counts.values())).arrays)
    values: dict[str, Any] = {}
    if numbers:
        came = next(arrays)
        if came.shape != (len(numbers),):
            raise IntegrityError(f"the counts of {own.kind!r} came with shape {came.shape}")
        if came.dtype != np.float64:
            raise UploadError("type", f"numbers came as {came.dtype}; they are float64")
        for part, number in zip(numbers, came.tolist(), strict=True):
            values[part.name] = _number(part.hint, number, part.name, part.marks, trusted)
    for part in shape.own:
        if part.form == "fact":
            known = part.name in own.facts
            hint = part.hint | None if part.optional else part.hint
            held = own.facts.get(part.name)
            values[part.name] = _read(hint, held, part.name) if known else part.otherwise()
        elif part.form == "array":
            array = _checked_array(next(arrays), part.dtype, part.marks, part.name, trusted)
            number = not array.ndim and float in members_of(part.hint)
            values[part.name] = float(array) if number else array
        else:
            values[part.name] = tuple(
                _checked_array(next(arrays), part.dtype, part.marks, part.name, trusted)
                for _ in range(counts[part.name])
            )
    return values


def _inside(part: Part, named: dict[str, Parts], trusted: bool) -> Any:
    """Return what lies in a field, and take it out of what came."""
    if part.form == "nested":
        came = named.pop(part.name, None)
        return part.otherwise() if came is None else _value(part.hint, came, trusted)
    prefix = f"{part.name}/"
    keys = [name for name in named if name.startswith(prefix)]
    if not keys:
        return {} if part.form == "named" else ()
    hint = get_args(part.hint)[1] if part.form == "named" else part.hint
    whole = part.form == "listed" or get_args(part.hint)[0] is int
    held: dict[Any, Any] = {}
    for name in keys:
        key = name.removeprefix(prefix)
        if whole and not re.fullmatch(r"0|[1-9][0-9]{0,8}", key):
            raise IntegrityError(f"{key[:20]!r} is not a number in {part.name!r}")
        held[int(key) if whole else key] = _value(hint, named.pop(name), trusted)
    if part.form == "named":
        return held
    if sorted(held) != list(range(len(held))):
        raise IntegrityError(f"the items of {part.name!r} are not numbered from 0 on")
    return tuple(held[k] for k in range(len(held)))


def _number(
    hint: Any, number: float, name: str, marks: tuple[object, ...], trusted: bool
) -> int | float:
    if hint is int:
        # A number that is not finite is none of these.
        if not (abs(number) < LARGEST and number == np.rint(number)):
            raise UploadError("count", f"{name} is {number}; it is not a number of anything")
        if number < 0 and not trusted:
            raise UploadError("count", f"{name} is {number:g}; a count cannot be negative")
        return int(number)
    if not trusted:
        if not np.isfinite(number):
            raise UploadError("not-finite", f"{name} is {number}; it is not a finite number")
        if number < 0 and (WEIGHT in marks or NOT_NEGATIVE in marks):
            raise UploadError("count", f"{name} is {number:g}; it cannot be negative")
        if number > LARGEST and WEIGHT in marks:
            raise UploadError("weight", f"{name} is {number:g}; no data can weigh so much")
    return number


def _checked_array(
    array: NDArray[Any], expected: Any, marks: tuple[object, ...], name: str, trusted: bool
) -> NDArray[Any]:
    single = ANY_FLOAT in marks and array.dtype == np.float32
    if expected is not None and array.dtype != expected and not single:
        raise UploadError("type", f"{name} came as {array.dtype}; it is {expected}")
    if trusted:
        return array
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UploadError("not-finite", f"{name} holds NaN or infinite numbers")
    counted = NOT_NEGATIVE in marks or (array.dtype.kind == "i" and SIGNED not in marks)
    if counted and array.size and array.min() < 0:
        raise UploadError("count", f"{name} holds {array.min():g}; it cannot be negative")
    return array


def _read(hint: Any, fact: Any, name: str) -> Any:
    """Return a fact as its type says; IntegrityError if it is of another."""
    for member in members_of(hint):
        if member is types.NoneType and fact is None:
            return None
        if get_origin(member) is Literal and fact in get_args(member):
            return fact
        if member in (str, int, bool) and type(fact) is member:
            return fact
        if member is float and type(fact) in (int, float):
            return float(fact)
        if isinstance(fact, str) and defines(member, "from_json"):
            return member.from_json(fact)
        if get_origin(member) is tuple and isinstance(fact, list):
            return tuple(_read(get_args(member)[0], one, name) for one in fact)
        if get_origin(member) not in (None, tuple, Literal) and isinstance(fact, Mapping):
            return fact
    raise IntegrityError(f"{name or 'a fact'} came as {str(fact)[:80]!r}, which it cannot be")


class Structure(Declared):
    """Base of frozen dataclasses that travel as their fields say; `KIND` names the message.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Pair(Structure):
    ...     n: int
    ...     name: str
    >>> Pair.from_parts(Parts.from_bytes(Pair(3, "x").parts().to_bytes()))
    Pair(n=3, name='x')
    """

    def parts(self) -> Parts:
        """Return the value as it travels."""
        return taken_apart(self)

    @classmethod
    def from_parts(cls, parts: Parts) -> Self:
        """Return the value that travelled.

        IntegrityError if it is malformed, UploadError if no data can have it.
        """
        made: Self = _together(layout(cls), parts, trusted=False)
        return made


class Summable(Structure):
    """Base of frozen dataclasses whose fields add.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, eq=False)
    ... class Mean(Summable):
    ...     n: int
    ...     total: float
    >>> a = Mean(1, 2.5)
    >>> (a + a).total, a + a - a == a
    (5.0, True)
    """

    def __add__(self, other: Self) -> Self:
        return _combined(self, other, plus)

    def __sub__(self, other: Self) -> Self:
        """Return the value without another that was added."""
        return _combined(self, other, _minus)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and equal(self, other)

    __hash__ = None  # type: ignore[assignment]
