"""Dataclasses read from tables: types, choices, unknown names, and the schema of the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_type_hints

import numpy as np
import pytest
from annotated_types import Ge

from catchment import Array
from catchment.errors import nearest
from catchment.federation import Limits
from catchment.plans import (
    ALGORITHMS,
    MAPS,
    PLASTICITY,
    PROTECTIONS,
    described,
    read,
    schema,
)
from catchment.readout import LDA, Head


@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Something drawn.

    Parameters
    ----------
    size
        How large.
    color, edge
        Of the inside
        and of the outline.

    Some more text.
    """

    size: int = 3
    color: Literal["red", "blue"] | None = None
    edge: str = "none"
    ratio: float | Literal["golden"] = 1.0
    points: tuple[Point, ...] = ()
    center: Point | None = None
    pair: tuple[int, int] = (1, 2)
    head: Head = field(default_factory=LDA)
    filled: bool = False
    names: Mapping[str, int] = field(default_factory=dict)
    pieces: Annotated[int, Ge(1)] | Literal["all"] = 1

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError(f"size is {self.size}; pass 0 or more")


def drawing(**table: object) -> Drawing:
    return read(Drawing, table, "[drawing]")


def test_values_of_every_type() -> None:
    found = drawing(
        size=5,
        color="blue",
        ratio="golden",
        points=[{"x": 1, "y": 2.5}, {"x": 0.5}],
        center={"x": 3},
        pair=[4, 5],
        head={"name": "lda", "ridge": 2},
        filled=True,
        names={"a": 1},
    )
    assert found == Drawing(
        size=5,
        color="blue",
        ratio="golden",
        points=(Point(1.0, 2.5), Point(0.5)),
        center=Point(3.0),
        pair=(4, 5),
        head=LDA(ridge=2.0),
        filled=True,
        names={"a": 1},
    )
    assert isinstance(drawing(ratio=2).ratio, float)
    assert drawing(head="lda").head == LDA()
    assert drawing(color="none", edge="none") == Drawing()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"sise": 1}, r"\[drawing\] has no setting 'sise'; did you mean 'size'\?"),
        ({"zzz": 1}, "has no setting 'zzz'; choose from size, color"),
        ({"size": 1.5}, r"size in \[drawing\] is 1.5; give an integer"),
        ({"size": True}, "is True; give an integer"),
        ({"size": -1}, r"\[drawing\]: size is -1; pass 0 or more"),
        ({"filled": 1}, "is 1; give true or false"),
        ({"edge": 3}, "is 3; give a text"),
        ({"color": "green"}, "is 'green'; give 'red' or 'blue'"),
        ({"pieces": 0}, r"pieces in \[drawing\] is 0; give 1 or more or 'all'"),
        ({"ratio": "silver"}, "is 'silver'; give a number or 'golden'"),
        ({"points": [{"x": 1, "z": 2}]}, r"points in \[drawing\], entry 1 has no setting 'z'"),
        ({"points": {"x": 1}}, "is {'x': 1}; give a list"),
        ({"points": [{"y": 1}]}, r"entry 1 lacks 'x'; add it"),
        ({"center": {"x": "far"}}, r"x in center in \[drawing\] is 'far'"),
        ({"pair": [1, 2, 3]}, r"is \[1, 2, 3\]"),
        ({"head": {"ridge": 1}}, r"name in head in .drawing. is None; "),
        ({"head": "ldaa"}, r"name in head in .drawing. is 'ldaa'; did you mean 'lda'"),
        ({"head": {"name": "cosine", "rige": 1}}, r"head in .drawing. has no setting 'rige'"),
        ({"names": {"a": "b"}}, r"a of names in \[drawing\] is 'b'"),
    ],
)
def test_mistakes_are_named(table: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drawing(**table)


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\[drawing\] is 3; make it a table"):
        read(Drawing, 3, "[drawing]")


def test_given_settings_are_filled_in_and_not_in_the_file() -> None:
    given = {"size": 7, "unrelated": 1}
    assert read(Drawing, {}, "[drawing]", given).size == 7
    with pytest.raises(ValueError, match="no setting 'size'"):
        read(Drawing, {"size": 8}, "[drawing]", given)


def test_descriptions_come_from_the_docstring() -> None:
    texts = described(Drawing)
    assert texts["size"] == "How large."
    assert texts["color"] == texts["edge"] == "Of the inside and of the outline."
    assert "Some more text." not in texts.values()
    assert described(Point) == {}


def test_the_schema_says_the_same() -> None:
    found = schema(Drawing, given={"size"})
    properties = found["properties"]
    assert "size" not in properties
    colors, none = properties["color"]["anyOf"]
    assert (colors["enum"], none) == (["red", "blue"], {"const": "none"})
    assert properties["ratio"]["default"] == 1.0
    assert properties["pieces"]["anyOf"][0] == {"type": "integer", "minimum": 1}
    assert properties["points"]["items"]["required"] == ["x"]
    heads = properties["head"]["oneOf"]
    assert [one["properties"]["name"]["const"] for one in heads] == ["lda", "cosine"]
    assert heads[0]["required"] == ["name"]
    assert properties["names"] == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }
    assert found["additionalProperties"] is False
    assert "required" not in found


def test_a_far_name_lists_them_all() -> None:
    assert nearest("qqq", ["one", "two"]) == "choose from one, two"


@dataclass(frozen=True)
class Weighted:
    weights: Array


def test_numbers_in_lists_become_an_array() -> None:
    made = read(Weighted, {"weights": [[1, 2.5], [3, 4]]}, "[map]")
    assert made.weights.dtype == np.float64
    assert made.weights.tolist() == [[1.0, 2.5], [3.0, 4.0]]
    for wrong in ([1.0, "a"], [[1.0], [1.0, 2.0]], [True], 3.0):
        with pytest.raises(ValueError, match="give a list of numbers, or of such lists"):
            read(Weighted, {"weights": wrong}, "[map]")
    assert schema(Weighted)["properties"] == {"weights": {"type": "array"}}


def test_limits_stand_in_the_field_for_python_plan_files_and_the_schema() -> None:
    with pytest.raises(ValueError, match="max_weight is -1; give a number, more than 0"):
        Limits(max_weight=-1)
    with pytest.raises(ValueError, match=r"max_weight in \[run\] is -1.0; give more"):
        read(Limits, {"max_weight": -1.0}, "[run]")
    assert schema(Limits)["properties"]["max_weight"]["exclusiveMinimum"] == 0
    with pytest.raises(ValueError, match="max_weight is inf"):
        Limits(max_weight=np.inf)
    with pytest.raises(ValueError, match="give a finite number"):
        read(Limits, {"max_weight": np.inf}, "[run]")


def test_the_types_of_every_class_that_a_plan_names_are_known_where_they_are_checked() -> None:
    kinds = [*MAPS.values(), *ALGORITHMS.values(), *PROTECTIONS.values(), *PLASTICITY.values()]
    assert len(kinds) > 20
    for kind in kinds:
        get_type_hints(kind, include_extras=True)
