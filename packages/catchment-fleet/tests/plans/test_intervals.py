"""A plan that asks for intervals, and the command that calibrates a model on other files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from catchment import Model, load
from catchment.cli import main
from catchment.plans import About, parse_plan, read_plan, run_plan
from catchment_fleet.apps import Agreement

PLAN = """
[data]
files = "train/*.csv"
target = "left"
test = 0.25
test_of = "clients"

[features]
map = "nvar"
delays = 2
order = 1

[run]
baselines = ["mean"]
intervals = true
bands = [15]
"""


def write_machines(folder: Path, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for k in range(n):
        left = np.arange(30.0)[::-1]
        heat = np.exp(-left / 15) + 0.1 * rng.normal(size=30)
        rows = np.column_stack([heat, left])
        np.savetxt(folder / f"m{k:02d}.csv", rows, delimiter=",", header="heat,left", comments="")


def test_a_plan_gives_predictions_with_intervals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_machines(tmp_path / "train", 8, 0)
    write_machines(tmp_path / "others", 20, 1)
    (tmp_path / "plan.toml").write_text(PLAN)
    finished = run_plan(read_plan(tmp_path / "plan.toml"), tmp_path / "run")
    model = load(tmp_path / "run" / "model.safetensors")
    assert isinstance(model, Model)
    assert model.intervals is not None
    assert model.intervals.cuts == (15.0,)
    assert model.intervals.errors.n_values.sum() == 6 * 30  # those who trained
    assert "calibration" in finished.run.rounds

    with pytest.raises(SystemExit, match="0"):
        main(["calibrate", str(tmp_path / "run"), str(tmp_path / "others"), "--rows", "1"])
    made = tmp_path / "run" / "calibrated.safetensors"
    with pytest.raises(SystemExit, match="0"):
        main(["predict", str(made), str(tmp_path / "others" / "m00.csv"), "--coverage", "0.8"])
    shown = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    other = load(made)
    assert isinstance(other, Model)
    assert other.intervals is not None
    assert other.intervals.errors.n_values.tolist() == [20]
    half = other.intervals.half_widths(0.8)[0, 0]
    row = {name: float(shown[7][name]) for name in ("left", "left_low", "left_high")}
    assert row["left_high"] - row["left"] == pytest.approx(half, rel=1e-4)
    assert row["left"] - row["left_low"] == pytest.approx(half, rel=1e-4)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('target = "left"', 'label = "left"', "its classes have probabilities"),
        ("intervals = true\n", "", "bands divide intervals"),
        ("bands = [15]", "bands = [15, 3]", "each larger than the last"),
        ('map = "nvar"\ndelays = 2\norder = 1', 'map = "auto"', "a ridge with one map"),
        ("[run]", '[[protections]]\nname = "secure_aggregation"\n[run]', "without protections"),
    ],
)
def test_what_cannot_have_intervals_is_refused_before_it_runs(
    old: str, new: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_plan(PLAN.replace(old, new))


def test_intervals_are_refused_where_clients_are_elsewhere() -> None:
    with pytest.raises(ValueError, match="where all clients are in one process"):
        Agreement(parse_plan(PLAN), About(("heat",), None, per_step=True))
