"""Searches: resumed, pruned, the ridge for free, and from plan files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("optuna")

from catchment import Reservoir
from catchment.cli import app
from catchment.data import narma
from catchment.errors import FederationError
from catchment.features import EchoState
from catchment.plans import parse_plan
from catchment_lab.search import PlasticitySpace, SearchSettings, Space, Trial, read_search, search
from reproductions.fedip import validated
from reproductions.people import synthetic_people

pytestmark = pytest.mark.slow

PEOPLE = synthetic_people(n_users=8, windows=10)
SPACE = Space(units=(15, 25), connections=(1, 10))
SETTINGS = SearchSettings(trials=5, sampler="random", shares=(0.5, 1.0), prune=False)


def mean_pooled(reservoir: Reservoir) -> EchoState:
    return EchoState.of(reservoir, input=False, pool="mean")


def run(settings: SearchSettings = SETTINGS, storage: Path | None = None) -> list[Trial]:
    result = search(
        PEOPLE.train,
        PEOPLE.validation,
        features=mean_pooled,
        classes=PEOPLE.classes,
        space=SPACE,
        settings=settings,
        storage=storage,
    )
    return list(result.trials)


def test_the_best_trial_is_the_one_that_validates_best() -> None:
    result = search(
        PEOPLE.train,
        PEOPLE.validation,
        features=mean_pooled,
        classes=PEOPLE.classes,
        space=SPACE,
        settings=SETTINGS,
    )
    assert result.metric == "accuracy"
    assert result.best.score == max(trial.score for trial in result.trials)
    reservoir = result.reservoir
    assert validated(reservoir, "mean", PEOPLE) == pytest.approx(result.best.score, abs=1e-12)
    assert result.best.ridge > 0
    assert result.adaptation is None


def test_a_seed_names_a_search() -> None:
    assert [t.score for t in run()] == [t.score for t in run()]
    other = run(replace(SETTINGS, seed=5))
    assert [t.settings for t in other] != [t.settings for t in run()]


def test_a_search_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = tmp_path / "trials"
    first = run(replace(SETTINGS, trials=2), file)
    assert len(first) == 2
    both = run(replace(SETTINGS, trials=5), file)
    assert [t.settings for t in both[:2]] == [t.settings for t in first]
    assert len(both) == 5
    assert len(run(replace(SETTINGS, trials=3), file)) == 5


def test_a_file_of_another_search_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "trials"
    run(replace(SETTINGS, trials=1), file)
    with pytest.raises(ValueError, match="another space"):
        search(
            PEOPLE.train,
            PEOPLE.validation,
            features=mean_pooled,
            classes=PEOPLE.classes,
            space=replace(SPACE, leak_rate=(0.5, 0.6)),
            settings=SETTINGS,
            storage=file,
        )


def test_poor_trials_are_given_up() -> None:
    result = search(
        PEOPLE.train,
        PEOPLE.validation,
        features=mean_pooled,
        classes=PEOPLE.classes,
        space=replace(SPACE, units=(1, 30)),
        settings=replace(SETTINGS, trials=16, prune=True),
    )
    pruned = [trial for trial in result.trials if trial.state == "pruned"]
    assert pruned
    assert {trial.settings["units"] for trial in pruned} == {1.0}
    assert all(trial.state == "complete" for trial in result.trials[:4])


def test_workers_share_a_search() -> None:
    trials = run(replace(SETTINGS, trials=6, workers=2))
    assert sorted(trial.number for trial in trials) == list(range(6))


def test_options_that_came_later_do_not_make_another_search() -> None:
    plain = replace(SPACE, plasticity=PlasticitySpace())
    ranges = {"target_mean", "target_std", "relative_rate", "epochs", "rounds"}
    assert set(plain.described()["plasticity"]) == ranges
    batches = replace(SPACE, plasticity=PlasticitySpace(updates="batch", learning_rate=0.01))
    assert set(batches.described()["plasticity"]) == ranges | {"updates", "learning_rate"}
    assert SPACE.described()["plasticity"] is None


def test_plasticity_is_searched_and_divergence_is_no_crash() -> None:
    tame = replace(SPACE, plasticity=PlasticitySpace(rounds=(1,)))
    result = search(
        PEOPLE.train,
        PEOPLE.validation,
        features=mean_pooled,
        classes=PEOPLE.classes,
        space=tame,
        settings=replace(SETTINGS, trials=2, shares=(1.0,)),
    )
    assert result.adaptation is not None
    assert result.adaptation.rule.target_std == result.best.settings["target_std"]
    wild = PlasticitySpace(target_std=(0.05, 0.06), relative_rate=(50.0, 60.0), rounds=(1,))
    with pytest.raises(FederationError, match="none of 2 trials"):
        search(
            PEOPLE.train,
            PEOPLE.validation,
            features=mean_pooled,
            classes=PEOPLE.classes,
            space=replace(SPACE, plasticity=wild),
            settings=replace(SETTINGS, trials=2),
        )


def test_forecasts_are_judged_by_nrmse(tmp_path: Path) -> None:
    clients = {f"c{k}": [narma(150, seed=k)] for k in range(3)}
    seen: list[Trial] = []
    result = search(
        {"c0": clients["c0"], "c1": clients["c1"]},
        {"c2": clients["c2"]},
        features=lambda reservoir: EchoState.of(reservoir, washout=20),
        space=SPACE,
        settings=SETTINGS,
        watch=seen.append,
    )
    assert result.metric == "NRMSE"
    assert result.best.score == min(trial.score for trial in result.trials) < 1
    assert len(seen) == 5
    result.save(tmp_path / "search.json")
    assert '"metric": "NRMSE"' in (tmp_path / "search.json").read_text()


def test_clients_that_cannot_judge_are_refused() -> None:
    with pytest.raises(ValueError, match="0 validation"):
        search(PEOPLE.train, {}, features=mean_pooled)
    with pytest.raises(ValueError, match="both trains and validates"):
        search(PEOPLE.train, PEOPLE.train, features=mean_pooled)


@pytest.mark.parametrize(
    "settings",
    [{"trials": 0}, {"workers": 0}, {"sampler": "grid"}, {"shares": (0.5,)}, {"shares": (1, 0.5)}],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        SearchSettings(**settings)  # type: ignore[arg-type]


PLAN = """
[data]
source = "wearables"
users = 6
windows_per_user = 8

[preprocessing]
scale = "own"

[features]
units = 20
leak_rate = 0.4

[search]
trials = 2
sampler = "random"
shares = [1.0]
spectral_radius = [0.2, 0.9]
"""


def test_a_plan_says_what_is_searched(tmp_path: Path) -> None:
    read = read_search(parse_plan(PLAN))
    assert read.space.leak_rate == (0.4, 0.4)
    assert read.space.spectral_radius == (0.2, 0.9)
    assert read.space.units == (20,)
    assert read.space.plasticity is None
    with pytest.raises(ValueError, match="radius"):
        read_search(parse_plan(PLAN + "radius = [0.1, 0.2]\n"))
    with pytest.raises(ValueError, match="validation"):
        read_search(parse_plan(PLAN + "validation = 2.0\n"))


def test_the_command_searches_and_goes_on(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    first = CliRunner().invoke(app, ["search", str(plan), "--out", str(tmp_path / "all.json")])
    assert first.exit_code == 0, first.output
    assert "leak_rate = 0.4" in first.output
    assert (tmp_path / "plan.trials").is_file()
    again = CliRunner().invoke(app, ["search", str(plan)])
    assert again.exit_code == 0
    assert "trial" not in again.stderr
    assert "(2 trials" in again.output
    assert "epsilon" not in again.stderr


def test_a_search_says_that_noise_does_not_cover_it(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    noise = """
[learn]
ridge = 0.0
store_per_client = false
[[protections]]
name = "gaussian_noise"
epsilon = 1.0
delta = 1e-5
clip = {bound = 5.0}
min_clients = 4
small_cohort = true
"""
    plan.write_text(PLAN + noise)
    said = CliRunner().invoke(app, ["search", str(plan)])
    assert said.exit_code == 0, said.output
    assert "no epsilon of the plan covers what it chooses" in said.stderr
    assert not (tmp_path / "budget.sqlite").exists()
