"""What a class declares of its fields, and values that add, compare, travel and are kept by it."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import lru_cache
from operator import add, attrgetter, sub
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeVar,
    Union,
    cast,
    final,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import NDArray

from catchment.errors import IntegrityError, UploadError
from catchment.wire.kept import KEPT
from catchment.wire.messages import NOTHING, Fact, Message, join, split

T = TypeVar("T")
LARGEST = 2**53  # integers up to here are exact in float64


@dataclass(frozen=True)
class Mark:
    """A word beside a field's type."""

    name: str


SAME: Final = Mark("same")  # must be equal for two values to add
ROWS: Final = Mark("rows")  # counts the rows behind the value
WEIGHT: Final = Mark("weight")  # what the value's arrays are divided by to give a mean
GATHERED: Final = Mark("gathered")  # a mapping that adding puts together, key by key its own
POOLED: Final = Mark("pooled")  # a mapping that adding puts together; values of one key add
NOT_NEGATIVE: Final = Mark("not negative")
SIGNED: Final = Mark("signed")  # integers that are no counts, and may be negative
REMARK: Final = Mark("remark")  # says how it went; left out of what noise makes private
COUNTED: Final = Mark("counted")  # counts values, or rows to which no rule on rows applies
CLIENTS: Final = Mark("clients")  # counts the clients in a value
ANY_FLOAT: Final = Mark("any float")  # float32 may come as well
APART: Final = Mark("apart")  # a number in an array of its own: there could be several once
LATER: Final = Mark("later")  # added to the class later: left out of messages where it is default


@final
@dataclass(frozen=True, init=False)
class Shape:
    """The shape of an array: numbers, or names that mean one size throughout a value.

    >>> Shape("features", 3)
    Shape(sizes=('features', 3))
    """

    sizes: tuple[str | int, ...]

    def __init__(self, *sizes: str | int) -> None:
        object.__setattr__(self, "sizes", sizes)


@dataclass(frozen=True)
class Triangle:
    """A symmetric matrix as its packed triangle; `size` names its rows."""

    size: str


@dataclass(frozen=True)
class Kind:
    """What a message is called, what it holds, and what whoever reads it learns."""

    name: str
    holds: str = ""
    tells: tuple[str, ...] = ()


class Structure:
    """Base of frozen dataclasses that travel as their fields say; `KIND` names the message.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Pair(Structure):
    ...     n: int
    ...     name: str
    >>> Pair.from_message(Message.from_bytes(Pair(3, "x").parts().to_bytes()))
    Pair(n=3, name='x')
    """

    KIND: ClassVar[Kind] = Kind("")

    def parts(self) -> Message:
        """Return the value as it travels."""
        shape, held = layout(type(self)), vars(self)
        numbers: list[float] = []
        for part in shape.numbers:
            numbers.append(float(held[part.name]))
        arrays: list[NDArray[Any]] = [np.array(numbers)] if numbers else []
        facts: dict[str, Fact] = {}
        for part in shape.own:
            value = held[part.name]
            if part.form == "fact":
                if not (LATER in part.marks and value == part.otherwise()):
                    facts[part.kept] = _fact(value)
            elif part.form == "array":
                arrays.append(np.asarray(value))
            else:
                arrays.extend(value)
                if len(shape.many) > 1:
                    facts[f"n_{part.kept}"] = len(value)
        own = Message(shape.kind.name, facts, tuple(arrays))
        if not shape.inside:
            return own
        named = {"": own} if facts or arrays else {}
        for part in shape.inside:
            value = held[part.name]
            if part.form == "nested":
                named |= {} if value is None else {part.kept: serialize(value)}
            else:
                pairs = sorted(value.items()) if part.form == "named" else enumerate(value)
                named |= {f"{part.kept}/{key}": serialize(one) for key, one in pairs}
        return join(shape.kind.name, named)

    @classmethod
    def from_message(cls, parts: Message, *, trusted: bool = False) -> Self:
        """Return the value that traveled; `trusted` as of `deserialize`.

        IntegrityError if it is malformed, UploadError if no data can have it.
        """
        made: Self = _together(layout(cls), parts, trusted)
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
        return cast(Self, plus(self, other))

    def __sub__(self, other: Self) -> Self:
        """Return the value without another that was added."""
        return cast(Self, plus(self, other, sub))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and equal(self, other)

    __hash__ = None  # type: ignore[assignment]


def defines(made: Any, method: str) -> bool:
    """Return whether something is a class that defines a method, itself or by a base.

    >>> defines(list, "append"), defines(int, "append"), defines(3, "append")
    (True, False, False)
    """
    return isinstance(made, type) and getattr(made, method, None) is not None


@dataclass(frozen=True)
class Part:
    """One field: how it travels, the type of what is in it, and what is written beside it."""

    name: str
    kept: str  # the name that messages have
    form: Literal["number", "array", "arrays", "fact", "nested", "named", "listed"]
    hint: Any
    marks: tuple[object, ...]
    optional: bool
    default: Field[Any]
    shape: Shape | Triangle | None
    dtype: Any  # the type of an array's numbers, None if any will do

    def otherwise(self) -> Any:
        """Return what the field is where nothing came; IntegrityError if there is no such value."""
        if self.default.default is not MISSING:
            return self.default.default
        if self.default.default_factory is not MISSING:
            return self.default.default_factory()
        if self.optional:
            return None
        if self.form in ("named", "listed"):
            return {} if self.form == "named" else ()
        raise IntegrityError(f"the message lacks {self.name!r}")


@dataclass(frozen=True)
class Layout:
    """The fields of a class in the order of the wire, all of them and by the form they have."""

    kind: Kind
    made: type
    parts: tuple[Part, ...]
    numbers: tuple[Part, ...]
    single: tuple[Part, ...]  # arrays
    many: tuple[Part, ...]  # tuples of arrays
    own: tuple[Part, ...]  # facts and arrays
    inside: tuple[Part, ...]
    shaped: tuple[Part, ...]  # packed triangles last: others say how large they are


def kind_of(hint: Any) -> Kind:
    """Return what messages of a class are called, and what they tell if the class says so.

    >>> class BigSum: ...
    >>> kind_of(BigSum).name
    'big-sum'
    """
    made: type = get_origin(hint) or hint
    if issubclass(made, Structure) and made.KIND.name:
        return made.KIND
    name = made.__name__.lstrip("_")
    return Kind(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", KEPT.get(name, name)).lower())


def _layout(hint: Any) -> Layout:
    """Return the fields of a dataclass; TypeError if one of them cannot travel."""
    made = get_origin(hint) or hint
    if not (isinstance(made, type) and is_dataclass(made)):
        raise TypeError(f"{made} cannot travel; use a dataclass of arrays and numbers")
    hints, open_ = _hints(made), vars(made).get("__parameters__", ())
    bound = dict(zip(open_, get_args(hint), strict=False))
    parts = tuple(
        _part(made, field, _bound(hints[field.name], bound)) for field in fields(made) if field.init
    )

    def of(*forms: str) -> tuple[Part, ...]:
        return tuple(part for part in parts if part.form in forms)

    shaped = [part for part in of("array") if part.shape is not None]
    return Layout(
        kind_of(made),
        made,
        parts,
        of("number"),
        of("array"),
        of("arrays"),
        of("fact", "array", "arrays"),
        of("nested", "named", "listed"),
        tuple(sorted(shaped, key=lambda part: isinstance(part.shape, Triangle))),
    )


layout: Callable[[Any], Layout] = lru_cache(maxsize=512)(_layout)


def _hints(made: type) -> dict[str, Any]:
    try:
        return get_type_hints(made, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"the types of {made.__name__}'s fields are not known here ({error}); define the class "
            "at the top of a module, and import what it names"
        ) from error


def _bound(hint: Any, bound: Mapping[Any, Any]) -> Any:
    """Return a type with what its parameters stand for in their place."""
    if isinstance(hint, TypeVar):
        return bound.get(hint, hint)
    known = tuple(bound.get(one, one) for one in getattr(hint, "__parameters__", ()))
    return hint[known] if known else hint


def _part(made: type, field: Field[Any], hint: Any) -> Part:
    marks: tuple[object, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        marks = tuple(rest)
    members = [m for m in members_of(hint) if m is not types.NoneType]
    optional = len(members) < len(members_of(hint))
    inner = members[0] if len(members) == 1 else hint
    form, content = _form(inner, members, optional=optional, same=SAME in marks)
    if APART in marks:
        form = "array"
    if form is None:
        raise TypeError(
            f"{made.__name__}.{field.name} is {hint}, which cannot travel; use arrays, numbers, "
            "text, or dataclasses of these"
        )
    shape = next((mark for mark in marks if isinstance(mark, Shape | Triangle)), None)
    known = (field.name, KEPT.get(field.name, field.name), form, content, marks, optional, field)
    return Part(*known, shape, dtype_of(content))


def _form(inner: Any, members: list[Any], *, optional: bool, same: bool) -> tuple[Any, Any]:
    """Return how a type travels, and the type of what is in it; None if it does not."""
    if get_origin(inner) is Literal:
        return "fact", inner
    if not optional and inner in (int, float) and not same:
        return "number", inner
    if len(members) == 2 and float in members and any(is_array(m) for m in members):
        return "array", inner
    if is_array(inner):
        return ("nested" if optional else "array"), inner
    if _is_fact(inner):
        return "fact", inner
    origin, args = get_origin(inner), get_args(inner)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return ("arrays" if is_array(args[0]) else "listed"), args[0]
    if defines(origin, "keys"):
        return "named", inner
    if all(is_value(member) for member in members):
        return "nested", inner
    return None, inner


def members_of(hint: Any) -> tuple[Any, ...]:
    """Return the types that a union is made of, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def is_array(hint: Any) -> bool:
    """Return whether a type is that of an array."""
    return get_origin(_spelled_out(hint)) is np.ndarray


def _spelled_out(hint: Any) -> Any:
    """Return what an alias stands for: `NDArray` is one of its own kind from numpy 2.5 on."""
    alias = get_origin(hint)
    stands_for = getattr(alias, "__value__", None)  # only aliases declared by `type` have it
    return hint if stands_for is None else stands_for[get_args(hint)]


def dtype_of(hint: Any) -> Any:
    """Return the type of the numbers of arrays of a type, None if any will do."""
    for member in members_of(hint):
        if is_array(member):
            (kind,) = get_args(get_args(_spelled_out(member))[1]) or (Any,)
            return np.dtype(kind) if kind in (np.float64, np.int64) else None
    return None


def is_value(hint: Any) -> bool:
    """Return whether a type is a class whose values travel."""
    made = get_origin(hint) or hint
    return isinstance(made, TypeVar) or is_dataclass(made) or defines(made, "from_message")


def _is_fact(hint: Any) -> bool:
    """Whether a type is plain JSON: text, numbers, and lists of them."""
    if hint in (str, int, float, bool, types.NoneType) or _is_json(hint):
        return True
    if defines(hint, "from_json"):
        return True
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal or origin in (Union, types.UnionType):
        return origin is Literal or all(_is_fact(member) for member in args)
    if origin is tuple:
        return all(_is_fact(member) for member in args if member is not Ellipsis)
    return defines(origin, "keys") and _is_json(args[1])


def _is_json(hint: Any) -> bool:
    """Whether a type is `Fact`, of which type hints make a copy."""
    return {str, int, float, bool} <= set(members_of(hint))


def bind_sizes(value: object) -> dict[str, int]:
    """Return the sizes that a value's shapes name; UploadError if they contradict each other.

    >>> from catchment.readout.statistics import RidgeStatistics
    >>> bind_sizes(RidgeStatistics.zero(3, 2))
    {'features': 3, 'targets': 2}
    """
    made: Any = type(value)
    named = map(attrgetter("name"), layout(made).shaped)
    return _sizes_in(made, tuple(map(np.shape, map(vars(value).__getitem__, named))))


@lru_cache(maxsize=512)  # clients of a round mostly send the same shapes
def _sizes_in(made: Any, shapes: tuple[tuple[int, ...], ...]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for part, shape in zip(layout(made).shaped, shapes, strict=True):
        if isinstance(part.shape, Triangle):
            n = sizes.get(part.shape.size)
            fits = len(shape) == 1 and (n is None or shape[0] == n * (n + 1) // 2)
        else:
            wanted = part.shape.sizes if part.shape else ()
            fits = len(shape) == len(wanted)
            for want, size in zip(wanted, shape, strict=False):
                known = want if isinstance(want, int) else sizes.setdefault(want, size)
                fits = fits and known == size
        if not fits:
            raise UploadError("shape", f"{part.name} came with shape {shape}, which does not fit")
    return sizes


@dataclass(frozen=True)
class Measured:
    """How many rows are behind a value, and the sizes that its shapes name."""

    rows: int
    sizes: Mapping[str, int]


def measured(value: object) -> Iterator[Measured]:
    """Yield the rows behind a value, or behind every one inside it, where they are counted.

    >>> from catchment.readout.statistics import RidgeStatistics
    >>> list(measured(RidgeStatistics.zero(3, 2)))
    [Measured(rows=0, sizes={'features': 3, 'targets': 2})]
    """
    inside: Iterable[object] = ()
    match value:
        case type() | Message():
            pass
        case Mapping():
            inside = value.values()
        case tuple() | list():
            inside = value
        case _ if is_dataclass(value):
            if counted := marked(type(value), ROWS):
                yield Measured(int(vars(value)[counted]), bind_sizes(value))
            else:
                inside = [vars(value)[field.name] for field in fields(value)]
    for one in inside:
        yield from measured(one)


def _marked(made: Any, mark: Mark) -> str:
    """Return the name of the field of a dataclass that has a mark beside it, or nothing."""
    hints = _hints(made)  # not the layout's: what lies in a value need not travel by itself
    return next((one.name for one in fields(made) if mark in get_args(hints[one.name])[1:]), "")


marked: Callable[[Any, Mark], str] = lru_cache(maxsize=512)(_marked)


def places_of(value: object, mark: Mark) -> list[int]:
    """Return where the numbers with a mark beside them lie in the vector of a value's numbers.

    >>> from catchment.federation.algorithm import WeightedSum
    >>> places_of(WeightedSum((), 1.0), WEIGHT)
    [0]
    """
    numbers = layout(type(value)).numbers
    return [k for k, part in enumerate(numbers) if mark in part.marks]


def is_whole(value: object) -> bool:
    """Return whether all that adds in a value are integers: its sums have no order then.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Sum:
    ...     n: int
    ...     total: float
    >>> is_whole(Sum(1, 2.0)), is_whole(Sum(1, 2.5))
    (True, False)
    """
    match value:
        case None | int():
            return True
        case float():
            return value.is_integer() and abs(value) < LARGEST
        case Mapping():
            return all(map(is_whole, value.values()))
        case tuple() | list():
            return all(map(is_whole, value))
        case np.ndarray():
            kind = value.dtype.kind
            return kind in "iu" or (kind == "O" and all(type(one) is int for one in value.flat))
    if not is_dataclass(value):
        return False
    adds = (part for part in layout(type(value)).parts if part.form != "fact")
    return all(is_whole(vars(value)[part.name]) for part in adds if GATHERED not in part.marks)


def plus(one: Any, other: Any, how: Callable[[Any, Any], Any] = add) -> Any:
    """Return the sum of two values: by their own `+`, field by field if they have none.

    With `sub` it is the first without the second, which was added; ValueError if a count would be
    negative.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Sum:
    ...     n: int
    ...     unit: str
    >>> plus(Sum(1, "m"), Sum(2, "m"))
    Sum(n=3, unit='m')
    >>> plus(Sum(1, "m"), Sum(2, "km"))
    Traceback (most recent call last):
    catchment.errors.UploadError: values of unit 'm' and 'km' do not add
    """
    made: Any = type(one)
    own = f"__{how.__name__}__"
    by_fields = getattr(Summable, own)
    if not is_dataclass(one) or getattr(made, own, by_fields) is not by_fields:
        if isinstance(one, np.ndarray) and one.shape != np.shape(other):
            raise UploadError("shape", f"arrays of {np.shape(other)} and {one.shape} do not add")
        if how is sub and isinstance(one, int) and other > one:
            raise ValueError(f"cannot take {other} out of {one}; subtract only what was added")
        return how(one, other)
    if made is not type(other):
        raise TypeError(f"cannot combine {made.__name__} with {type(other).__name__}")
    values: dict[str, Any] = {}
    for part in layout(made).parts:
        a, b = vars(one)[part.name], vars(other)[part.name]
        if part.form == "fact":
            if a != b:
                raise UploadError(
                    "different", f"values of {part.name} {_short(a)} and {_short(b)} do not add"
                )
            values[part.name] = a
        elif GATHERED in part.marks:
            values[part.name] = {**a, **b}
        elif part.form == "named":
            values[part.name] = _by_key(part, a, b, how) if a or b else a
        elif part.form in ("arrays", "listed"):
            if len(a) != len(b):
                raise UploadError("shape", f"{len(b)} {part.name} do not add to {len(a)}")
            values[part.name] = tuple(plus(x, y, how) for x, y in zip(a, b, strict=True))
        elif a is None or b is None:
            if a is not b:
                raise UploadError("kind", f"a value with {part.name} and one without do not add")
            values[part.name] = None
        else:
            values[part.name] = plus(a, b, how)
    return made(**values)


def _by_key(part: Part, one: Mapping[Any, Any], other: Mapping[Any, Any], how: Any) -> Any:
    if POOLED in part.marks and how is add:
        both = {key: plus(one[key], v) if key in one else v for key, v in other.items()}
        return {**one, **both}
    if one.keys() != other.keys():
        raise UploadError(
            "different",
            f"{part.name} {_short(sorted(other))} do not add to {_short(sorted(one))}",
        )
    return {key: plus(held, other[key], how) for key, held in one.items()}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def equal(one: object, other: object) -> bool:
    """Return whether two values are equal in every field, to the bit.

    >>> equal((np.ones(2), {"a": 1}), (np.ones(2), {"a": 1}))
    True
    """
    match one, other:
        case (np.ndarray(), _) | (_, np.ndarray()):
            return np.array_equal(cast(Any, one), cast(Any, other))
        case Mapping(), Mapping():
            return one.keys() == other.keys() and all(equal(v, other[k]) for k, v in one.items())
        case tuple(), tuple():
            return len(one) == len(other) and all(map(equal, one, other))
        case Structure(), _ if type(one).parts is not Structure.parts:
            return one == other
    if is_dataclass(one) and type(one) is type(other):
        return all(equal(vars(one)[f.name], vars(other)[f.name]) for f in fields(one))
    return one == other


def serialize(value: object) -> Message:
    """Return a value as it travels or is kept.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Sum:
    ...     n: int
    ...     total: NDArray[np.float64]
    >>> sent = serialize(Sum(2, np.array([1.0, 4.0])))
    >>> sent.kind, sent.arrays
    ('sum', (array([2.]), array([1., 4.])))
    """
    match value:
        case Structure():
            return value.parts()
        case None:
            return NOTHING
        case Message():
            return value
        case np.ndarray():
            return Message("array", {}, (value,))
        case int() | float():
            return Message("number", {}, (np.array(float(value)),))
    if defines(type(value), "parts"):
        return cast(Any, value).parts()  # type: ignore[no-any-return]
    return Structure.parts(cast(Any, value))


def _fact(value: Any) -> Fact:
    if defines(type(value), "to_json"):
        return cast(Fact, value.to_json())
    return list(map(_fact, value)) if isinstance(value, tuple) else cast(Fact, value)


def deserialize(hint: type[T], parts: Message, *, trusted: bool = False) -> T:
    """Return the value of a class that traveled or was kept.

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
    >>> deserialize(Sum, Message("sum", {}, (np.array([2.0]), np.array([np.nan]))))
    Traceback (most recent call last):
    catchment.errors.UploadError: total holds NaN or infinite numbers
    """
    return cast(T, _value(hint, parts, trusted))


def _value(hint: Any, parts: Message, trusted: bool) -> Any:
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
    if made is hint and issubclass(made, Structure):
        return made.from_message(parts, trusted=trusted)
    if defines(made, "from_message") and not issubclass(made, Structure):
        for array in parts.arrays:
            _checked_array(array, None, (), f"a {parts.kind}", trusted)
        return cast(Any, made).from_message(parts)
    return _together(layout(hint), parts, trusted)


def _together(shape: Layout, parts: Message, trusted: bool) -> Any:
    inside = shape.inside
    own, named = parts, {}
    if inside:
        named = split(parts, shape.kind.name)
        own = named.pop("", Message(shape.kind.name))
    numbers, many = shape.numbers, shape.many
    n_fixed = bool(numbers) + len(shape.single)
    counts = {}
    for part in many:
        told = own.facts.get(f"n_{part.kept}") if len(many) > 1 else len(own.arrays) - n_fixed
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
            known = part.kept in own.facts
            hint = part.hint | None if part.optional else part.hint
            held = own.facts.get(part.kept)
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
    for part in inside:
        values[part.name] = _inside(part, named, trusted)
    if named:
        raise IntegrityError(f"{shape.kind.name!r} came with {str(sorted(named))[:80]} too many")
    made = shape.made(**values)
    if not trusted:
        bind_sizes(made)
    return made


def _inside(part: Part, named: dict[str, Message], trusted: bool) -> Any:
    """Return what lies in a field, and take it out of what came."""
    if part.form == "nested":
        came = named.pop(part.kept, None)
        return part.otherwise() if came is None else _value(part.hint, came, trusted)
    prefix = f"{part.kept}/"
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
        match get_origin(member), fact:
            case _, str() if defines(member, "from_json"):
                return member.from_json(fact)
            case origin, list() if origin is tuple:
                return tuple(_read(get_args(member)[0], one, name) for one in fact)
            case origin, Mapping() if origin not in (None, tuple, Literal):
                return fact
    raise IntegrityError(f"{name or 'a fact'} came as {str(fact)[:80]!r}, which it cannot be")
