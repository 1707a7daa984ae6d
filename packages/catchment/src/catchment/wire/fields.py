"""What a class declares of its fields: how each travels, adds, and which shape it has."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeVar,
    Union,
    final,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from catchment.errors import IntegrityError, UploadError
from catchment.wire.messages import Parts

FEW = 512  # entries up to which a plain dict is quicker


@final
class Gathered(Mapping[Any, Any]):
    """What several mappings hold, in parts that are each at least as large as the next.

    To put n small mappings together one after the other copies an entry log2 n times, where plain
    dicts would copy it n times. It is never changed: what was made of fewer parts stays as it is.

    >>> held = gathered(gathered({"a": 1}, {"b": 2}), {"a": 3})
    >>> dict(held)
    {'a': 3, 'b': 2}
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: tuple[Mapping[Any, Any], ...]) -> None:
        self._parts = parts

    def __getitem__(self, key: Any) -> Any:
        for part in self._parts:
            if key in part:
                return part[key]
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def with_part(self, new: Mapping[Any, Any]) -> Gathered:
        """Return what this and a mapping with other keys hold."""
        parts = [*self._parts, dict(new)]
        while len(parts) > 1 and len(parts[-2]) <= len(parts[-1]):
            last = parts.pop()
            parts[-1] = {**parts[-1], **last}
        return Gathered(tuple(parts))


def gathered(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return what two mappings hold; of a key in both, what the second has."""
    if len(one) + len(other) <= FEW or any(key in one for key in other):
        return {**one, **other}
    grown = one if isinstance(one, Gathered) else Gathered((one,) if one else ())
    return grown.with_part(other)


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
SIGNED: Final = Mark("signed")  # whole numbers that are no counts, and may be negative
REMARK: Final = Mark("remark")  # says how it went; left out of what noise makes private
COUNTED: Final = Mark("counted")  # counts values, or rows to which no rule on rows applies
CLIENTS: Final = Mark("clients")  # counts the clients in a value
ANY_FLOAT: Final = Mark("any float")  # float32 may come as well
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


class Declared:
    """Root of the classes whose messages have a name, and words about what they tell."""

    KIND: ClassVar[Kind] = Kind("")

    def own_parts(self) -> Parts | None:
        """Return the value in a form of its own, None if it travels as its fields say."""
        return None

    @classmethod
    def from_own_parts(cls, parts: Parts) -> Self | None:
        """Return the value of a form of its own, None if it is not in one."""
        return None


def defines(made: Any, method: str) -> bool:
    """Return whether something is a class that defines a method, itself or by a base.

    >>> defines(list, "append"), defines(int, "append"), defines(3, "append")
    (True, False, False)
    """
    return isinstance(made, type) and any(method in vars(one) for one in made.__mro__)


@dataclass(frozen=True)
class Part:
    """One field: how it travels, the type of what is in it, and what is written beside it."""

    name: str
    form: Literal["number", "array", "arrays", "fact", "nested", "named", "listed"]
    hint: Any
    marks: tuple[object, ...]
    optional: bool
    default: Field[Any]

    @cached_property
    def shape(self) -> Shape | Triangle | None:
        return next((mark for mark in self.marks if isinstance(mark, Shape | Triangle)), None)

    @cached_property
    def dtype(self) -> Any:
        """The type of an array's numbers, None if any will do."""
        return dtype_of(self.hint)

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
    if issubclass(made, Declared) and made.KIND.name:
        return made.KIND
    return Kind(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", made.__name__.lstrip("_")).lower())


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
    open_ = getattr(hint, "__parameters__", ())  # only generic types have any
    known = tuple(bound.get(parameter, parameter) for parameter in open_)
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
    if form is None:
        raise TypeError(
            f"{made.__name__}.{field.name} is {hint}, which cannot travel; use arrays, numbers, "
            "text, or dataclasses of these"
        )
    return Part(field.name, form, content, marks, optional, field)


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
    if isinstance(origin, type) and issubclass(origin, Mapping):
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
    return isinstance(made, TypeVar) or (
        isinstance(made, type) and (is_dataclass(made) or defines(made, "from_parts"))
    )


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
    return isinstance(origin, type) and issubclass(origin, Mapping) and _is_json(args[1])


def _is_json(hint: Any) -> bool:
    """Whether a type is `Fact`, of which type hints make a copy."""
    return {str, int, float, bool} <= set(members_of(hint))


def bind_sizes(value: object) -> dict[str, int]:
    """Return the sizes that a value's shapes name; UploadError if they contradict each other.

    >>> from catchment.readout.statistics import RidgeStatistics
    >>> bind_sizes(RidgeStatistics.zero(3, 2))
    {'features': 3, 'targets': 2}
    """
    sizes: dict[str, int] = {}
    held = vars(value)
    for part in layout(type(value)).shaped:
        shape = np.shape(held[part.name])
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
    if isinstance(value, Mapping):
        for one in value.values():
            yield from measured(one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from measured(one)
    elif is_dataclass(value) and not isinstance(value, type | Parts):
        counted = marked(value, ROWS)
        if counted:
            yield Measured(int(vars(value)[counted]), bind_sizes(value))
        else:
            for field in fields(value):
                yield from measured(vars(value)[field.name])


def marked(value: object, mark: Mark) -> str:
    """Return the name of the field of a value that has a mark beside it, or nothing."""
    made: Any = type(value)
    return next((name for name, marks in marks_of(made).items() if mark in marks), "")


def places_of(value: object, mark: Mark) -> list[int]:
    """Return where the numbers with a mark beside them lie in the vector of a value's numbers.

    >>> from catchment.federation.algorithm import WeightedSum
    >>> places_of(WeightedSum((), 1.0), WEIGHT)
    [0]
    """
    numbers = layout(type(value)).numbers
    return [k for k, part in enumerate(numbers) if mark in part.marks]


@lru_cache(maxsize=512)
def marks_of(made: Any) -> dict[str, tuple[object, ...]]:
    """Return what is written beside each field of a dataclass that has something there."""
    hints = _hints(made)
    return {
        field.name: get_args(hints[field.name])[1:]
        for field in fields(made)
        if get_origin(hints[field.name]) is Annotated
    }
