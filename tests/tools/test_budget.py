"""The budget refuses what grew and lowers what fell; CPU seconds are kept by suite and file."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools import budget
from tools.budget import Counts, above, lowered, seconds, sizes, table, written
from tools.suite_seconds import merged

ROOT = Path(__file__).parents[2]
CORE = "packages/catchment/src/catchment"
FILES = {
    f"{CORE}/__init__.py": "",
    f"{CORE}/__init__.pyi": 'from catchment.made import fit as fit\n\n__all__ = ["fit"]\n',
    f"{CORE}/made.py": "def fit() -> None:\n" + "    pass\n" * 60,
    f"{CORE}/features/__init__.py": "from catchment.features.maps import one\n",
    f"{CORE}/features/maps.py": 'def one() -> None:\n    """MiniRocket."""\n',
    f"{CORE}/features/echo_state/__init__.py": "class EchoState: ...\n",
    "packages/catchment-edge/src/catchment_edge/__init__.py": "EchoState = 1\nEchoStates = 2\n",
    "packages/catchment/tests/test_fit.py": "from catchment.made import fit\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_everything_is_counted(tree: Path) -> None:
    assert sizes(tree) == {
        "lines": {"catchment": 65, "catchment-edge": 2},
        "stub_lines": {"catchment": 3, "catchment-edge": 0},
        "files": {"catchment": 5, "catchment-edge": 1},
        "functions_over_50_lines": {"catchment": 1, "catchment-edge": 0},
        "public_names": {
            "catchment": 1,
            "catchment.features": 0,
            "catchment.features.echo_state": 0,
            "catchment_edge": 0,
        },
        "lines_of_rooms": {"top": 61, "features": 4},
        "files_naming_a_map_outside_its_room": {"EchoState": 1, "MiniRocket": 0},
        "private_modules_imported": {"all": 1},
    }


def test_a_docstring_does_not_make_a_function_long() -> None:
    body = '    """First.\n' + "\n" * 60 + '    """\n' + "    pass\n" * 49
    assert budget.long_functions("def f():\n" + body) == 0
    assert budget.long_functions("def f():\n" + body + "    pass\n") == 1


def test_a_tree_that_grew_is_refused(tree: Path) -> None:
    limits = sizes(tree)
    assert above(sizes(tree), limits) == []
    (tree / CORE / "more.py").write_text("from catchment.features.echo_state import EchoState\n")
    assert above(sizes(tree), limits) == [
        "lines catchment",
        "files catchment",
        "lines_of_rooms top",
        "files_naming_a_map_outside_its_room EchoState",
    ]
    assert "lines catchment" in next(
        line for line in table(sizes(tree), limits).splitlines() if line.endswith("above")
    )


def test_a_package_without_a_budget_is_refused(tree: Path) -> None:
    limits = sizes(tree)
    new = tree / "packages/catchment-new/src/catchment_new/__init__.py"
    new.parent.mkdir(parents=True)
    new.write_text("x = 1\n")
    assert "lines catchment-new" in above(sizes(tree), limits)


def test_lowering_never_raises(tree: Path) -> None:
    limits = sizes(tree)
    (tree / CORE / "made.py").write_text("def fit() -> None: ...\n")
    (tree / CORE / "more.py").write_text("\n")
    less = lowered(sizes(tree), limits)
    assert less["lines"] == {"catchment": 6, "catchment-edge": 2}
    assert less["files"] == limits["files"]
    assert above(sizes(tree), less) == ["files catchment"]
    assert tomllib.loads(written(less)) == less


def test_what_was_not_measured_keeps_its_budget(tmp_path: Path) -> None:
    limits: Counts = {"suite_seconds": {"tests": 9}}
    assert seconds(tmp_path / "nothing.json") == {}
    assert lowered({"suite_seconds": {}}, limits) == limits
    kept = tmp_path / "seconds.json"
    kept.write_text(json.dumps({"tests": {"tests/a.py": 3.4, "tests/b.py": 4.2}}))
    assert lowered({"suite_seconds": seconds(kept)}, limits) == {"suite_seconds": {"tests": 8}}


def test_seconds_are_kept_by_suite_and_forgotten_with_their_file(tree: Path) -> None:
    test = "packages/catchment/tests/test_fit.py"
    before = {"catchment": {test: 3.0, "packages/catchment/tests/test_gone.py": 8.0}}
    assert merged(before, {}, tree) == {"catchment": {test: 3.0}}
    assert merged(before, {test: 1.26}, tree) == {"catchment": {test: 1.3}}


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "two workers"])
def test_the_seconds_of_children_count(tmp_path: Path, workers: tuple[str, ...]) -> None:
    busy = "import time\nwhile time.process_time() < 0.5: pass"
    (tmp_path / "tests").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "tests" / "test_busy.py").write_text(
        f"import subprocess, sys\ndef test(): subprocess.run([sys.executable, '-c', {busy!r}])\n"
    )
    kept = tmp_path / "kept.json"
    command = [sys.executable, "-m", "pytest", "-p", "tools.suite_seconds", "-q", *workers]
    command += ["--suite-seconds", str(kept), "--rootdir", str(tmp_path), str(tmp_path / "tests")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    suites = json.loads(kept.read_text())
    assert suites["tests"]["tests/test_busy.py"] >= 0.5


def test_the_budget_of_this_tree_has_every_number() -> None:
    limits: Counts = tomllib.loads((ROOT / budget.BUDGET).read_text(encoding="utf-8"))
    assert limits["lines"]["catchment"] <= 64_000
    now = sizes(ROOT)
    assert {s: set(names) for s, names in now.items()} == {s: set(limits[s]) for s in now}
    assert set(limits["walk"]) == {"modules", "functions", "files", "depth"}


# In a thread of its own an answer is the first call that is seen.
CALLS = """
from tools.walk import walked
stacks = ([name for _, name in stack] for stack in walked().order)
print(next(len(s) for s in stacks if "ask" in s[0] and s[-1] == "FeatureMap.rows"))
"""


def test_a_client_that_is_asked_is_seven_calls_from_the_rows_of_its_map() -> None:
    told = subprocess.run(
        [sys.executable, "-c", CALLS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(told.stdout) <= 7
