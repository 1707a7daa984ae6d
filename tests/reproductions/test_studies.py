"""The experiments end to end, on a few invented people."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from catchment.errors import FederationError, MissingDataError
from catchment.features.echo_state.plasticity import IntrinsicPlasticity, plasticity_of
from catchment.features.echo_state.recipe import Recipe
from catchment.features.echo_state.reservoir import Reservoir
from catchment.search.adapt import adapt
from catchment.search.space import Adaptation, PlasticitySpace, Random
from reproductions import fedip, incfed, unseen, variance
from reproductions.__main__ import app
from reproductions.parts import STUDIES
from reproductions.people import synthetic_people
from reproductions.published import FEDIP_TEST, INCFED_TEST, SHARES
from reproductions.reproduce import chosen_sets, reproduce, settings_of, write
from reproductions.spaces import FEDIP_HHAR
from reproductions.study import StudyResult, load_result, merged
from reproductions.tables import findings, markdown

PEOPLE = synthetic_people(n_users=6, windows=10)
TINY: dict[str, Any] = {
    "incfed": incfed.IncFedSettings(
        trials=2, repetitions=2, shares=(0.5, 1.0), choose_at=(1.0,), rounds=()
    ),
    "fedip": fedip.FedIPSettings(
        trials=2, rules=2, retrainings=2, shares=(1.0,), pools=("last", "mean"), most_units=100
    ),
    "variance": variance.VarianceSettings(
        units=20, initialisations=2, target_stds=(0.3, 0.6), rounds=1, pools=("mean",)
    ),
    "unseen": unseen.UnseenSettings(trials=2, folds=2, units=(20,), seeds=2),
}


@pytest.fixture(scope="module")
def results() -> dict[str, StudyResult]:
    made = {}
    for name, settings in TINY.items():
        module = {"incfed": incfed, "fedip": fedip, "variance": variance, "unseen": unseen}[name]
        one = getattr(module, name)(PEOPLE, settings)
        described = module.described(settings)
        made[name] = StudyResult(name=name, settings=described, sets=(one,))
    return made


@pytest.mark.parametrize("name", TINY)
def test_exact_federated_equals_pooled_in_every_cell(
    name: str, results: dict[str, StudyResult]
) -> None:
    (one,) = results[name].sets
    claimed = [cell for cell in one.cells if cell.method.split("-")[0] in ("incfed", "fedip")]
    assert claimed or name == "variance"
    assert all(cell.gap < 1e-9 for cell in (claimed or one.cells))


def test_fedip_compares_at_equal_pooling(results: dict[str, StudyResult]) -> None:
    (one,) = results["fedip"].sets
    assert set(one.methods) == {"incfed-last", "fedip-last", "incfed-mean", "fedip-mean"}
    rules = {chosen.method: chosen.adaptation for chosen in one.selected}
    assert rules["incfed-last"] is None
    assert rules["fedip-last"] is not None
    lines = findings(results["fedip"])
    assert any("pooling by validation too" in line for line in lines)


def test_a_ridge_after_every_round_leaves_the_rounds_as_they_are() -> None:
    reservoir = Reservoir.from_recipe(Recipe(units=15, inputs=6, seed=1))
    rule = Adaptation(IntrinsicPlasticity(target_std=0.4, learning_rate=1e-3), 3)
    watched = fedip.round_by_round(reservoir, rule, "mean", PEOPLE)
    at_once, records = adapt(reservoir, rule, PEOPLE.train)
    assert len(watched) == 1 + len(records) == 4
    for ours, theirs in zip(plasticity_of(watched[-1][0]), plasticity_of(at_once), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
    assert watched[-1][1] == fedip.validated(at_once, "mean", PEOPLE)


def test_variance_has_a_cell_per_way_and_draw(results: dict[str, StudyResult]) -> None:
    (one,) = results["variance"].sets
    assert len(one.methods) == 1 + len(variance.WAYS)
    assert len(one.cells) == 2 * len(one.methods)
    assert any("moments" in remark for remark in one.remarks)


@pytest.mark.parametrize("name", TINY)
def test_results_survive_the_disk(
    name: str, results: dict[str, StudyResult], tmp_path: Path
) -> None:
    result = results[name]
    paths = write(result, tmp_path)
    assert [path.suffix for path in paths] == [".json", ".md", ".png"]
    assert "NaN" not in paths[0].read_text()
    again = load_result(paths[0])
    before, after = result.sets[0], again.sets[0]
    assert [cell.method for cell in after.cells] == [cell.method for cell in before.cells]
    np.testing.assert_allclose(
        [cell.test for cell in after.cells], [cell.test for cell in before.cells], rtol=1e-9
    )
    assert markdown(again).count("|") == markdown(result).count("|")
    for chosen in again.sets[0].selected:
        assert Recipe.from_json(chosen.recipe).inputs == 6
    write(replace(result, sets=(replace(before, name="another"),)), tmp_path, merge=True)
    assert [one.name for one in load_result(paths[0]).sets] == ["another", "synthetic"]


def test_merging_replaces_sets_of_the_same_name(results: dict[str, StudyResult]) -> None:
    result = results["unseen"]
    slower = replace(result, sets=(replace(result.sets[0], seconds=1e6),))
    assert merged(result, slower).seconds == 1e6


def test_a_seed_names_a_study(results: dict[str, StudyResult]) -> None:
    again = unseen.unseen(PEOPLE, TINY["unseen"])
    assert [c.test for c in again.cells] == [c.test for c in results["unseen"].sets[0].cells]


def test_rules_that_diverge_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    wild = replace(
        FEDIP_HHAR,
        plasticity=PlasticitySpace(target_std=(0.05, 0.051), relative_rate=(50.0, 51.0)),
    )
    monkeypatch.setattr(fedip, "FEDIP_HHAR", wild)
    with pytest.raises(FederationError, match="diverged in all 4 trials"):
        fedip.explore(PEOPLE, TINY["fedip"], lambda text: None)


def test_draws_stay_in_the_papers_ranges() -> None:
    chooser = Random(np.random.default_rng(0))
    for _ in range(200):
        recipe, adaptation = fedip.space_of("wesad", 300).draw(chooser, inputs=8)
        assert isinstance(recipe.leak_rate, float)
        assert 0.1 <= recipe.leak_rate <= 0.8
        assert adaptation is not None
        assert 0.05 <= adaptation.rule.target_std <= 0.9


def test_the_papers_figures_are_complete() -> None:
    for table in (INCFED_TEST, FEDIP_TEST):
        assert set(table) == {"wesad", "hhar"}
        for methods in table.values():
            assert all(len(row) == len(SHARES) for row in methods.values())


def test_without_data_invented_people_stand_in(tmp_path: Path) -> None:
    for study in STUDIES:
        assert chosen_sets(study, None, False, tmp_path) == ("synthetic",)
    with pytest.raises(ValueError, match="no experiment is called 'esn'"):
        reproduce("esn")
    with pytest.raises(ValueError, match="no trials"):
        settings_of("variance", trials=3)
    with pytest.raises(ValueError, match="steps is 0"):
        settings_of("incfed", steps=0)
    with pytest.raises(MissingDataError, match="--sets synthetic"):
        reproduce("incfed", sets=["hhar"], directory=tmp_path)


def test_the_command_prints_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unseen, "QUICK", replace(TINY["unseen"], steps=20_000))
    out = tmp_path / "results"
    words = ["unseen", "--quick", "--data", str(tmp_path), "--out", str(out)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "These people are invented" in result.output
    content = json.loads((out / "unseen-quick.json").read_text())
    assert content["quick"] is True
    assert content["environment"]["numpy"] == np.__version__
    assert content["settings"]["seed"] == 0
