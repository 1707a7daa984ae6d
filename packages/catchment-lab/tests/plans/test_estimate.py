"""What a plan will cost is told by a trial, and what cannot be is refused from sizes."""

from __future__ import annotations

import json
from inspect import getmodule
from pathlib import Path

import pytest
from typer.testing import CliRunner

from catchment.cli import app
from catchment.features import EchoState, Reservoir
from catchment.federation import DELIVERY, EVALUATION, TRAINING
from catchment.federation.runs import MODEL
from catchment.plans import parse_plan, run_plan
from catchment_lab import estimate

PLAN = """
[data]
source = "wearables"
users = 20
windows_per_user = 3
steps = 40

[features]
map = "echo_state"
units = 12

[learn]
algorithm = LEARN

[run]
baselines = []
"""
LAKE = """
[data]
files = "nowhere/"
client = "who"
inputs = ["x", "y"]
label = "does"
classes = ["run", "sit"]
per_step = false

[features]
units = UNITS

[learn]
algorithm = "ridge"
ridge = 0.01

[run]
baselines = []
"""


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getmodule(estimate), "SECONDS", 0.1)


@pytest.mark.parametrize(
    ("learn", "near"),
    # Integers are packed by their size; numbers of floating point are not.
    [('"ridge"\nridge = 0.01\nupload = "statistics"', 0.02), ('"averaging"\nridge = 0.01', 0.0)],
)
def test_bytes_are_those_of_the_run(learn: str, near: float, tmp_path: Path) -> None:
    file = parse_plan(PLAN.replace("LEARN", learn))
    found = estimate(file)
    done = run_plan(file, tmp_path / "run").run
    stages = {stage.name: stage for stage in found.stages}
    for name, records in done.rounds.items():
        assert stages[name].clients == records[0].n_asked
        sent = sum(one.bytes_up for one in records)
        assert stages[name].bytes_up == pytest.approx(sent, rel=near, abs=0), name
        got = sum(one.bytes_down for one in records)
        assert stages[name].bytes_down == pytest.approx(got, rel=0.05)
    size = (tmp_path / "run" / MODEL).stat().st_size
    assert found.model_bytes == pytest.approx(size, rel=0.05)


def test_clients_that_are_not_there_yet_are_counted(tmp_path: Path) -> None:
    place = tmp_path / "plan.toml"
    place.write_text(LAKE.replace("UNITS", "10"))
    words = ["estimate", str(place), "--clients", "1000000", "--steps", "30", "--json"]
    many = json.loads(CliRunner().invoke(app, words).output)
    assert many["clients"] == 1_000_000
    stages = {stage["name"]: stage for stage in many["stages"]}
    training = stages[TRAINING]
    assert training["clients"] == 750_000
    # Of so many clients those that are tested are given the model.
    assert stages[DELIVERY]["clients"] == stages[EVALUATION]["clients"] == 250_000
    assert training["bytes_up"] == 750_000 * many["upload"]
    assert many["server_bytes"] > 1_000_000 * 500
    shown = CliRunner().invoke(app, [*words[:-1], "--workers", "16"])
    assert shown.exit_code == 0, shown.output
    assert "1,000,000 clients of 30 steps, 16 workers" in shown.output
    assert "of each worker" in shown.output
    assert "a trial on synthetic recordings on this machine" in shown.output


@pytest.mark.parametrize("command", ["estimate", "run", "plan"])
def test_a_million_units_are_refused_from_sizes(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn(recipe: Reservoir) -> Reservoir:
        raise AssertionError(f"a reservoir of {recipe.units} units is drawn")

    monkeypatch.setattr(Reservoir, "from_recipe", drawn)
    place = tmp_path / "plan.toml"
    place.write_text(LAKE.replace("UNITS", "1000000"))
    found = CliRunner().invoke(app, [command, str(place)])
    assert found.exit_code != 0
    said = str(found.exception)
    assert "2,000,005,000,003 numbers takes 16.0 TB, and this machine has" in said
    assert 'fewer units, algorithm = "conjugate_gradients", or project' in said


def test_gradients_need_no_gram() -> None:
    large = LAKE.replace("UNITS", "1000000")
    plan = large.replace('algorithm = "ridge"', 'algorithm = "conjugate_gradients"')
    assert plan != large
    assert parse_plan(plan).maps[0] == EchoState(1_000_000)


def test_features_of_large_maps_are_counted_before_weights_are_drawn() -> None:
    built = EchoState(2_000_000).build(3, per_step=False, classes=True)
    assert built.n_features == 2 * 2_000_003
    assert "reservoir" not in vars(built)


def test_what_cannot_be_tried_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: object, **named: object) -> None:
        raise ValueError("no recipe for client-00000")

    monkeypatch.setattr(getmodule(estimate), "run_plan", refused)
    with pytest.raises(ValueError, match=r"what ridge takes cannot be said: .*\(no recipe"):
        estimate(parse_plan(PLAN.replace("LEARN", '"ridge"')))
