"""Rows are sealed as JSON, a line each, whatever they hold."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.federation import Store, check_client_names, read_run
from catchment.federation.runs import DATABASE, _lines

CELLS = st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.just("], [")


@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.tuples(*[CELLS] * n), min_size=1)))
def test_rows_are_lines_of_json(rows: list[tuple[object, ...]]) -> None:
    assert _lines(rows) == "".join(f"{json.dumps(row)}\n" for row in rows)


NAMES = st.text(st.sampled_from("ab ./\\\n\t\u00a0\u2003é\x1f"), max_size=4)


def is_refused(names: list[object]) -> bool:
    try:
        check_client_names(names)
    except ValueError:
        return True
    return False


@given(st.lists(NAMES, max_size=5))
def test_names_together_are_refused_where_one_of_them_is(names: list[object]) -> None:
    assert is_refused(names) == any(is_refused([name, "a/b"]) for name in names)


@pytest.mark.parametrize("name", ["", " a", "a ", ".", "..", "a\nb", "a" * 201, 3, None, "../a"])
def test_a_name_is_refused_among_others(name: object) -> None:
    assert is_refused(["ann", name, "bob"])


def test_whoever_writes_a_folder_need_not_compare_its_seals(tmp_path: Path) -> None:
    with Store(tmp_path / "run", fingerprint="a") as store:
        store.write_facts({"title": "one"})
    with closing(sqlite3.connect(tmp_path / "run" / DATABASE)) as database, database:
        database.execute("UPDATE facts SET value = 'two' WHERE name = 'title'")
    assert read_run(tmp_path / "run").damage
    assert not read_run(tmp_path / "run", seals=False).damage
