"""The driver of faults: it tells killed from alive, and every named fault is still one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.mutants.__main__ import ROOT, all_automatic
from tools.mutants.automatic import automatic, described
from tools.mutants.equivalent import EQUIVALENT
from tools.mutants.modules import modules_and_tests
from tools.mutants.mutant import Edit, Mutant
from tools.mutants.named import NAMED
from tools.mutants.record import Cell, Record
from tools.mutants.trial import Copy

MODULE = '''"""A tiny module."""


def check_age(age: int) -> None:
    """Refuse ages below 18."""
    if age < 18:
        raise ValueError("too young")


def spare(n: int) -> int:
    return n + 0 * 5
'''
TESTS = """import pytest
from tiny import check_age, spare


def test_it_refuses() -> None:
    check_age(18)
    with pytest.raises(ValueError):
        check_age(17)


def test_it_adds_nothing() -> None:
    assert spare(3) == 3
"""


SOURCE = "packages/tiny/src/tiny.py"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / SOURCE).parent.mkdir(parents=True)
    (root / "tests").mkdir()
    (root / SOURCE).write_text(MODULE)
    (root / "tests" / "test_tiny.py").write_text(TESTS)
    (root / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\npythonpath = ['packages/tiny/src']\n"
    )
    (root / "tools").symlink_to(ROOT / "tools")
    return root


@pytest.mark.long
def test_a_fault_is_killed_an_equivalent_one_lives_and_the_copy_is_restored(
    tiny: Path, tmp_path: Path
) -> None:
    copy = Copy.of(tiny, tmp_path / "copy")
    made = {m.name: m for m in automatic(tiny, SOURCE, ["tests/test_tiny.py"])}
    killed = copy.tried(made["tiny.py check_age compare 1"], timeout=60)
    alive = copy.tried(made["tiny.py spare constant 3"], timeout=60)
    endless = Edit(SOURCE, "return n + 0 * 5", "while True: pass")
    late = copy.tried(Mutant("endless", (endless,), ("tests/test_tiny.py",)), timeout=3)
    assert (killed.verdict, alive.verdict, late.verdict) == ("killed", "alive", "timeout")
    assert killed.by.startswith("tests/test_tiny.py::test_it_refuses")
    assert (tmp_path / "copy" / SOURCE).read_text() == MODULE
    assert (tiny / SOURCE).read_text() == MODULE


def test_a_test_that_fails_anyway_has_noticed_nothing(tiny: Path, tmp_path: Path) -> None:
    (tiny / "tests" / "test_tiny.py").write_text("def test_wrong() -> None:\n    assert False\n")
    copy = Copy.of(tiny, tmp_path / "copy")
    edit = Edit(SOURCE, "age < 18", "age < 19")
    good = "tests/test_good.py"
    (tmp_path / "copy" / good).write_text("def test_right() -> None:\n    pass\n")
    outcome = copy.tried(Mutant("age", (edit,), ("tests/test_tiny.py", good)), timeout=60)
    assert outcome.verdict == "alive"
    assert copy.left_out == {"tests/test_tiny.py::test_wrong"}


def test_every_kind_of_small_fault_is_made(tiny: Path) -> None:
    made = {m.name: described(m) for m in automatic(tiny, SOURCE, [])}
    assert made["tiny.py check_age compare 1"] == "line 6: if age < 18: -> if (age) <= (18):"
    assert made["tiny.py check_age constant 1"] == "line 6: if age < 18: -> if age < (19):"
    assert made["tiny.py check_age constant 2"] == "line 6: if age < 18: -> if age < (17):"
    assert made["tiny.py check_age raise 1"].endswith("-> pass")
    assert made["tiny.py check_age emptied 1"] == "line 6: if age < 18: -> return None"


def test_a_text_that_is_not_there_once_is_an_error(tiny: Path) -> None:
    twice = Mutant("age", (Edit(SOURCE, "age", "years"),), ())
    with pytest.raises(ValueError, match="exactly once"):
        twice.sources(tiny)


def test_every_named_fault_applies_to_the_present_source() -> None:
    for mutant in NAMED:
        for path, text in mutant.sources(ROOT).items():
            present = ast.parse((ROOT / path).read_text())
            assert ast.dump(ast.parse(text)) != ast.dump(present), mutant.name
        assert mutant.tests, mutant.name


@pytest.fixture(scope="module")
def small() -> list[Mutant]:
    return all_automatic()


def test_names_are_different_and_every_small_fault_is_python(small: list[Mutant]) -> None:
    names = [mutant.name for mutant in (*NAMED, *small)]
    assert len(set(names)) == len(names)
    for mutant in small[::100]:
        edit = mutant.edits[0]
        assert ast.dump(ast.parse(edit.new)) != ast.dump(ast.parse(edit.old))
    assert all(tests for tests in modules_and_tests().values())


def test_every_explained_fault_is_the_one_that_was_explained(small: list[Mutant]) -> None:
    made = {mutant.name: mutant for mutant in small}
    for name, (line, why) in EQUIVALENT.items():
        assert described(made[name]).endswith(f" -> {line}"), name
        assert made[name].equivalent == why


def test_results_are_added_to_a_record(tmp_path: Path) -> None:
    record = Record.read(tmp_path / "mutants.json")
    cell = Cell(verdict="alive", by="", seconds=1.0, change="", equivalent="", digest="d")
    record.keep("named", "one", cell)
    Record.read(record.path).keep("named", "two", {**cell, "verdict": "killed", "by": "t::x"})
    both = Record.read(record.path)
    assert both.knows("named", "one", "d")
    assert not both.knows("named", "one", "e")
    assert "| named | 1 | 1 | 0 | 0 |" in both.table()
