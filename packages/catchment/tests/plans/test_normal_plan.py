"""Detection of anomalies from files: a plan, its run, and what is said of new files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import catchment as ct
from catchment.cli import app
from catchment.plans import parse_plan
from catchment.readout import Detector

PLAN = """
[data]
files = "*.csv"
time = "time"

[features]
map = "nvar"
delays = 2
order = 1
washout = 2

[learn]
algorithm = "anomaly"
false_positive_rate = 0.02
"""


def machines(folder: Path, *, labeled: bool = False) -> None:
    """Write files of machines with two channels; the last one has a fault."""
    for k in range(4):
        rng = np.random.default_rng(k)
        time = np.arange(400) / 6
        u = np.column_stack([np.sin(time), np.cos(time)]) + 0.1 * rng.normal(size=(400, 2))
        fault = (np.arange(400) >= 350) & (k == 3)
        u[fault, 1] += 4.0
        names = ["time", "load", "heat", *(["fault"] if labeled else [])]
        with (folder / f"machine-{k}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            for step in range(400):
                label = [int(fault[step])] if labeled else []
                writer.writerow([step, *u[step].round(4), *label])


def catchment(*words: str | Path) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_plan_without_labels_marks_anomalies_in_files(tmp_path: Path) -> None:
    machines(tmp_path)
    (tmp_path / "plan.toml").write_text(PLAN)
    catchment("run", tmp_path / "plan.toml", "--out", tmp_path / "run")
    said = tmp_path / "said.csv"
    catchment("predict", tmp_path / "run", tmp_path / "machine-3.csv", "--out", said)
    rows = list(csv.DictReader(said.read_text().splitlines()))
    model = ct.load(tmp_path / "run" / "model.safetensors")
    assert isinstance(model, Detector)
    assert [row["prediction"] for row in rows][-10:] == ["anomaly"] * 10
    assert float(rows[0]["threshold"]) == pytest.approx(model.threshold, rel=1e-5)
    alarms = np.array([float(row["score"]) for row in rows]) > model.threshold
    assert [row["prediction"] == "anomaly" for row in rows] == alarms.tolist()
    # Without labels the test takes all rows for normal: the accuracy is the share without alarm.
    found = json.loads(
        catchment("evaluate", tmp_path / "run", tmp_path / "machine-3.csv", "--json")
    )
    assert found["total"]["accuracy"] == pytest.approx(1 - alarms.mean(), abs=1e-9)
    catchment("report", tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "share without an alarm" in page
    assert "accuracy, all test clients" not in page


def test_rows_before_a_memory_is_filled_are_not_scored() -> None:
    plain = PLAN.replace("washout = 2\n", "")
    assert parse_plan(PLAN).washout == 2
    assert parse_plan(plain).washout == 1  # two delays look one step back
    assert parse_plan(plain.replace("delays = 2", "delays = 2\nwashout = 0")).washout == 0
    table = plain[plain.index("[features]") : plain.index("[learn]")]
    assert parse_plan(plain.replace(table, "")).washout == 50  # the default, a reservoir
    windows = plain.replace(table, "[preprocessing]\nwindow = 20\n\n")
    assert parse_plan(windows).washout == 0


def test_a_client_is_taken_out_of_a_run(tmp_path: Path) -> None:
    machines(tmp_path, labeled=True)
    (tmp_path / "plan.toml").write_text(
        PLAN.replace("[features]", 'label = "fault"\ntest_of = "steps"\n\n[features]')
    )
    catchment("run", tmp_path / "plan.toml", "--out", tmp_path / "run")
    catchment("unlearn", tmp_path / "run", "machine-1", "--out", tmp_path / "less")
    less = ct.load(tmp_path / "less" / "model-without-machine-1.safetensors")
    assert isinstance(less, Detector)
    assert less.classes == ("0", "1")
    whole = ct.load(tmp_path / "run" / "model.safetensors")
    u = np.random.default_rng(7).normal(size=(30, 2))
    assert less.score_samples(u).tolist() != whole.score_samples(u).tolist()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ('target = "heat"\n\n[features]', "target of numbers"),
        ("\n[preprocessing]\nhorizon = 1\n\n[features]", "horizon in"),
        ('\n[run]\nbaselines = ["uniform"]\n\n[features]', "by labels"),
    ],
)
def test_what_has_no_meaning_for_what_is_normal_is_refused(line: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        parse_plan(PLAN.replace("[features]", line))
