"""What is reproduced and what is not: the page counts itself, and reruns are compared."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reproductions.again import PAGE, RESULT, compare, compared, leaves, written

PACKAGE = Path(__file__).parents[2]


def test_the_page_counts_the_capabilities_of_its_table() -> None:
    text = PAGE.read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if {row[2], row[3]} <= {"works", "partly", "missing"}]
    before, now = ([row[k] for row in rows] for k in (2, 3))
    always = 137 - len(rows)
    worked = [always + before.count("works"), before.count("partly"), before.count("missing")]
    works = [always + now.count("works"), now.count("partly"), now.count("missing")]
    assert worked == [114, 21, 2]
    flat = " ".join(text.split())
    assert "**{} work, {} work partly, {} are missing.**".format(*works) in flat
    tests = re.findall(r"`(tests/[\w/]+\.py)`", text)
    assert len(tests) > 5
    assert [name for name in tests if not (PACKAGE / name).is_file()] == []


def test_the_page_has_the_reruns_that_were_compared() -> None:
    text = PAGE.read_text("utf-8")
    content = json.loads(RESULT.read_text("utf-8"))
    assert written(text, content) == text
    assert all(one["equal"] > 0.75 * one["numbers"] for one in content["reruns"])
    assert not {"test", "train", "validation", "accuracy", "rows", "bytes_up"} & {
        field for one in content["reruns"] for field in one["others"]
    }


def test_a_result_is_equal_to_itself_and_one_changed_number_is_found(tmp_path: Path) -> None:
    path = RESULT.with_name("unseen.json")
    (same,) = compare([path])
    assert same.what.startswith("unseen uci_har")
    assert same.numbers == same.equal > 100
    cells = [{"method": name, "fold": 0, "test": score} for name, score in (("a", 0.5), ("b", 0.7))]
    rerun = [{**cells[1], "test": 0.75}]  # another order and fewer cells
    found = compared("one", {"cells": cells}, {"cells": rerun})
    assert (found.numbers, found.equal) == (1, 0)
    assert [*found.others] == ["test"]
    assert found.others["test"] == pytest.approx((1, 0.05))
    with pytest.raises(ValueError, match="no number in common"):
        compared("none", {"cells": cells}, {"cells": [{"method": "c", "test": 1.0}]})
    chosen = {"cells": cells, "tried": [{"method": "a / 1", "test": 0.5}]}
    assert len(dict(leaves(chosen))) == 1
