"""The commands run, plan, explain, report and demo: what they print, and how they stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
import typer.rich_utils
from typer.testing import CliRunner

import catchment
from catchment import federate, plans
from catchment.cli import app, main
from catchment.federation import read_run
from catchment.federation.runs import DATABASE
from catchment.plans import example_names, example_plan

pytestmark = pytest.mark.slow

RUNNER = CliRunner()
SMALL = """
title = "A small run"
[data]
source = "wearables"
users = 5
windows_per_user = 6
steps = 30
[features]
units = 8
[learn]
ridge = 0.01
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def folder(plan: Path, tmp_path: Path) -> Path:
    out = tmp_path / "out"
    assert RUNNER.invoke(app, ["run", str(plan), "--out", str(out)]).exit_code == 0
    return out


def test_a_simulation_heeds_the_options_that_it_takes(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulated(file: plans.PlanFile, folder: Path, *, data: Path | None) -> Path:
        return plans.run_plan(file, folder, data=data).run.folder

    monkeypatch.setattr("catchment.cli.runs.plugin", lambda *_, **__: simulated)
    words = ["run", str(plan), "--engine", "flower", "--out", str(tmp_path / "simulated")]
    assert "model: " in RUNNER.invoke(app, words).stdout
    done = RUNNER.invoke(app, [*words, "--force", "--json"])
    assert json.loads(done.stdout)["used"] == 4
    with pytest.raises(ValueError, match="--threads is for --engine local or ray"):
        raise RUNNER.invoke(app, [*words, "--force", "--threads", "1"]).exception or OSError


def failure(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    output = capsys.readouterr()
    assert caught.value.code == 2
    assert output.out == ""
    assert output.err.count("\n") == 1
    return output.err


def test_help_names_the_commands() -> None:
    output = RUNNER.invoke(app, ["--help"]).output
    assert all(name in output for name in ("demo", "run", "plan", "ledger", "report", "data"))
    groups = [output.index(f"\n{group}\n  ") for group in ("Train", "Use", "Look", "Operate")]
    assert groups == sorted(groups)


def _every_command(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    for name, command in getattr(group, "commands", {}).items():
        if not command.hidden:
            yield from _every_command(command, (*words, name))


@pytest.mark.parametrize("words", [*_every_command(typer.main.get_command(app))], ids=" ".join)
def test_help_fits_a_screen(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typer.rich_utils, "MAX_WIDTH", 100)
    shown = RUNNER.invoke(app, [*words, "--help"])
    assert shown.exit_code == 0
    assert len(shown.output.strip().splitlines()) <= 40
    _, *said = shown.output.split("╭")[0].strip().splitlines()
    assert [line for line in said if len(line.rstrip()) > 79] == []  # a terminal would break it


def test_every_command_is_one_line_of_help() -> None:
    shown = RUNNER.invoke(app, ["--help"]).output.splitlines()
    assert max(map(len, shown)) <= 80
    commands = [
        words[0] for words in _every_command(typer.main.get_command(app)) if len(words) == 1
    ]
    assert sorted(line.split()[0] for line in shown if line.startswith("  ")) == sorted(commands)
    assert [line for line in shown if line.endswith("...")] == []


def test_run_prints_a_table(plan: Path, tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["run", str(plan), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "A small run: 4 of 4 clients trained, 1 of 1 were tested"
    assert lines[1].startswith("4 of 4 clients have fewer rows than features")
    assert lines[2].split() == [
        "accuracy",
        "worst",
        "client",
        "spread",
        "sent",
        "up",
        "rounds",
        "seconds",
    ]
    assert [line.split()[0] for line in lines[3:6]] == ["uniform", "most_frequent", "exact"]
    assert f"run: {tmp_path / 'out'}" in result.output
    assert read_run(tmp_path / "out").facts["title"] == "A small run"


def test_run_as_json(plan: Path, tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["run", str(plan), "--out", str(tmp_path / "out"), "--json"])
    told = json.loads(result.output)
    run = read_run(tmp_path / "out")
    assert told["metric"] == "accuracy"
    assert told["scores"] == dict(run.scores[""])
    assert set(told["clients"]) == {name for name in run.scores if name}
    assert [row["name"] for row in told["comparison"]] == [
        "uniform",
        "most_frequent",
        "exact federated",
    ]
    assert told["folder"] == str(tmp_path / "out")


def test_the_folder_is_named_after_the_plan(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert RUNNER.invoke(app, ["run", str(plan)]).exit_code == 0
    assert (tmp_path / "runs" / "small" / DATABASE).is_file()


def test_a_run_is_not_overwritten_but_resumed(
    plan: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "already holds a run" in failure(["run", str(plan), "--out", str(folder)], capsys)
    again = RUNNER.invoke(app, ["run", str(plan), "--out", str(folder), "--resume"])
    assert again.exit_code == 0
    plan.write_text(SMALL.replace("units = 8", "units = 9"))
    message = failure(["run", str(plan), "--out", str(folder), "--resume"], capsys)
    assert "another plan" in message
    forced = RUNNER.invoke(app, ["run", str(plan), "--out", str(folder), "--force"])
    assert forced.exit_code == 0


def test_mistakes_are_one_line(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan.write_text(SMALL.replace("units", "unist"))
    message = failure(["run", str(plan)], capsys)
    assert message == "error: [features] has no setting 'unist'; did you mean 'units'?\n"
    assert "no plan" in failure(["run", str(tmp_path / "none.toml")], capsys)
    assert "holds no run" in failure(["ledger", str(tmp_path)], capsys)
    assert "holds no run" in failure(["report", str(tmp_path)], capsys)
    assert "pass a plan to check" in failure(["plan"], capsys)
    assert "pass a plan to check" in failure(["plan", "--schema", "--example", "x"], capsys)
    assert "did you mean 'wearables'" in failure(["plan", "--example", "wearable"], capsys)


def test_plan_checks_a_plan(plan: Path, tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["plan", str(plan)])
    assert result.exit_code == 0
    assert (
        "good plan: ridge on wearables, 4 training and 1 test clients, stages: scaling, training, "
        "delivery, evaluation" in result.output
    )
    (tmp_path / "har.toml").write_text(example_plan("uci_har"))
    missing = RUNNER.invoke(app, ["plan", str(tmp_path / "har.toml"), "--data", str(tmp_path)])
    assert missing.exit_code == 1
    assert "its data are not here" in missing.output


FILES = """
[data]
files = ["*.csv", "more/*.csv"]
label = "what"
time = "t"
"""


def test_plan_says_what_it_saw_in_the_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "more").mkdir()
    for k, name in enumerate(("ann", "bob", "more/cyd")):
        rows = "".join(f"{t},{'' if t == 3 else t * k},{'ab'[k % 2]}\n" for t in range(10))
        (tmp_path / f"{name}.csv").write_text(f"t,x,what\n{rows}")
    path = tmp_path / "files.toml"
    path.write_text(FILES)
    result = RUNNER.invoke(app, ["plan", str(path)])
    assert result.exit_code == 0
    first, *warnings, last = result.output.splitlines()
    assert first == "3 files, 3 people (one per file), 1 channel (x), 1 Hz, 2 classes; 10 % gaps"
    assert "  ! ann, bob and cyd have one class only" in warnings
    assert "  ! x never changes for ann" in warnings
    assert "2 training and 1 test clients" in last
    path.write_text(FILES.replace('"what"', '"wat"'))
    said = failure(["plan", str(path)], capsys)
    assert "the files have no column 'wat'" in said
    assert said.rstrip().endswith("did you mean 'what'? then write label = \"what\" into [data]")
    path.write_text(FILES.replace('"*.csv"', '"*.parquet"'))
    assert "error: no file matches" in failure(["plan", str(path)], capsys)
    path.write_text(FILES + "inputs = ['x', 'y']\n")
    assert "'y'" in failure(["plan", str(path)], capsys)


def test_run_says_who_was_left_out(tmp_path: Path) -> None:
    for k, name in enumerate("abcd"):
        rows = "".join(f"{t},{(t * (k + 2)) % 7}.5\n" for t in range(60))
        (tmp_path / f"{name}.csv").write_text(f"t,x\n{rows}")
    (tmp_path / "b.csv").write_text("t,y\n1,2\n")
    path = tmp_path / "logs.toml"
    path.write_text('[data]\nfiles = "*.csv"\ninputs = ["x"]\n[preprocessing]\nhorizon = 1\n')
    command = [sys.executable, "-m", "catchment.cli", "run", str(path), "--out", "out"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith("3 of 4 clients trained, 3 of 4 were tested")
    line = done.stderr.splitlines()[-1]
    said = "warning: b was left out of the scaling, training and evaluation: b.csv"
    assert line.startswith(said)
    strict = subprocess.run(
        [*command, "--strict", "--force"], capture_output=True, text=True, cwd=tmp_path
    )
    assert strict.returncode == 1
    assert line in strict.stderr.splitlines()


def test_plan_schema_and_examples() -> None:
    schema = json.loads(RUNNER.invoke(app, ["plan", "--schema"]).output)
    jsonschema.Draft202012Validator.check_schema(schema)
    listed = RUNNER.invoke(app, ["plan", "--example", "list"]).output.split()
    assert listed == list(example_names())
    shown = RUNNER.invoke(app, ["plan", "--example", "wearables"]).output
    assert shown.strip() == example_plan("wearables").strip()


def test_ledger_and_diagnose(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = RUNNER.invoke(app, ["ledger", str(folder)])
    assert "What left the clients of A small run" in result.output
    assert "4 clients sent 4 messages" in result.output
    assert "What never left" in result.output
    name = sorted(read_run(folder).rows_by_client)[0]
    sent = RUNNER.invoke(app, ["ledger", str(folder), "--client", name]).output
    assert sent.count("sha256") == 3  # scaling, training, delivery
    served = RUNNER.invoke(app, ["diagnose", str(folder), "--client", name]).output
    assert served.startswith(f"How {name} is served")
    assert "sha256" not in served
    nobody = [str(folder), "--client", "nobody"]
    assert "'nobody' is not a client of this run, which has" in failure(
        ["diagnose", *nobody], capsys
    )
    assert "'nobody' sent nothing" in failure(["ledger", *nobody], capsys)


def test_report(folder: Path, tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["report", str(folder)])
    assert result.output == f"{folder / 'report.html'}\n"
    assert "A small run" in (folder / "report.html").read_text(encoding="utf-8")
    other = tmp_path / "other.html"
    assert RUNNER.invoke(app, ["report", str(folder), "-o", str(other)]).exit_code == 0
    assert other.read_bytes() == (folder / "report.html").read_bytes()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the stages that a command shows while it runs, as it runs them."""
    began: list[str] = []

    @contextmanager
    def progress(**_: object) -> Iterator[Callable[..., None]]:
        yield lambda stage, *_: began.append(stage)

    monkeypatch.setattr("catchment.cli.runs.progress", progress)
    return began


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: list[str]) -> None:
    small = (
        example_plan("demo_wearables")
        .replace("users = 20", "users = 6")
        .replace("windows_per_user = 60", "windows_per_user = 24")
    )
    monkeypatch.setattr(plans, "example_plan", lambda name: small)
    out = tmp_path / "demo"
    first = RUNNER.invoke(app, ["demo", "--out", str(out)])
    assert first.exit_code == 0
    assert first.output.splitlines()[-1] == f"report: {(out / 'report.html').resolve()}"
    assert "results say nothing about people" in first.output
    names = [row.name for row in read_run(out).comparison or ()]
    assert names == [
        "uniform",
        "most_frequent",
        "local",
        "averaging",
        "exact federated",
        "centralized",
    ]
    # A second time it starts anew, and leaves alone what is not its own.
    (out / "mine.txt").write_text("kept")
    seen.clear()

    def compiles(*given: Any) -> Any:
        seen.append("compiles")
        return federate(*given)

    monkeypatch.setattr(catchment, "federate", compiles)
    assert RUNNER.invoke(app, ["demo", "--out", str(out)]).exit_code == 0
    assert (out / "mine.txt").read_text() == "kept"
    # What is compiled first is charged to no row of the table.
    assert seen[:2] == ["compiling, once", "compiles"]
    assert {"scaling", "training"} <= set(seen[2:])


@pytest.mark.long
def test_the_demo_charges_no_row_of_its_table_for_compiling(tmp_path: Path) -> None:
    program = """
import json, sys
from contextlib import contextmanager
from pathlib import Path
from catchment.cli import runs
from catchment.compiling import compilations
counted = {}
@contextmanager
def progress():
    yield lambda stage, *_: counted.setdefault(stage, compilations.count)
runs.progress = progress
runs.demo(Path(sys.argv[1]))
print(json.dumps([counted, compilations.count]))
"""
    fresh = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    words = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "demo")]
    shown = subprocess.run(words, env=fresh, check=True, capture_output=True, text=True)
    counted, after = json.loads(shown.stdout.splitlines()[-1])
    assert counted.pop("compiling, once") == 0
    assert after > 10
    assert set(counted.values()) == {after}


SLOW = SMALL.replace("ridge = 0.01", 'algorithm = "gradient"') + "[run]\nrounds = 80\n"


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_ctrl_c_leaves_a_run_that_goes_on(tmp_path: Path) -> None:
    plan, out = tmp_path / "slow.toml", tmp_path / "out"
    plan.write_text(SLOW)
    environment = dict(os.environ)
    command = [sys.executable, "-m", "catchment.cli", "run", str(plan), "--out", str(out)]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while _rounds(out) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert told.strip() == f"stopped; go on with: catchment run {plan} --out {out} --resume"
    done = _rounds(out)
    assert 3 <= done < 80
    resumed = RUNNER.invoke(app, ["run", str(plan), "--out", str(out), "--resume", "--json"])
    assert _rounds(out) == 80
    whole = RUNNER.invoke(app, ["run", str(plan), "--out", str(tmp_path / "whole"), "--json"])
    assert json.loads(resumed.output)["scores"] == json.loads(whole.output)["scores"]


def _rounds(folder: Path) -> int:
    """Return how many rounds of training a folder has, while it is being written or after."""
    if not (folder / DATABASE).is_file():
        return 0
    try:
        return len(read_run(folder).rounds.get("training", ()))
    except catchment.errors.IntegrityError:
        return 0  # the tables are being made
