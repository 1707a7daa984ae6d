"""A newcomer who types what is printed, and nothing else, from faulty files to a prediction."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import commands
from tests.journeys.people import TEMPO, UNUSABLE, faulty_people, good_people, rows_of, write

pytestmark = pytest.mark.slow

Type = Callable[..., commands.Done]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    """Return what types a command in the newcomer's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(command: str, code: int = 0) -> commands.Done:
        program, *words = shlex.split(command)
        assert program == "catchment"
        return commands.typed(*words, code=code)

    return run


def advised(text: str, before: str) -> str:
    """Return the command that a text advises after some words."""
    (command,) = re.findall(rf"{before}:? (catchment [^;\n]*)", text)
    return str(command).strip()


def test_from_faulty_files_to_a_prediction_by_printed_advice_alone(
    tmp_path: Path, typed: Type
) -> None:
    faulty_people(tmp_path / "recordings")
    write(tmp_path / "new.csv", rows_of(99, rounds=1))
    # What is to be predicted is not said, then misspelt as people do. A small map, for speed.
    said = typed("catchment fit recordings --map window_statistics", 2).stderr
    assert "activity (4 values: running, sitting, walking, wlaking)" in said
    command = advised(said, "type")
    wrong = typed(command.replace("activity", "activty"), 2).stderr
    assert "did you mean 'activity'?" in wrong
    assert advised(wrong, "type") == command
    done = typed(command)
    for name in UNUSABLE:
        assert f"  x {name}.csv: " in done.stdout
    assert "three: no recording is as long as a window" in done.stdout
    assert done.stderr == ""
    found = re.search(r"5 folds over people: accuracy (0\.\d+) \(", done.stdout)
    assert found
    assert float(found[1]) > 0.6
    predicted = typed(advised(done.stdout, "next")).stdout
    rows = list(csv.DictReader(io.StringIO(predicted)))
    assert len(rows) == 6
    right = [row["prediction"] == list(TEMPO)[k // 2] for k, row in enumerate(rows)]
    assert sum(right) >= 4


def test_a_failed_run_leaves_nothing_in_the_way_of_the_corrected_plan(
    tmp_path: Path, typed: Type
) -> None:
    good_people(tmp_path / "recordings", 4)
    plan = tmp_path / "own.toml"
    plan.write_text(
        '[data]\nfiles = "recordings/*.csv"\ntime = "t"\nlabel = "actvity"\ntest = "folds"\n'
        '[preprocessing]\nwindow = "2s"\nlabel = "majority"\n[features]\nmap = '
        '"window_statistics"\n'
    )
    typed("catchment run own.toml", 2)
    said = typed("catchment plan own.toml", 2).stderr
    (line,) = re.findall(r"then write (label = \S+)", said)
    plan.write_text(plan.read_text().replace('label = "actvity"', line))
    assert "4 files, 4 people" in typed("catchment plan own.toml").stdout
    done = typed("catchment run own.toml").stdout
    assert (tmp_path / "runs" / "own" / "model.safetensors").is_file()
    write(tmp_path / "new.csv", rows_of(98, rounds=1))
    command = advised(done, "predict").replace("FILES...", "new.csv")
    assert "new.csv,0,0.0," in typed(command).stdout
