"""Values that declare their fields: how they add, travel, and what is refused on arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from catchment import Array, Integers
from catchment.errors import CatchmentError, IntegrityError, UploadError
from catchment.features import Reservoir
from catchment.readout import Readout
from catchment.wire import (
    GATHERED,
    NOT_NEGATIVE,
    NOTHING,
    ROWS,
    SAME,
    WEIGHT,
    Fact,
    Kind,
    Message,
    Shape,
    Structure,
    Summable,
    Triangle,
    deserialize,
    equal,
    kind_of,
    marked,
    measured,
    plus,
    serialize,
)

V = TypeVar("V")


@dataclass(frozen=True, eq=False)
class Sums(Summable):
    KIND: ClassVar[Kind] = Kind("sums", "sums of rows", ("how many rows there are",))

    n: Annotated[int, ROWS]
    weight: Annotated[float, WEIGHT]
    total: Annotated[Array, Shape("features")]
    squares: Annotated[Array, Triangle("features"), NOT_NEGATIVE]
    counts: Integers
    unit: str = "m"
    version: Annotated[int, SAME] = 1


@dataclass(frozen=True, eq=False)
class Holding(Summable, Generic[V]):
    inner: V
    by_client: Annotated[Mapping[str, V], GATHERED] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Everything(Structure):
    sums: Sums | None = None
    readout: Readout | None = None
    numbered: Mapping[int, Sums] = field(default_factory=dict)
    held: tuple[Holding[Sums], ...] = ()
    values: tuple[Array, ...] = ()
    memory: tuple[Array, ...] = ()
    names: tuple[str, ...] | None = None
    best: int | None = None
    ridge: float | Array = 0.0
    maybe: Array | None = None
    recipe: Reservoir | None = None
    about: Mapping[str, Fact] = field(default_factory=dict)


def sums(n: int = 3, **changes: Any) -> Sums:
    made = Sums(n, 2.0 * n, np.arange(2.0), np.ones(3), np.array([n, 0]))
    return replace(made, **changes)


def traveled(value: Any) -> Any:
    return deserialize(type(value), Message.from_bytes(serialize(value).to_bytes()))


numbers = arrays.arrays(np.float64, 3, elements=st.integers(-(10**6), 10**6).map(float))


@given(a=numbers, b=numbers, c=numbers, n=st.integers(0, 2**40))
def test_adding_is_adding_every_field_and_can_be_undone(
    a: Array, b: Array, c: Array, n: int
) -> None:
    x, y, z = (sums(n, total=v) for v in (a, b, c))
    assert ((x + y) + z) == (x + (y + z)) == plus(plus(x, y), z)
    np.testing.assert_array_equal((x + y).total, a + b)
    assert (x + y).n == 2 * n
    assert (x + y) - y == x
    assert (x + y).unit == "m"


@given(total=numbers, n=st.integers(0, 2**53 - 1), weight=st.floats(0, 2.0**53))
def test_a_value_survives_the_journey_to_the_bit(total: Array, n: int, weight: float) -> None:
    squares = np.ones(6)
    sent = sums(n, total=total, weight=weight, squares=squares, counts=np.array([1, 2]))
    assert traveled(sent) == sent
    assert sent.parts().kind == "sums"
    assert sent.parts().facts == {"unit": "m", "version": 1}


def test_whatever_lies_inside_a_value_survives_too() -> None:
    whole = Everything(
        sums(),
        Readout(np.ones((2, 1)), np.zeros(1), 0.5),
        {0: sums(1), 12: sums(2)},
        (Holding(sums(4), {"a/b": sums(5), "": sums(6)}), Holding(sums(7))),
        (np.ones(2), np.zeros((1, 2))),
        (np.zeros(0),),
        ("x", "y"),
        3,
        np.array([0.1, 0.2]),
        np.full(2, 7.0),
        Reservoir(units=5, inputs=1),
        {"nested": {"list": [1, "two", None]}},
    )
    got = traveled(whole)
    assert equal(replace(got, readout=None), replace(whole, readout=None))
    np.testing.assert_array_equal(got.readout.weights, whole.readout.weights)  # type: ignore[union-attr]
    assert equal(traveled(Everything()), Everything())
    assert type(traveled(Everything(ridge=0.25)).ridge) is float


def test_what_must_be_equal_keeps_values_apart() -> None:
    for changes in ({"unit": "km"}, {"version": 2}):
        with pytest.raises(UploadError, match="do not add"):
            _ = sums() + sums(**changes)
    with pytest.raises(UploadError, match="do not add"):
        _ = sums() + sums(total=np.zeros(3))
    with pytest.raises(TypeError, match="cannot combine Sums with Holding"):
        plus(sums(), Holding(sums()))
    with pytest.raises(ValueError, match="subtract only what was added"):
        _ = sums(1) - sums(2)


def test_what_is_gathered_is_put_together_and_what_is_not_must_have_the_same_keys() -> None:
    both = Holding(sums(1), {"a": sums(1)}) + Holding(sums(2), {"b": sums(2)})
    assert both.inner == sums(1) + sums(2)
    assert sorted(both.by_client) == ["a", "b"]

    with pytest.raises(UploadError, match="do not add"):
        plus(Everything(numbered={0: sums()}), Everything(numbered={1: sums()}))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"n": -1}, "count"),
        ({"weight": -1.0}, "count"),
        ({"weight": np.inf}, "not-finite"),
        ({"total": np.array([1.0, np.nan])}, "not-finite"),
        ({"total": np.array([1, 2])}, "type"),
        ({"total": np.ones(2, np.float32)}, "type"),
        ({"total": np.ones((2, 1))}, "shape"),
        ({"squares": np.ones(4)}, "shape"),
        ({"squares": -np.ones(3)}, "count"),
        ({"counts": np.array([-1, 0])}, "count"),
        ({"counts": np.array([0.5, 0.5])}, "type"),
    ],
)
def test_numbers_that_no_data_have_are_refused_with_a_code(
    changes: dict[str, Any], code: str
) -> None:
    with pytest.raises(UploadError) as caught:
        traveled(sums(**changes))
    assert caught.value.code == code


def test_what_the_server_kept_itself_may_hold_anything() -> None:
    odd = sums(total=np.array([np.nan, np.inf]), weight=-1.0)
    assert deserialize(Sums, odd.parts(), trusted=True).weight == -1.0


@pytest.mark.parametrize(
    "parts",
    [
        NOTHING,
        Message("sums"),
        Message("others", sums().parts().facts, sums().parts().arrays),
        replace(sums().parts(), arrays=sums().parts().arrays[:-1]),
        replace(sums().parts(), arrays=(*sums().parts().arrays, np.ones(1))),
        replace(sums().parts(), facts={"unit": 3, "version": 1}),
        replace(sums().parts(), facts={"unit": "m", "version": True}),
        replace(sums().parts(), arrays=(np.ones((2, 1)), *sums().parts().arrays[1:])),
        replace(sums().parts(), arrays=(np.array([0.5, 1.0]), *sums().parts().arrays[1:])),
    ],
)
def test_what_is_malformed_is_refused(parts: Message) -> None:
    with pytest.raises(CatchmentError):
        Sums.from_message(parts)


def test_no_part_may_come_that_was_not_declared() -> None:
    good = Everything(numbered={1: sums()}).parts()
    entries: Any = good.facts["parts"]
    for name in ("numbered/x", "numbered/-1", "numbered/1e3", "held/1", "other", "sums/0"):
        renamed = [{**e, "name": name} if e["name"] == "numbered/1" else e for e in entries]
        with pytest.raises(IntegrityError):
            Everything.from_message(replace(good, facts={"parts": renamed}))


def test_a_declaration_can_be_asked() -> None:
    assert marked(type(sums()), WEIGHT) == "weight"
    assert marked(Holding, WEIGHT) == ""
    found = list(measured({"a": [Holding(sums(4), {"b": sums(9)})]}))
    assert [(one.rows, one.sizes) for one in found] == [(4, {"features": 2}), (9, {"features": 2})]
    assert kind_of(Sums).tells == ("how many rows there are",)
    assert kind_of(Holding).name == "holding"


def test_a_field_that_cannot_travel_is_named() -> None:
    @dataclass(frozen=True)
    class Odd:
        what: complex

    with pytest.raises(TypeError, match=r"Odd.what is .*complex.*, which cannot travel"):
        serialize(Odd(1j))
