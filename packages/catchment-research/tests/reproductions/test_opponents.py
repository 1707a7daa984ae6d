"""Opponents and protocols of the tables: what they see, and that they are scored as they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import Ridge
from sklearn.metrics import f1_score

import catchment as ct
from catchment.data import ACTIVITIES, synthetic_wearables
from reproductions.anomaly_detectors import Rows, forecast_errors, scored
from reproductions.anomaly_maps import FORECAST_RIDGE
from reproductions.arena import ArenaResult, arena_cell, load_arena, macro_f1, markdown
from reproductions.forecast_data import HOUR, WASHOUT, synthetic
from reproductions.life_data import generated
from reproductions.life_pooled import BOOSTED, pooled_said, trailing_columns
from reproductions.map_methods import NOTHING_SET
from reproductions.map_pooled import TREES, pooled_cell
from reproductions.map_sets import FoldedSet, label_of, people_folds
from reproductions.map_values import class_counts
from reproductions.maps import Prepared, nothing_set_cell, rows_of
from reproductions.scales import STEPS, files_of, mean_of, scale_cells
from reproductions.speech_frames import ResampledFrames
from reproductions.weather_trees import LAGS, tree_columns
from reproductions.weather_trees import rows_of as tree_rows


def people(n: int = 5, windows: int = 16) -> FoldedSet:
    users = synthetic_wearables(n, 0, windows_per_user=windows)
    return FoldedSet(
        name="hhar", clients=users, folds=people_folds(list(users), 2), classes=ACTIVITIES
    )


def test_macro_f1_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    label, said = rng.integers(4, size=(2, 300))
    counts = class_counts(label, said, 4)
    assert macro_f1(counts) == pytest.approx(f1_score(label, said, average="macro"), rel=1e-12)


def test_nothing_set_is_what_federate_gives_to_whoever_passes_recordings() -> None:
    data = people()
    prepared = Prepared.of(data)
    built = [ct.DefaultMap().build(data.n_inputs, per_step=False, classes=True)]
    cell = nothing_set_cell(prepared, NOTHING_SET, 0, built)
    for fold, tested in enumerate(data.folds):
        training = {name: list(data.clients[name]) for name in data.training(fold)}
        run = ct.federate("default", training)
        scores = ct.evaluate(run.model, {name: list(data.clients[name]) for name in tested})
        for name in tested:
            share = cell.correct[name] / cell.windows[name]
            assert share == pytest.approx(scores.by_client[name].value)
    assert cell.rounds == 2, "one for the scale, one for the model"
    assert sum(right for right, _, _ in cell.classes) == sum(cell.correct.values())
    assert cell.largest_up > 8 * 510


def test_trees_see_no_hour_after_the_one_they_speak_of() -> None:
    (region, *_) = synthetic(400, 2).values()
    columns = tree_columns(region, 3)
    assert columns.shape == (400 - WASHOUT, LAGS * region.n_inputs + 3)
    changed = ct.Recording(
        np.vstack([region.u[:200], 7 + region.u[200:]]), times=region.times, epoch=region.epoch
    )
    again = tree_columns(changed, 3)
    np.testing.assert_array_equal(again[: 200 - WASHOUT], columns[: 200 - WASHOUT])
    assert (again[200 - WASHOUT :, 0] != columns[200 - WASHOUT :, 0]).all()
    assert region.times is not None
    assert columns[0, -3] == region.times[WASHOUT] / HOUR % 24
    x, y = tree_rows([region], 3)
    assert y[0, 0] == region.u[WASHOUT + 1, 0]
    assert x[5, 0] == region.u[WASHOUT + 5, 0]


def test_trailing_columns_are_those_of_the_rows_up_to_now() -> None:
    u = np.random.default_rng(1).normal(size=(60, 2))
    columns = trailing_columns(u)
    assert columns.shape == (60, 15)
    np.testing.assert_allclose(columns[40, :2], u[36:41].mean(axis=0))
    np.testing.assert_allclose(columns[40, 4:6], u[11:41].mean(axis=0))
    np.testing.assert_allclose(columns[40, 12:14], u[31:41].mean(axis=0) - u[:10].mean(axis=0))
    assert columns[40, 14] == 41
    np.testing.assert_array_equal(trailing_columns(u[:30]), columns[:30])


def test_pooled_contenders_are_chosen_by_engines_left_out_and_say_what_is_possible() -> None:
    said, left_out, chosen, columns = pooled_said(BOOSTED, generated(8))
    assert len(said) == 8
    assert all(0 <= value <= 125 for value in said)
    assert 0 < left_out < 125
    assert "leaves" in chosen
    assert columns == 22


def test_frames_are_those_of_the_recording_at_even_places() -> None:
    u = np.random.default_rng(2).normal(size=(45, 3))
    (row,) = ResampledFrames(3).rows([u])
    assert row.shape == (1, ResampledFrames(3).n_features)
    np.testing.assert_allclose(row[0, :3], u[0])
    np.testing.assert_allclose(row[0, 12:15], u[16])  # 4 of 11 parts of 44 steps
    np.testing.assert_allclose(row[0, 33:36], u[-1])
    np.testing.assert_allclose(row[0, 36:39], u[:9].mean(axis=0))
    (short,) = ResampledFrames(3).rows([u[:1]])
    np.testing.assert_allclose(short[0, :36], np.tile(u[0], 12))


def test_the_rows_that_set_a_threshold_are_scored_by_models_without_them() -> None:
    rng = np.random.default_rng(4)
    clients = [Rows(rng.normal(size=(80, 3)), 0, 40) for _ in range(3)]
    for learner in ("local", "federated"):
        found = scored(clients, learner, 0.01)[1]
        own = found.calm[0] if learner == "local" else found.calm[1]
        others = clients[1:2] if learner == "local" else clients
        rest = np.concatenate([np.delete(one.train, slice(10, 20), axis=0) for one in others])
        mean, spread = rest.mean(axis=0), rest.std(axis=0)
        z = (rest - mean) / spread
        covariance = 0.99 * np.cov(z.T, bias=True) + 0.01 * np.eye(3)
        d = (clients[1].z[10:20] - mean) / spread
        expected = np.einsum("nf,fn->n", d, np.linalg.solve(covariance, d.T)) / 3
        np.testing.assert_allclose(own[10:20], expected, rtol=1e-9)


def test_forecast_errors_of_normal_rows_are_those_of_readouts_without_them() -> None:
    rng = np.random.default_rng(5)
    z, u = rng.normal(size=(60, 12)), rng.normal(size=(60, 2))
    (found,) = forecast_errors([Rows(z, 0, 41)], [u], "local")
    rest = [k for k in range(40) if not 10 <= k < 20]
    readout = Ridge(FORECAST_RIDGE * len(rest)).fit(z[rest], u[1:][rest])
    np.testing.assert_allclose(found.z[11:21], u[11:21] - readout.predict(z[10:20]), rtol=1e-7)
    whole = Ridge(FORECAST_RIDGE * 40).fit(z[:40], u[1:41])
    np.testing.assert_allclose(found.z[41:], u[41:] - whole.predict(z[40:-1]), rtol=1e-7)


def test_short_files_are_of_one_activity_and_together_everything() -> None:
    label = np.array([0, 1, 1, 0, 2, 1, 0])
    parts = list(files_of(label, "one activity", 2))
    assert sorted(np.concatenate(parts).tolist()) == list(range(7))
    assert all(len(set(label[part].tolist())) == 1 for part in parts)
    mixed = list(files_of(label, "mixed", 3))
    assert [len(part) for part in mixed] == [3, 3, 1]


def test_scales_are_compared_on_training_people_alone() -> None:
    data = people(6)
    cells = scale_cells(data, 0, files=True)
    inside = sum(len(data.clients[name]) for name in data.training(0))
    assert {cell.windows for cell in cells} == {inside}
    assert {cell.scale for cell in cells} == {"federated", "own", "recording", "none"}
    one = mean_of(cells, "hhar", "own", "one window, one activity")
    assert one == mean_of(cells, "hhar", "own", "one window, mixed")
    assert STEPS["hhar"] == 2.56


def test_the_arena_tests_every_group_by_a_model_of_the_others(tmp_path: Path) -> None:
    clients = {name: list(own) for name, own in people(4).clients.items()}
    cell = arena_cell("hhar", clients, ACTIVITIES, "default, nothing set", ct.WindowStatistics(), 0)
    assert sorted(name for group in cell.groups for name in group) == sorted(clients)
    (tested,) = cell.groups[0]
    others = {name: own for name, own in clients.items() if name != tested}
    model = ct.federate(ct.WindowStatistics(), others).model
    label = np.array([label_of(one) for one in clients[tested]])
    said = model.predict([one.u for one in clients[tested]])
    right = sum(ACTIVITIES[k] == one for k, one in zip(label, said, strict=True))
    assert right == np.sum(cell.counts[tested], axis=0)[0]
    result = ArenaResult((cell,))
    result.save(tmp_path / "arena.json")
    assert load_arena(tmp_path / "arena.json").cells[0].macro_f1 == cell.macro_f1
    assert f"{cell.macro_f1:.3f}" in markdown(result)


def test_other_classifiers_see_the_rows_of_the_ridge() -> None:
    prepared = Prepared.of(people())
    built = ct.DefaultMap(120).build(prepared.n_inputs, per_step=False, classes=True)
    cell = pooled_cell(prepared, rows_of(built, prepared), TREES)
    assert cell.columns == built.n_features
    inputs = {name: [one.u for one in own] for name, own in prepared.clients.items()}
    z = {name: np.concatenate(built.rows(own)) for name, own in inputs.items()}
    training = prepared.data.training(0)
    trees = ExtraTreesClassifier(300, random_state=0).fit(
        np.concatenate([z[name] for name in training]),
        np.concatenate([prepared.labels(name) for name in training]),
    )
    for name in prepared.data.folds[0]:
        right = int((trees.predict(z[name]) == prepared.labels(name)).sum())
        assert cell.correct[name] == right
