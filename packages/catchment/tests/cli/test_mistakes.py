"""What newcomers do wrong: what the command line prints then, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from inspect import getmodule
from pathlib import Path

import numpy as np
import pytest

from catchment.cli import main
from catchment.data import read, read_columns
from catchment.federation import RunFolder
from catchment.federation.runs import DATABASE

LABELS = (("sit", 0.2), ("walk", 1.0), ("run", 2.0))
PLAN = """
[data]
files = "*.csv"
label = "activity"
recording = "rec"
time = "t"
[features]
map = "echo_state"
units = 8
[learn]
ridge = 0.1
[run]
baselines = ["most_frequent"]
"""
Lines = list[list[str]]  # the cells of a file, its header first


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    out: str
    err: str
    code: int

    @property
    def warnings(self) -> list[str]:
        return [line[9:] for line in self.err.splitlines() if line.startswith("warning: ")]


def person(k: int) -> Lines:
    """Return the cells of one person's file: six recordings, three activities in turns."""
    rng = np.random.default_rng(k)
    cells = [["t", "ax", "ay", "activity", "rec"]]
    for rec in range(6):
        label, pace = LABELS[rec % 3]
        for step in range(20):
            ax, ay = np.sin(pace * step + k), 5 + np.cos(pace * step) + 0.1 * rng.normal()
            cells.append([f"{step / 10}", f"{ax:.4f}", f"{ay:.4f}", label, f"{rec}"])
    return cells


def text(cells: Lines) -> str:
    return "\n".join(",".join(row) for row in cells) + "\n"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A folder of six people and a plan; p1 and p2 are kept for the test."""
    for k in range(6):
        (tmp_path / f"p{k}.csv").write_text(text(person(k)))
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


@pytest.fixture
def typed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Said]:
    """Type a command in the folder of the people."""
    monkeypatch.chdir(tmp_path)

    def type_(*words: str) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        said = capsys.readouterr()
        return Said(said.out, said.err, int(ended.value.code or 0))

    return type_


def cell(row: int, column: int, value: str) -> Callable[[Lines], str]:
    def faulty(cells: Lines) -> str:
        cells[row][column] = value
        return text(cells)

    return faulty


def column(number: int, change: Callable[[str], str]) -> Callable[[Lines], str]:
    def faulty(cells: Lines) -> str:
        for row in cells[1:]:
            row[number] = change(row[number])
        return text(cells)

    return faulty


def unlabeled(recordings: str) -> Callable[[Lines], str]:
    def faulty(cells: Lines) -> str:
        for row in cells[1:]:
            row[3] = "" if row[4] in recordings else row[3]
        return text(cells)

    return faulty


Faulty = Callable[[Lines], str]
LEFT_OUT: dict[str, tuple[Faulty, str]] = {
    "text": (cell(5, 1, "oops"), "column 'ax' is not numeric: it has 'oops' in row 5; mend it"),
    "quoted comma": (column(1, lambda v: f'"{v.replace(".", ",")}"'), "is not numeric: it has '"),
    "infinite": (cell(5, 1, "inf"), "column 'ax' is infinite at row 4; remove"),
    "repeated time": (cell(5, 0, "0.3"), "recording '0': time 0.3 occurs twice; keep one row"),
    "empty": (lambda cells: "", "cannot be read: it is empty"),
    "no rows": (lambda cells: text(cells[:1]), "there are no rows; leave it out, or fill it"),
    "no column": (
        lambda cells: text([[row[0], *row[2:]] for row in cells]),
        "there is no column 'ax'; did you mean 'ay'?",
    ),
    "no label column": (
        lambda cells: text([[*row[:3], row[4]] for row in cells]),
        "has no column 'activity'; it has t, ax, ay, rec",
    ),
    "no table": (lambda cells: "\0\1\2", "cannot be read: it is no text"),
}


@pytest.mark.parametrize("fault", LEFT_OUT)
@pytest.mark.parametrize("who", ["p3", "p1"])  # one trains, the other is tested
def test_a_bad_file_is_left_out_and_named(
    people: Path, typed: Callable[..., Said], fault: str, who: str
) -> None:
    faulty, reason = LEFT_OUT[fault]
    (people / f"{who}.csv").write_text(faulty(person(3)))
    said = typed("run", "plan.toml", "--strict")
    (warning,) = said.warnings
    stages = "scaling and training" if who == "p3" else "evaluation"
    assert warning.startswith(f"{who} was left out of the {stages}: {who}.csv")
    assert reason in warning
    counted = (
        "3 of 4 clients trained, 2 of 2 were tested"
        if who == "p3"
        else "4 of 4 clients trained, 1 of 2 were tested"
    )
    assert said.out.splitlines()[0] == f"ridge on files: {counted}"
    assert said.code == 1
    assert said.err.splitlines()[-1] == "--strict: somebody was left out, see above"


NOTICED: dict[str, tuple[Faulty, list[str]]] = {
    "decimal comma": (lambda cells: text(cells).replace(",", ";").replace(".", ","), []),
    "space in the header": (cell(0, 1, " ax"), []),
    "out of order": (lambda cells: text([cells[0], *cells[:0:-1]]), []),
    "gap": (
        cell(5, 1, "NaN"),
        ['0.069 % of the inputs are missing and are filled: gaps = "hold" in [preprocessing]'],
    ),
    "empty column": (
        column(1, lambda value: ""),
        [
            "ax is empty for p1",
            '8.3 % of the inputs are missing and are filled: gaps = "hold" in [preprocessing]',
        ],
    ),
    "a missing label": (
        unlabeled("3"),
        ["20 rows of p1 have no activity (2.8 %), and do not count"],
    ),
    "missing labels": (
        unlabeled("34"),
        ["40 rows of p1 have no activity (5.6 %), and do not count"],
    ),
    "slow": (
        column(0, lambda value: f"{5 * float(value):.1f}"),
        ["p1.csv has 2 Hz, the others 10 Hz"],
    ),
    "three rows": (
        lambda cells: text(cells[:4]),
        [
            "p1 has 3 rows, the others about 120",
            "p1 has 1 recording, the others about 6",
            "p1 has one class only",
        ],
    ),
    "a new label": (
        cell(5, 3, "fly"),
        [
            "only p1 has the class 'fly' (1 rows), and cannot be learned from others",
            "the label changes within 1 of 36 recordings (p1), and so every step is classified by "
            "itself; mend them if each recording should have one label",
        ],
    ),
}


@pytest.mark.parametrize("fault", NOTICED)
def test_what_is_odd_is_used_and_said(people: Path, typed: Callable[..., Said], fault: str) -> None:
    faulty, notices = NOTICED[fault]
    (people / "p1.csv").write_text(faulty(person(1)))
    said = typed("run", "plan.toml", "--strict")
    assert said.warnings == notices
    assert said.out.splitlines()[0].endswith("4 of 4 clients trained, 2 of 2 were tested")
    assert said.code == 0


def test_notices_are_in_json_and_the_folder_keeps_none(
    people: Path, typed: Callable[..., Said]
) -> None:
    (people / "p1.csv").write_text(unlabeled("012345")(person(1)))
    told = json.loads(typed("run", "plan.toml", "--json").out)
    (notice,) = told["notices"]
    assert notice == "p1 has no value in 'activity', and counts neither way"
    with sqlite3.connect(people / "runs" / "plan" / DATABASE) as database:
        assert "counts neither way" not in "".join(database.iterdump())


def test_a_person_without_labels_is_named_by_evaluate(
    people: Path, typed: Callable[..., Said]
) -> None:
    assert typed("run", "plan.toml").code == 0
    (people / "p9.csv").write_text(unlabeled("012345")(person(9)))
    said = typed("evaluate", "runs/plan", "p0.csv", "p9.csv")
    assert said.warnings == ["p9 is not scored: no row has a target to compare with"]
    assert said.code == 0


def test_ledger_claims_no_more_than_is_so(people: Path, typed: Callable[..., Said]) -> None:
    claim = "no message of the kinds above holds them"
    assert typed("run", "plan.toml", "--out", "good").code == 0
    good = typed("ledger", "good").out
    assert f"{claim} (what" in good
    assert "of a file's name only what a client is called by\n" in good
    (people / "p3.csv").write_text(cell(5, 1, "oops")(person(3)))
    assert typed("run", "plan.toml", "--out", "bad").code == 0
    bad = typed("ledger", "bad").out
    assert "quote the one value that is at fault" in bad
    assert f"{claim}, except the one value that a refusal may quote" in bad
    assert "p3  training  refused: p3.csv: column 'ax' is not numeric: it has 'oops'" in bad


def test_a_file_with_more_columns_than_most_is_used_without_them(
    people: Path, typed: Callable[..., Said]
) -> None:
    cells = [[*row, "z" if k == 0 else "1.5"] for k, row in enumerate(person(3))]
    (people / "p3.csv").write_text(text(cells))
    said = typed("run", "plan.toml", "--strict")
    assert said.warnings == ["p3.csv has z besides ax, ay, which most files have: it is not used"]
    assert said.code == 0


def test_a_file_that_may_not_be_read_is_left_out(
    people: Path, typed: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read_columns

    def forbidden(path: Path) -> object:
        if path.name == "p3.csv":
            raise PermissionError(13, "Permission denied", "p3.csv")
        return whole(path)

    monkeypatch.setattr(getmodule(read), "read_columns", forbidden)
    said = typed("run", "plan.toml")
    (warning,) = said.warnings
    assert "p3 was left out" in warning
    assert "Permission denied" in warning


REFUSED = {
    "wrong label": (
        ('"activity"', '"activty"'),
        "p0.csv has no column 'activty'; it has t, ax, ay, activity, rec, same; did you mean "
        "'activity'?",
    ),
    "text target": (
        ("label =", "target ="),
        "p0.csv: target 'activity' holds text, 'sit' in row 1; mend it, or write "
        'label = "activity" into [data]',
    ),
    "label per step": (
        ('recording = "rec"\ntime = "t"', "per_step = false"),
        "the target changes from row to row; write per_step = true into [data]",
    ),
    "wrong inputs": (
        ('time = "t"', 'time = "t"\ninputs = ["ax", "z"]'),
        "no column 'z'; choose from",
    ),
    "no such file": (
        ('"*.csv"', '"*.parquet"'),
        "*.parquet; pass a folder of",
    ),
    "empty folder": (('"*.csv"', '"empty"'), "empty: the folder is empty; pass a folder of .csv"),
    "no tables": (('"*.csv"', '"notes"'), "notes, which has 1 other entry; pass a folder of .csv"),
    "below": (('"*.csv"', '"above"'), "above/**/*.csv' matches them"),
    "one class": (('"activity"', '"same"'), "every label is 'yes', and one class is nothing to"),
    "units": (("units = 8", "units = 1000000"), "the map has 2,000,002 features, whose"),
    "typo": (("units", "unist"), "[features] has no setting 'unist'; did you mean 'units'?"),
    "bad TOML": (("[learn]", "[learn"), "plan.toml is not valid TOML"),
}


# `plan` looks at all files first, and has words of its own for what none of them has.
BY_PLAN = {
    "wrong label": "the files have no column 'activty'; did you mean 'activity'? then write",
    "text target": "column 'activity' holds text; to predict classes, write label = ",
    "wrong inputs": "the files have no column 'z'; choose from t, ax",
    "one class": "'same' has one class only, 'yes', so that there is nothing to learn; add files",
}


@pytest.mark.parametrize("fault", REFUSED)
@pytest.mark.parametrize("command", ["plan", "run"])
def test_what_cannot_run_is_one_line_and_blocks_nothing(
    people: Path, typed: Callable[..., Said], fault: str, command: str
) -> None:
    (people / "empty").mkdir()
    for name in ("notes/a.txt", "above/below/p.csv"):
        (people / name).parent.mkdir(parents=True)
        (people / name).write_text("x\n1\n")
    for k in range(6):
        cells = [[*row, "same" if n == 0 else "yes"] for n, row in enumerate(person(k))]
        (people / f"p{k}.csv").write_text(text(cells))
    (people / "plan.toml").write_text(PLAN.replace(*REFUSED[fault][0]))
    said = typed(command, "plan.toml")
    expected = BY_PLAN.get(fault) if command == "plan" else None
    assert (expected or REFUSED[fault][1]) in said.err
    assert said.err.startswith("error: ")
    assert (said.out, said.err.count("\n"), said.code) == ("", 1, 2)
    assert not (people / "runs").exists() or not any((people / "runs").iterdir())


def test_gaps_in_every_file_may_be_refused_and_the_remedy_is_named(
    people: Path, typed: Callable[..., Said]
) -> None:
    for k in range(6):
        (people / f"p{k}.csv").write_text(cell(5, 1, "NaN")(person(k)))
    (people / "plan.toml").write_text(PLAN + '[preprocessing]\ngaps = "error"\n')
    said = typed("run", "plan.toml")
    assert said.code == 2
    assert 'set gaps to "hold"' in said.err
    assert not (people / "runs" / "plan").exists()
    (people / "plan.toml").write_text(PLAN)
    said = typed("run", "plan.toml")
    assert said.code == 0
    assert "are missing and are filled" in said.warnings[0]


COMMANDS = {
    ("rnu", "plan.toml"): "No such command 'rnu'. Did you mean 'run'?",
    ("run", "paln.toml"): "the plan paln.toml is not there; did you mean plan.toml?",
    ("run", "."): "the plan . is a folder; did you mean plan.toml?",
    ("run", "empty"): "empty is a folder and has no plan; `catchment fit empty --label COLUMN`",
    ("run", "p0.csv"): "p0.csv holds data and is no plan",
    ("plan",): "pass a plan to check, or --schema, or --example NAME",
    ("plan", "--example", "wearable"): "did you mean 'wearables'?",
    ("predict", "plan.toml", "p0.csv"): "plan.toml",
    ("run", "plan.toml", "--out", "p0.csv"): "--out p0.csv is a file; name a folder",
    ("predict", "nothing", "p0.csv", "--out", "empty"): "name a file, empty/predictions.csv",
    ("predict", "nothing", "p0.csv"): "there is no model nothing",
    ("ledger", "nothing"): "nothing holds no run",
    ("report", "nothing"): "nothing holds no run",
    ("search", "plan.toml"): "the plan has no ranges to search; write them into [search]",
    ("search", "ranges.toml", "--write", "empty/tuned.toml"): "is in another folder than",
    ("search", "ranges.toml", "--write", "ranges.toml"): "is the plan itself",
}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_that_cannot_work_say_what_to_type(
    people: Path, typed: Callable[..., Said], words: tuple[str, ...]
) -> None:
    (people / "empty").mkdir()
    (people / "ranges.toml").write_text(PLAN + "[search]\nleak_rate = [0.1, 1.0]\n")
    said = typed(*words)
    assert COMMANDS[words] in said.err
    assert (said.out, said.code) == ("", 2)


def test_examples_are_listed_as_errors_promise(typed: Callable[..., Said]) -> None:
    said = typed("plan", "--example")
    assert said.code == 0
    assert "wearables" in said.out.splitlines()
    assert typed("plan", "--example", "list").out == said.out


def test_a_search_writes_a_plan_that_runs(people: Path, typed: Callable[..., Said]) -> None:
    pytest.importorskip("optuna")
    ranges = "[search]\ntrials = 2\nleak_rate = [0.2, 0.9]\nunits = [6, 8]\n"
    (people / "plan.toml").write_text(f'title = "My \\"own\\""  # kept\n{PLAN}{ranges}')
    said = typed("search", "plan.toml", "--write", "tuned.toml")
    assert (said.err, said.code) == ("", 0)  # no bar, as nobody looks
    assert said.out.splitlines()[-1] == "wrote tuned.toml      next: catchment run tuned.toml"
    leak = next(line for line in said.out.splitlines() if line.startswith("leak_rate"))
    written = (people / "tuned.toml").read_text()
    assert leak in written
    assert "[search]" not in written
    assert typed("run", "tuned.toml").out.startswith('My "own": 4 of 4 clients trained')
    assert typed("search", "tuned.toml").code == 2


def test_a_folder_in_use_is_said_to_be(people: Path, typed: Callable[..., Said]) -> None:
    with RunFolder(people / "out"):
        for more in ((), ("--force",), ("--resume",)):
            said = typed("run", "plan.toml", "--out", "out", *more)
            assert said.code == 2
            assert "out is in use: another process writes to it; wait for it" in said.err


def test_a_run_of_another_plan_is_replaced_by_force_alone(
    people: Path, typed: Callable[..., Said]
) -> None:
    assert typed("run", "plan.toml", "--out", "out").code == 0
    (people / "plan.toml").write_text(PLAN.replace("units = 8", "units = 9"))
    assert (
        "already holds a run; resume it (--resume), replace it (--force)"
        in typed("run", "plan.toml", "--out", "out").err
    )
    assert (
        "holds the run of another plan; replace it (--force)"
        in typed("run", "plan.toml", "--out", "out", "--resume").err
    )
    assert typed("run", "plan.toml", "--out", "out", "--force").code == 0


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_ends_before_its_first_round_does_not_block_the_corrected_plan(
    people: Path, typed: Callable[..., Said], how: signal.Signals
) -> None:
    command = [sys.executable, "-m", "catchment.cli", "run", "plan.toml", "--out", "out"]
    process = subprocess.Popen(
        command, cwd=people, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not (people / "out" / DATABASE).is_file() and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(how)
    process.wait(timeout=60)
    (people / "plan.toml").write_text(PLAN.replace("units = 8", "units = 9"))
    said = typed("run", "plan.toml", "--out", "out", "--force")
    assert said.code == 0
