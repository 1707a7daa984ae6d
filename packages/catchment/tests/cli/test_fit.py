"""`catchment fit`: what it prints, writes and refuses; every refusal says what to type."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from catchment.cli import app, main
from catchment.federation import read_run
from catchment.plans import read_plan
from tests.journeys.people import UNUSABLE, faulty_people, good_people, rows_of, write

pytestmark = pytest.mark.slow

RUNNER = CliRunner()
QUICK = ["--map", "window_statistics"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def failure(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["fit", *words])
    assert caught.value.code == 2
    return capsys.readouterr().err


def fitted(*words: str) -> str:
    done = RUNNER.invoke(app, ["fit", *words, *QUICK])
    assert done.exit_code == 0, done.output + str(done.exception)
    return str(done.output)


def test_one_command_goes_from_files_to_a_tested_model() -> None:
    good_people(Path("people"), 6)
    first, *_, wrote, trained, scored, saved = fitted("people", "--label", "activity").splitlines()
    assert first == "6 files, 6 people (one per file), 2 channels (ax, ay), 20 Hz, 3 classes"
    assert wrote.startswith("wrote plan.toml   (map: window_statistics, windows of 2s, scaled")
    assert re.fullmatch(r"trained on 6 of 6 people in \d+\.\d s", trained)
    figure = r"(\d\.\d\d)"
    found = re.fullmatch(
        rf"5 folds over people: accuracy {figure} \({figure} to {figure}\), worst p\d {figure}",
        scored,
    )
    assert found
    mean, low, high, worst = map(float, found.groups())
    assert worst <= low <= mean <= high
    assert mean > 0.8
    run = read_run("runs/people")
    folds = json.loads(run.facts["folds"])
    assert sorted(name for fold in folds for name in fold["clients"]) == [f"p{k}" for k in range(6)]
    # The score of all rows is the mean over folds, each counted by its rows.
    rows = [fold["rows"] for fold in folds]
    assert np.average([fold["score"] for fold in folds], weights=rows) == pytest.approx(
        run.scores[""]["accuracy"]
    )
    assert saved.endswith("next: catchment predict runs/people new.csv")
    # The plan is complete and says the same again, to the bit.
    settings = tomllib.loads(Path("plan.toml").read_text(encoding="utf-8"))
    assert settings["data"]["classes"] == ["running", "sitting", "walking"]
    assert read_plan("plan.toml").origin.is_settled  # type: ignore[attr-defined]
    again = RUNNER.invoke(app, ["run", "plan.toml"])
    assert again.exit_code == 0, again.output
    assert scored.replace("people", "clients") in again.output
    models = [Path("runs", name, "model.safetensors").read_bytes() for name in ("people", "plan")]
    assert models[0] == models[1]


def test_neither_a_changed_plan_nor_a_run_is_replaced_unasked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    good_people(Path("people"), 3)
    words = ["people", "--label", "activity"]
    fitted(*words)
    said = failure([*words, *QUICK], capsys)
    assert "runs/people holds a run already" in said
    command = said.rpartition("it: ")[2].strip()
    assert shlex.split(command) == ["catchment", "fit", *words, *QUICK, "--force"]
    changed = Path("plan.toml").read_text().replace("2s", "1s")
    Path("plan.toml").write_text(changed)
    shutil.rmtree("runs")
    assert "plan.toml was changed or written by hand" in failure([*words, *QUICK], capsys)
    assert Path("plan.toml").read_text() == changed
    assert "windows of 2s" in fitted(*words, "--force")


def test_strict_stops_at_a_bad_file_and_json_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    faulty_people(Path("people"))
    for name in ("units", "slip", "slow", "sits", "hollow", "nan", "copy", "spaces", "shuffled"):
        Path("people", f"{name}.csv").unlink()
    words = ["fit", "people", "--label", "activity", *QUICK]
    done = RUNNER.invoke(app, [*words, "--strict"])
    assert done.exit_code == 1
    assert "  x text.csv: column 'ax' is not numeric: it has 'err'" in done.output
    assert not Path("plan.toml").exists()
    done = RUNNER.invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert sorted(Path(one["file"]).stem for one in said["survey"]["problems"]) == sorted(UNUSABLE)
    assert said["metric"] == "accuracy"
    assert len(said["folds"]) == 5
    assert {one["client"] for one in said["refused"]} == {"three"}
    untested = [name for fold in said["folds"] for name in fold["untested"]]
    assert untested == ["three"]
    left_out = tomllib.loads(Path("plan.toml").read_text())["data"]["leave_out"]
    assert sorted(left_out) == sorted(f"{name}.csv" for name in UNUSABLE)


def test_people_in_folders_and_people_in_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    for k in range(3):
        for day in range(2):
            write(Path("days", f"p{k}", f"{day}.csv"), rows_of(10 * k + day))
    said = fitted("days", "--label", "activity")
    assert "6 files, 3 people (one per folder)" in said
    assert "3 folds over people" in said
    assert set(read_run("runs/days").scores) == {"", "p0", "p1", "p2"}
    done = RUNNER.invoke(app, ["evaluate", "runs/days", "days/p0/0.csv", "days/p0/1.csv"])
    assert "p0" in done.output
    rows = [[f"{k}", *row] for k in range(3) for row in rows_of(k)]
    write(Path("all.csv"), rows, header="wearer_no,t,ax,ay,activity")
    said = failure(["all.csv", "--label", "activity", "--plan", "b.toml"], capsys)
    assert "nothing tells people apart" in said
    command = said.rpartition("type: ")[2].strip()
    assert command == "catchment fit all.csv --label activity --client wearer_no --plan b.toml"
    assert "1 file, 3 people (by 'wearer_no')" in fitted(*shlex.split(command)[2:])


def test_numbers_to_predict_and_inputs_ahead() -> None:
    for k in range(3):
        x = [0.0, *np.sin(np.arange(120) / (4 + k)).tolist()]
        lines = [f"{n},{x[n + 1]:.4f},{x[n]:.4f}" for n in range(120)]
        Path("logs").mkdir(exist_ok=True)
        Path("logs", f"p{k}.csv").write_text("seconds,x,y\n" + "\n".join(lines) + "\n")
    words = ["fit", "logs", "--map", "echo_state"]
    done = RUNNER.invoke(app, [*words, "--target", "y"])
    assert done.exit_code == 0, done.output
    assert "to predict y" in done.output
    assert "one answer per row" in done.output
    assert "3 folds over people: NRMSE" in done.output
    done = RUNNER.invoke(app, [*words, "--horizon", "2", "--out", "runs/ahead"])
    assert done.exit_code == 0, done.output
    assert "on the part kept for the test: NRMSE" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--label", "ax"], "type: catchment fit people --target ax"),
        (["--target", "activity"], "type: catchment fit people --label activity"),
        (["--label", "Activity"], "type: catchment fit people --label activity"),
        (["--label", "zzz"], "choose from t, ax, ay, activity"),
        (["--label", "activity", "--inputs", "ax,az"], "type: catchment fit people --label"),
        (["--label", "activity", "--target", "ax"], "pass one of --label, --target and --horizon"),
        ([], "or, to forecast the inputs: catchment fit people --horizon 1"),
    ],
)
def test_a_wrong_column_is_answered_by_what_to_type(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good_people(Path("people"), 3)
    assert said in failure(["people", *words], capsys)
    assert not Path("plan.toml").exists()


def test_what_cannot_be_learned_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for k in range(3):
        write(Path("sitting", f"p{k}.csv"), [r for r in rows_of(k) if r[3] == "sitting"])
        rows = rows_of(k)
        rows[k][1] = "inf"
        write(Path("bad", f"p{k}.csv"), rows)
        Path("void").mkdir(exist_ok=True)
        Path("void", f"p{k}.csv").write_text("")
    assert "has one class only, 'sitting'" in failure(["sitting", "--label", "activity"], capsys)
    said = failure(["bad", "--label", "activity"], capsys)
    first = "p0.csv: column 'ax' is infinite"
    assert f"none of the 3 files can be used; the first: {first}" in said
    assert "no file of void can be read; p0.csv: it is empty" in failure(["void"], capsys)
    assert "no file matches" in failure(["nowhere"], capsys)
