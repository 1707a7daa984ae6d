"""Dataclasses from tables: types, choices, unknown names, and the schema of the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import pytest

from catchment import Array
from catchment.plans import Reader, described, nearest


@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.0


class Shape(Protocol):
    def area(self) -> float: ...


@dataclass(frozen=True)
class Circle:
    """A circle."""

    radius: float = 1.0

    def area(self) -> float:
        return 3 * self.radius**2


@dataclass(frozen=True)
class Square:
    side: float

    def area(self) -> float:
        return self.side**2


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Something drawn.

    Parameters
    ----------
    size
        How large.
    colour, edge
        Of the inside
        and of the outline.

    Some more text.
    """

    size: int = 3
    colour: Literal["red", "blue"] | None = None
    edge: str = "none"
    ratio: float | Literal["golden"] = 1.0
    points: tuple[Point, ...] = ()
    centre: Point | None = None
    pair: tuple[int, int] = (1, 2)
    shape: Shape = field(default_factory=Circle)
    filled: bool = False
    names: Mapping[str, int] = field(default_factory=dict)
    secret: str = ""

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError(f"size is {self.size}; pass 0 or more")


READER = Reader(
    choices={Shape: {"circle": Circle, "square": Square}}, hidden={Drawing: ("secret",)}
)


def read(**table: object) -> Drawing:
    return READER.read(Drawing, table, "[drawing]")


def test_values_of_every_type() -> None:
    drawing = read(
        size=5,
        colour="blue",
        ratio="golden",
        points=[{"x": 1, "y": 2.5}, {"x": 0.5}],
        centre={"x": 3},
        pair=[4, 5],
        shape={"name": "square", "side": 2},
        filled=True,
        names={"a": 1},
    )
    assert drawing == Drawing(
        size=5,
        colour="blue",
        ratio="golden",
        points=(Point(1.0, 2.5), Point(0.5)),
        centre=Point(3.0),
        pair=(4, 5),
        shape=Square(2.0),
        filled=True,
        names={"a": 1},
    )
    assert isinstance(read(ratio=2).ratio, float)
    assert read(shape="circle").shape == Circle()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"sise": 1}, r"\[drawing\] has no setting 'sise'; did you mean 'size'\?"),
        ({"zzz": 1}, "has no setting 'zzz'; choose from size, colour"),
        ({"secret": "x"}, "has no setting 'secret'"),
        ({"size": 1.5}, r"size in \[drawing\] is 1.5; give a whole number"),
        ({"size": True}, "is True; give a whole number"),
        ({"size": -1}, r"\[drawing\]: size is -1; pass 0 or more"),
        ({"filled": 1}, "is 1; give true or false"),
        ({"edge": 3}, "is 3; give a text"),
        ({"colour": "green"}, "is 'green'; give 'red' or 'blue'"),
        ({"ratio": "silver"}, "is 'silver'; give a number or 'golden'"),
        ({"points": [{"x": 1, "z": 2}]}, r"points in \[drawing\], entry 1 has no setting 'z'"),
        ({"points": {"x": 1}}, "give a list of table"),
        ({"points": [{"y": 1}]}, r"entry 1 lacks 'x'; add it"),
        ({"centre": {"x": "far"}}, r"x in centre in \[drawing\] is 'far'"),
        ({"pair": [1, 2, 3]}, r"is \[1, 2, 3\]"),
        ({"shape": {"side": 1}}, "needs a name: one of circle, square"),
        ({"shape": "sqare"}, "the name 'sqare'; did you mean 'square'"),
        ({"shape": {"name": "square"}}, "lacks 'side'"),
        ({"names": {"a": "b"}}, r"a of names in \[drawing\] is 'b'"),
    ],
)
def test_mistakes_are_named(table: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(**table)


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\[drawing\] is 3; make it a table"):
        READER.read(Drawing, 3, "[drawing]")


def test_given_settings_are_filled_in_and_not_in_the_file() -> None:
    given = {"size": 7, "unrelated": 1}
    assert READER.read(Drawing, {}, "[drawing]", given).size == 7
    with pytest.raises(ValueError, match="no setting 'size'"):
        READER.read(Drawing, {"size": 8}, "[drawing]", given)


def test_descriptions_come_from_the_docstring() -> None:
    texts = described(Drawing)
    assert texts["size"] == "How large."
    assert texts["colour"] == texts["edge"] == "Of the inside and of the outline."
    assert "Some more text." not in texts.values()
    assert described(Point) == {}


def test_the_schema_says_the_same() -> None:
    schema = READER.schema(Drawing, given={"size"})
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert "size" not in properties
    assert "secret" not in properties
    assert properties["colour"]["enum"] == ["red", "blue"]
    assert properties["ratio"] == {
        "anyOf": [{"type": "number"}, {"enum": ["golden"]}],
        "default": 1.0,
    }
    assert properties["points"]["items"]["required"] == ["x"]
    shapes = properties["shape"]["oneOf"]
    assert [one["properties"]["name"]["const"] for one in shapes] == ["circle", "square"]
    assert shapes[1]["required"] == ["name", "side"]
    assert shapes[0]["description"] == "A circle."
    assert properties["names"] == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }
    assert schema["additionalProperties"] is False
    assert "required" not in schema


def test_a_far_name_lists_them_all() -> None:
    assert nearest("qqq", ["one", "two"]) == "choose from one, two"


@dataclass(frozen=True)
class Weighted:
    weights: Array


def test_numbers_in_lists_become_an_array() -> None:
    reader = Reader()
    made = reader.read(Weighted, {"weights": [[1, 2.5], [3, 4]]}, "[map]")
    assert made.weights.dtype == np.float64
    assert made.weights.tolist() == [[1.0, 2.5], [3.0, 4.0]]
    for wrong in ([1.0, "a"], [[1.0], [1.0, 2.0]], [True], 3.0):
        with pytest.raises(ValueError, match="give a list of numbers, or of such lists"):
            reader.read(Weighted, {"weights": wrong}, "[map]")
    assert reader.schema(Weighted)["properties"] == {"weights": {"type": "array"}}
