"""A new user: train on a folder, adapt to a new person's unlabeled file, predict, compare."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from catchment import load
from catchment.cli import app, main
from catchment.federation import read_run
from catchment.plans import example_plan, parse_plan, run_plan
from catchment.readout import Model
from catchment.report import render
from tests.journeys.people import good_people, rows_of, write

pytestmark = pytest.mark.slow

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with five people's files, a sixth's file apart, and a run with sums."""
    folder = tmp_path_factory.mktemp("walk")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        good_people(Path("people"))
        # The sixth moves less than anybody who trained.
        weak = [[t, *(f"{0.4 * float(x):.3f}" for x in u), y] for t, *u, y in rows_of(5, rounds=6)]
        write(Path("labeled.csv"), weak)
        held = list(csv.DictReader(Path("labeled.csv").read_text().splitlines()))
        with Path("new.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, [name for name in held[0] if name != "activity"])
            writer.writeheader()
            writer.writerows({k: v for k, v in row.items() if k != "activity"} for row in held)
        done = RUNNER.invoke(app, ["fit", "people", "--label", "activity"])
        assert done.exit_code == 0, done.output
        text = Path("plan.toml").read_text()
        assert "[run]" not in text
        Path("plan.toml").write_text(text + "\n[run]\nadapt = true\n")
        done = RUNNER.invoke(app, ["run", "plan.toml", "--out", "runs/with-sums"])
        assert done.exit_code == 0, done.output + str(done.exception)
        Path("said.txt").write_text(done.output)
    return folder


def catchment(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    call = [sys.executable, "-m", "catchment.cli", *words]
    return subprocess.run(call, cwd=folder, capture_output=True, text=True, check=True)


def test_each_person_left_out_adapts_and_both_are_scored(folder: Path) -> None:
    run = read_run(folder / "runs/with-sums")
    rows = {row.name: row for row in run.comparison or ()}
    adapted = rows["adapted, no labels"]
    assert "of 5 lose more than one" in adapted.note
    assert run.facts["adapted"] == adapted.note
    assert f"adapted, no labels: {adapted.note}\n" in (folder / "said.txt").read_text()
    # Clients score it themselves, and send two scores: nothing left them beside the federation.
    assert run.beside == ()
    assert "outside the federation" not in catchment(folder, "ledger", "runs/with-sums").stdout
    assert run.facts["adaptable"].startswith("adaptable: carries")
    assert 0 < adapted.score <= 1
    assert adapted.bytes_up == 0
    assert "Without labels: adaptable: carries" in render([run])


def test_reports_of_plans_that_do_not_ask_name_it(folder: Path) -> None:
    run = read_run(folder / "runs/people")
    assert "adapted" not in run.facts
    assert "to adapt the model to a new person, set adapt = true in [run]" in render([run])


def test_processes_of_their_own_score_what_one_process_does(tmp_path: Path) -> None:
    plan = parse_plan(example_plan("wearables").replace("[run]", "[run]\nadapt = true"))
    told = []
    for workers in (1, 2):
        run_plan(plan, tmp_path / f"run{workers}", workers=workers)
        told.append(read_run(tmp_path / f"run{workers}").facts["adapted"])
    assert "of 4 lose more than one" in told[0]
    assert told[0] == told[1]


def test_a_new_person_adapts_predicts_and_compares_in_new_processes(folder: Path) -> None:
    said = catchment(folder, "adapt", "runs/with-sums", "new.csv").stderr
    assert "adaptable: carries" in said
    assert "bytes, the sums of everybody's training rows" in said
    assert "rows; learned from" in said
    model = load(folder / "runs/with-sums/adapted.safetensors")
    assert isinstance(model, Model)
    told = catchment(folder, "predict", "runs/with-sums/adapted.safetensors", "new.csv").stdout
    assert len(told.splitlines()) > 1
    own = Path(folder / "new.csv").read_text().splitlines()
    (folder / "nothing.csv").write_text(
        "\n".join([own[0], *(row.split(",")[0] + ",nan" * row.count(",") for row in own[1:])])
    )
    (folder / "short.csv").write_text("\n".join(own[:90]))
    alike = ("adapt", "runs/with-sums", "short.csv", "--out", "same.safetensors")
    said = catchment(folder, *alike).stderr
    assert "too few would be renamed to go by; the model stays as it was" in said
    same = load(folder / "same.safetensors")
    assert isinstance(same, Model)
    given = load(folder / "runs/with-sums/model.safetensors")
    assert isinstance(given, Model)
    assert (same.readout.weights == given.readout.weights).all()
    with pytest.raises(subprocess.CalledProcessError) as caught:
        catchment(folder, "adapt", "runs/with-sums", "nothing.csv")
    assert "has no value in any channel; leave it out" in caught.value.stderr
    scores = []
    for name in ("model", "adapted"):
        path = f"runs/with-sums/{name}.safetensors"
        found = json.loads(catchment(folder, "evaluate", path, "labeled.csv", "--json").stdout)
        scores.append(found["total"]["accuracy"])
    assert scores[1] > scores[0] + 0.1


def test_a_model_without_sums_is_refused_with_the_remedy(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["adapt", str(folder / "runs/people"), str(folder / "new.csv")])
    assert caught.value.code == 2
    assert "carries no sums to adapt with; train it with" in capsys.readouterr().err


PLAN = """
[data]
files = "people/*.csv"
label = "activity"
"""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[learn]\nalgorithm = "ridge"\nhead = "lda"\n', "only a ridge leaves the sums"),
        ('[learn]\nalgorithm = "averaging"\n', "only a ridge leaves the sums"),
        ('[learn]\nalgorithm = "ridge"\nincrements = "new"\n', "adapt is of one training"),
    ],
)
def test_plans_that_leave_no_sums_are_refused(
    more: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "refused.toml"
    path.write_text(PLAN + more + "[run]\nadapt = true\n")
    with pytest.raises(SystemExit):
        main(["run", str(path), "--out", str(folder / "runs/refused")])
    assert said in capsys.readouterr().err
