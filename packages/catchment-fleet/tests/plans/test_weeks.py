"""A run that goes on, week by week: a folder of files grows, and the folder of the run with it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import catchment as ct
from catchment.federation import RunFolder, read_run
from catchment.federation.learn import RidgeState
from catchment.federation.runs import MODEL, last_state
from catchment.plans import NOTHING_NEW, Finished, PlanFile, parse_plan, read_plan, run_plan
from catchment.readout import RidgeStatistics, accumulate
from catchment.wire import deserialize
from tests.test_docs import WEEKS_GUIDE, run_page

PLAN = """
[data]
files = "fleet/*/*.csv"
client_by = "folder"
target = "power"

[preprocessing]
scale = "none"

[features]
map = "nvar"
delays = 2
washout = 2

[learn]
increments = "new"
ridge = 0.1
"""


def rows(pump: int, week: int) -> str:
    rng = np.random.default_rng([pump, week])
    u = rng.normal(size=(30, 2))
    y = (1 + pump) * u[:, 0] + u[:, 1] + 0.1 * rng.normal(size=30)
    return "".join(f"{a:.4f},{b:.4f},{c:.4f}\n" for (a, b), c in zip(u, y, strict=True))


def write_week(folder: Path, week: int, pumps: tuple[int, ...] = (1, 2, 3)) -> None:
    for pump in pumps:
        place = folder / "fleet" / f"pump {pump}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"week{week}.csv").write_text("flow,heat,power\n" + rows(pump, week))


def plan_in(folder: Path, text: str = PLAN) -> PlanFile:
    (folder / "plan.toml").write_text(text)
    return read_plan(folder / "plan.toml")


def go(folder: Path, file: PlanFile) -> Finished:
    return run_plan(file, folder / "run", resume=True, threads=1)


def total_of(folder: Path) -> RidgeStatistics:
    state = deserialize(RidgeState, last_state(folder / "run", "training"), trusted=True)
    assert state.total is not None
    return state.total


def of_all_files(folder: Path) -> str:
    people = ct.read(folder / "fleet" / "*" / "*.csv", target="power", client_by="folder")
    features = ct.NVAR(2, washout=2).build(2, per_step=True)
    found = accumulate(features, [one for some in people.values() for one in some], classes=False)
    return found.digest()


def test_every_monday(tmp_path: Path) -> None:
    file = plan_in(tmp_path)
    write_week(tmp_path, 1)
    first = go(tmp_path, file)
    assert "untested" in first.run.facts
    assert first.scores.total is None
    write_week(tmp_path, 2)
    second = go(tmp_path, file)
    # What is new is tested by the model that had not seen it, whatever is computed beside.
    new = ct.read(tmp_path / "fleet" / "*" / "week2.csv", target="power", client_by="folder")
    squared, spread = [], []
    for recordings in new.values():
        (one,) = recordings
        assert one.y is not None
        squared.append((np.asarray(first.model.predict(one)) - one.y[2:]) ** 2)
        spread.append(one.y[2:])
    expected = np.sqrt(np.mean(np.concatenate(squared))) / np.concatenate(spread).std()
    assert second.scores.total is not None
    assert second.scores.total.value == pytest.approx(expected, rel=1e-6)
    assert total_of(tmp_path).digest() == of_all_files(tmp_path)
    before = (tmp_path / "run" / MODEL).read_bytes()
    again = go(tmp_path, file)
    assert again.notices == (NOTHING_NEW,)
    assert (tmp_path / "run" / MODEL).read_bytes() == before
    write_week(tmp_path, 3, pumps=(2, 4))  # two are silent, one is a newcomer
    third = go(tmp_path, file)
    assert total_of(tmp_path).digest() == of_all_files(tmp_path)
    assert [len(third.run.rounds[s]) for s in ("training", "delivery", "evaluation")] == [3, 3, 2]
    assert third.run.facts["week"] == "3"
    assert set(third.scores.by_client) == {"pump 2", "pump 4"}


def test_the_model_of_the_week_before_stays_its_owners_alone(tmp_path: Path) -> None:
    file = plan_in(tmp_path)
    write_week(tmp_path, 1)
    go(tmp_path, file)
    first = (tmp_path / "run" / MODEL).read_bytes()
    write_week(tmp_path, 2)
    go(tmp_path, file)
    kept = tmp_path / "run" / "earlier.safetensors"
    assert kept.read_bytes() == first
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("where", ["save_model", "go_on", "close_round"])
def test_a_week_that_is_stopped_goes_on(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = plan_in(tmp_path)
    write_week(tmp_path, 1)
    go(tmp_path, file)
    write_week(tmp_path, 2)

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(RunFolder, where, stopped)
        with pytest.raises(KeyboardInterrupt):
            go(tmp_path, file)
    done = go(tmp_path, file)
    assert done.run.facts["week"] == "2"
    assert total_of(tmp_path).digest() == of_all_files(tmp_path)
    assert [len(done.run.rounds[s]) for s in ("training", "evaluation")] == [2, 1]
    assert done.scores.total is not None


def test_files_that_get_longer(tmp_path: Path) -> None:
    write_week(tmp_path, 1)
    file = plan_in(tmp_path, PLAN.replace('target = "power"', 'target = "power"\ngoes_on = true'))
    go(tmp_path, file)
    for pump in (1, 2, 3):
        with (tmp_path / "fleet" / f"pump {pump}" / "week1.csv").open("a") as longer:
            longer.write(rows(pump, 2))
    go(tmp_path, file)
    assert total_of(tmp_path).digest() == of_all_files(tmp_path)
    write_week(tmp_path, 1)
    short = plan_in(tmp_path)  # without goes_on
    run_plan(short, tmp_path / "other", threads=1)
    with (tmp_path / "fleet" / "pump 1" / "week1.csv").open("a") as longer:
        longer.write(rows(1, 2))
    idle, reason = run_plan(short, tmp_path / "other", resume=True, threads=1).notices
    assert idle == NOTHING_NEW
    assert "pump 1 cannot be read" in reason
    assert "ended after 30 steps and has 60 now" in reason


def test_who_drifted_is_kept_and_readouts_of_their_own_are_refused(tmp_path: Path) -> None:
    text = PLAN.replace("ridge = 0.1", "ridge = 0.1\nfalse_positive_rate = 0.2")
    file = plan_in(tmp_path, text)
    for week in (1, 2, 3, 4):
        write_week(tmp_path, week)
        done = go(tmp_path, file)
    assert "drifted clients" in done.run.rounds["training"][-1].figures
    assert read_run(tmp_path / "run").drifts == done.run.drifts
    personal = text.replace('increments = "new"', 'algorithm = "personal"\nincrements = "new"')
    with pytest.raises(ValueError, match="keep no old data"):
        run_plan(plan_in(tmp_path, personal), tmp_path / "other", threads=1)


def test_what_a_run_cannot_go_on_with_is_said(tmp_path: Path) -> None:
    write_week(tmp_path, 1)
    file = plan_in(tmp_path)
    go(tmp_path, file)
    (tmp_path / "fleet" / "pump 1" / "week2.csv").write_text("flow,heat,power,new\n1,2,3,4\n")
    for pump in (1, 2, 3):
        for path in (tmp_path / "fleet" / f"pump {pump}").glob("*.csv"):
            header, *lines = path.read_text().splitlines()
            path.write_text("\n".join([f"{header},new", *(f"{line},1" for line in lines)]))
    (tmp_path / "fleet" / "pump 1" / "week2.csv").unlink()
    write = tmp_path / "fleet" / "pump 1" / "week2.csv"
    write.write_text("flow,heat,power,new\n" + rows(1, 2).replace("\n", ",1\n"))
    with pytest.raises(ValueError, match="channels flow, heat, new now, and the run was begun"):
        go(tmp_path, file)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('target = "power"', 'target = "power"\ntest = 0.25'), "before it is learned from"),
        (("[learn]", "[run]\nrounds = 3\n\n[learn]"), "each time that the run goes on is one"),
        (("[learn]", '[run]\nbaselines = ["mean"]\n\n[learn]'), "baselines are of one training"),
        (('increments = "new"', ""), 'goes with increments = "new"'),
        (('increments = "new"', 'increments = "old"'), "increments"),
    ],
)
def test_plans_that_cannot_go_on(change: tuple[str, str], said: str) -> None:
    text = PLAN.replace(*change)
    if said.startswith("goes with"):
        text = text.replace('target = "power"', 'target = "power"\ntest = "new"')
    with pytest.raises(ValueError, match=said):
        parse_plan(text)


def test_flower_refuses_a_run_that_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    from catchment_fleet.apps import simulate_plan
    from catchment_fleet.apps.agreement import agreement

    write_week(tmp_path, 1)
    file = plan_in(tmp_path)
    with pytest.raises(ValueError, match="not on Flower; run it with --engine local"):
        simulate_plan(file, tmp_path / "run")
    with pytest.raises(ValueError, match="not on Flower"):
        agreement(file)
    assert not (tmp_path / "run").exists()


def test_the_guide_has_the_figures_that_were_measured() -> None:
    root = Path(__file__).parents[4]
    page = (root / "docs" / "guides" / "fleet-over-weeks.md").read_text(encoding="utf-8")
    kept = json.loads((root / "benchmarks" / "results" / "fleet_over_weeks.json").read_text())
    for name, weeks in kept["NRMSE"].items():
        means = [
            f"{np.mean([week[who] for week in weeks[7:]]):.3f}" for who in ("", "pump 3", "pump 7")
        ]
        assert (f"| {name} | {' | '.join(means)} |" if "so far" not in name else means[0]) in page
    named = {
        text.split(" (")[0]: k + 2
        for k, who in reversed([*enumerate(kept["changed"])])
        for text in who
    }
    assert named == {"pump 7": 14, "pump 3": 15}


def test_the_guide_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(WEEKS_GUIDE)
    page = Path("runs/plan/report.html").read_text(encoding="utf-8")
    assert "Clients that changed" in page
