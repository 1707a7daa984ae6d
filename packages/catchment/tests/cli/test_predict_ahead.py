"""`catchment predict --ahead`: what comes after files, one row per horizon."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from catchment import load
from catchment.cli import app
from catchment.data import from_frame
from catchment.readout import PersonalModels, forecasts

PLAN = """
[data]
files = "*.csv"
time = "when"

[preprocessing]
horizon = [1, 6, 24]
predicted = ["load"]
known = ["price"]
calendar = ["hour", "weekday"]

[features]
map = "nvar"
delays = 4
order = 1

[learn]
algorithm = "personal"

[run]
baselines = []
"""
START = datetime(2024, 1, 1)


def write_house(path: Path, seed: int, n_steps: int, n_future: int = 0) -> list[float]:
    """Write hourly load that follows price and hour; rows of the future have a price only."""
    rng = np.random.default_rng(seed)
    price = rng.normal(size=n_steps + n_future)
    hours = np.arange(n_steps + n_future)
    load = 10 * seed + np.sin(2 * np.pi * hours / 24) + 3 * price
    load = load + 0.02 * rng.normal(size=len(hours))
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["when", "load", "price"])
        for k, (one, cost) in enumerate(zip(load, price, strict=True)):
            now = k < n_steps
            moment = (START + timedelta(hours=int(k))).isoformat()
            writer.writerow([moment, one if now else "", cost])
    return [float(load[n_steps - 1 + h]) for h in (1, 6, 24) if h <= n_future]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("houses")
    for seed in (1, 2, 3, 4):
        write_house(folder / f"house{seed}.csv", seed, 400)
    (folder / "plan.toml").write_text(PLAN)
    done = CliRunner().invoke(app, ["run", str(folder / "plan.toml"), "--out", str(folder / "run")])
    assert done.exit_code == 0, done.output
    return folder / "run"


def test_one_row_per_horizon_with_time_and_interval(run: Path, tmp_path: Path) -> None:
    new = tmp_path / "house2.csv"
    truth = write_house(new, 2, 300, n_future=24)
    done = CliRunner().invoke(app, ["predict", str(run), str(new), "--ahead"])
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["ahead"] for row in rows] == ["1", "6", "24"]
    assert [row["client"] for row in rows] == ["house2"] * 3
    last = START + timedelta(hours=299)
    wanted = [(last + timedelta(hours=h)).isoformat() for h in (1, 6, 24)]
    assert [row["time"] for row in rows] == wanted
    # A linear function of what is known ahead: the forecast is the future but for noise.
    np.testing.assert_allclose([float(row["load"]) for row in rows], truth, atol=0.2)
    for row in rows:
        assert float(row["load_low"]) < float(row["load"]) < float(row["load_high"])


def test_the_table_is_what_python_says(run: Path, tmp_path: Path) -> None:
    new = tmp_path / "house3.csv"
    write_house(new, 3, 200, n_future=24)
    model = load(run / "model.safetensors")
    assert isinstance(model, PersonalModels)
    with new.open() as stream:
        rows = list(csv.DictReader(stream))
    frame = {
        "when": [row["when"] for row in rows],
        "load": [float(row["load"] or "nan") for row in rows],
        "price": [float(row["price"]) for row in rows],
    }
    raw = from_frame(frame, inputs=["load", "price"], time="when")["all"]
    (one,) = forecasts(model, raw, "house3")
    done = CliRunner().invoke(app, ["predict", str(run), str(new), "--ahead"])
    said = [float(row["load"]) for row in csv.DictReader(done.stdout.splitlines())]
    np.testing.assert_allclose(said, one.values.ravel(), rtol=1e-5)


def test_a_future_that_is_too_short_is_refused(run: Path, tmp_path: Path) -> None:
    new = tmp_path / "short.csv"
    write_house(new, 1, 100, n_future=5)
    done = CliRunner().invoke(app, ["predict", str(run), str(new), "--ahead"])
    assert done.exit_code != 0
    assert "24 steps ahead, and recording 0 has 5 rows" in str(done.exception)
