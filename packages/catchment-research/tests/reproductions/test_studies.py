"""The experiments end to end, on a few synthetic people."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from catchment.errors import MissingDataError
from catchment.features import Reservoir
from reproductions import fedip, incfed, unseen, variance
from reproductions.__main__ import app
from reproductions.parts import STUDIES
from reproductions.people import synthetic_people
from reproductions.published import FEDIP_TEST, INCFED_TEST, SHARES
from reproductions.reproduce import chosen_sets, reproduce, settings_of, write
from reproductions.study import StudyResult, load_result, merged
from reproductions.tables import markdown

PEOPLE = synthetic_people(n_users=6, windows=10)
TINY: dict[str, Any] = {
    "incfed": incfed.IncFedSettings(
        trials=2, repetitions=2, shares=(0.5, 1.0), choose_at=(1.0,), rounds=()
    ),
    "fedip": fedip.FedIPSettings(
        trials=1,
        rounds=1,
        retrainings=1,
        shares=(1.0,),
        pools=("mean",),
        finalists=1,
        most_units=100,
    ),
    "variance": variance.VarianceSettings(
        units=20, initializations=2, target_stds=(0.3, 0.6), rounds=1, pools=("mean",)
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
        assert Reservoir.from_json(chosen.recipe).inputs == 6
    write(replace(result, sets=(replace(before, name="another"),)), tmp_path, merge=True)
    assert [one.name for one in load_result(paths[0]).sets] == ["another", "synthetic"]


def test_merging_replaces_sets_of_the_same_name(results: dict[str, StudyResult]) -> None:
    result = results["unseen"]
    slower = replace(result, sets=(replace(result.sets[0], seconds=1e6),))
    assert merged(result, slower).seconds == 1e6


def test_a_seed_names_a_study(results: dict[str, StudyResult]) -> None:
    again = unseen.unseen(PEOPLE, TINY["unseen"])
    assert [c.test for c in again.cells] == [c.test for c in results["unseen"].sets[0].cells]


def test_the_papers_figures_are_complete() -> None:
    for table in (INCFED_TEST, FEDIP_TEST):
        assert set(table) == {"wesad", "hhar"}
        for methods in table.values():
            assert all(len(row) == len(SHARES) for row in methods.values())


def test_without_data_synthetic_people_stand_in(tmp_path: Path) -> None:
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
    assert "These people are synthetic" in result.output
    content = json.loads((out / "unseen-quick.json").read_text())
    assert content["quick"] is True
    assert content["environment"]["numpy"] == np.__version__
    assert content["settings"]["seed"] == 0
