"""Plans over many Parquet files read no client before it is asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from catchment.cli import app
from catchment.plans import PlanFile, parse_plan, run_plan
from catchment_fleet.parquet import HELD, ParquetClients

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SETTLED = """
client = "who"
inputs = ["x", "y"]
label = "does"
classes = ["run", "sit"]
per_step = false
"""
REST = """
test = 0.25

[features]
map = "echo_state"
units = 10

[learn]
algorithm = "ridge"
ridge = 0.01
"""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for part in range(2):
        who = np.repeat(np.arange(10) + 10 * part, 30)
        does = np.where(who % 2, "sit", "run")
        x, y = rng.normal(size=(2, len(who))) + who % 2
        rows = pa.table({"who": [f"p{k:02d}" for k in who], "x": x, "y": y, "does": does})
        pq.write_table(rows, folder / f"part-{part}.parquet", row_group_size=70)
    HELD.clear()
    return folder


def plan_of(files: str, base: Path, settled: str = SETTLED) -> PlanFile:
    return parse_plan(f'[data]\nfiles = "{files}"{settled}{REST}', base=base)


def test_nothing_is_read_before_a_client_is_asked(lake: Path) -> None:
    before = HELD.n_reads
    file = plan_of("lake", lake.parent)
    held = file.load_data()
    assert len(held.train) == 15
    assert len(held.test) == 5
    assert not set(held.train) & set(held.test)
    assert isinstance(file.origin.load(0, None, lake.parent).train, ParquetClients)
    assert HELD.n_reads == before


def test_the_model_is_that_of_files_read_at_once(lake: Path, tmp_path: Path) -> None:
    lazily = run_plan(plan_of("lake", lake.parent), tmp_path / "lazily")
    unsettled = SETTLED.replace("per_step = false", "")
    at_once = run_plan(plan_of("lake", lake.parent, unsettled), tmp_path / "at-once")
    by_uri = run_plan(plan_of(f"file://{lake}", lake.parent), tmp_path / "by-uri")
    digests = {run.run.facts["model_sha256"] for run in (lazily, at_once, by_uri)}
    assert len(digests) == 1
    assert lazily.scores.by_client.keys() == at_once.scores.by_client.keys()


def test_checking_a_plan_reads_footers_and_names(lake: Path) -> None:
    place = lake.parent / "plan.toml"
    place.write_text(f'[data]\nfiles = "lake"{SETTLED}{REST}')
    before = HELD.n_reads
    shown = CliRunner().invoke(app, ["plan", str(place)])
    assert shown.exit_code == 0, shown.output
    assert "2 Parquet files with 600 rows, read client by client" in shown.output
    assert "15 training and 5 test clients" in shown.output
    assert HELD.n_reads == before


def test_a_bucket_must_be_settled(lake: Path) -> None:
    file = plan_of(f"file://{lake}", lake.parent, '\nclient = "who"\nlabel = "does"\n')
    with pytest.raises(ValueError, match=r"is a bucket.*; write client, inputs, per_step"):
        file.load_data()


def test_files_may_be_left_out(lake: Path) -> None:
    settled = f'{SETTLED}\nleave_out = ["part-1.parquet"]\n'
    held = plan_of("lake", lake.parent, settled).load_data()
    assert len(held.train) + len(held.test) == 10
