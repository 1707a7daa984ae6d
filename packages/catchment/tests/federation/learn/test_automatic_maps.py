"""`map = "auto"`: the candidates, the choice, where there is none, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

import catchment as ct
from catchment.data import ACTIVITIES, Recording, synthetic_wearables
from catchment.features import AutoMap, DefaultMap
from catchment.federation import read_run
from catchment.federation.learn import Candidates
from catchment.plans import parse_plan, run_plan
from catchment.report import render

PEOPLE = synthetic_wearables(4, seed=1, windows_per_user=80)
SMALL = AutoMap(columns=240)
PLAN = """
[data]
source = "wearables"
users = 5
windows_per_user = 170
[features]
map = "auto"
columns = 240
"""


@pytest.fixture(scope="module")
def run() -> ct.Run:
    return ct.federate(SMALL, PEOPLE)


def test_the_default_map_stays_where_it_has_the_least_error(run: ct.Run) -> None:
    algorithm = run.training.plan.algorithm
    assert isinstance(algorithm, Candidates)
    assert (algorithm.by, algorithm.margin) == ("accuracy", 1.0)
    tried = run.maps_tried
    assert len(tried) == 4
    assert list(tried.values()) == sorted(tried.values())
    best = min(tried, key=tried.__getitem__)
    assert best.endswith(f"{run.model.features.n_features} features")


def test_scores_are_those_of_scikit_learn(run: ct.Run) -> None:
    assert run.known.preprocessing is not None
    features = run.model.features
    choice = run.training.state.choice
    z, y = {}, {}
    for name, recordings in PEOPLE.items():
        prepared = run.known.preprocessing.apply(recordings)
        z[name] = np.concatenate(features.rows([one.u for one in prepared]))
        y[name] = np.array([one.y for one in prepared])
    everything, answers = np.concatenate(list(z.values())), np.concatenate(list(y.values()))
    assert features.standardize
    scaler = StandardScaler().fit(everything)
    squared = np.zeros(len(ACTIVITIES))
    for name in PEOPLE:
        rest = np.concatenate([z[other] for other in PEOPLE if other != name])
        known = np.concatenate([y[other] for other in PEOPLE if other != name])
        fitted = Ridge(alpha=choice.best, solver="svd").fit(scaler.transform(rest), known)
        squared += ((fitted.predict(scaler.transform(z[name])) - y[name]) ** 2).sum(axis=0)
    nrmse = np.sqrt(squared / len(answers) / answers.var(axis=0)).mean()
    assert next(iter(run.maps_tried.values())) == pytest.approx(nrmse, rel=1e-6)


def test_what_was_chosen_is_told(run: ct.Run, tmp_path: Path) -> None:
    best = next(iter(run.maps_tried))
    words = run.explain()
    assert f"map chosen: {best}" in words
    assert "who sent the statistics of all 4 and whose accuracy decided" in words
    page = run.report(tmp_path / "report.html").read_text()
    assert "Feature maps that were tried" in page
    assert "The highlighted map was chosen, by accuracy: the default, unless" in page
    assert all(name in page for name in run.maps_tried)


def test_a_sum_alone_leaves_nothing_to_choose() -> None:
    people = synthetic_wearables(10, seed=1, windows_per_user=60)
    hiding = ct.SecureAggregation(ct.generate_keys(people), rows_per_feature=2)
    hidden = ct.federate(SMALL, people, protections=[hiding])
    assert "sees only a sum" in hidden.map_note
    assert not hidden.maps_tried
    plain = ct.federate(DefaultMap(240), people, ridge="gcv")
    assert hidden.model.features.fingerprint == plain.model.features.fingerprint
    assert np.array_equal(hidden.model.readout.weights, plain.model.readout.weights)
    assert "the default map is used" in hidden.explain()


def test_one_client_has_nobody_to_leave_out() -> None:
    one = ct.federate("auto", {"ann": PEOPLE[min(PEOPLE)]})
    assert "there is one" in one.map_note


def test_one_owner_takes_the_least_score_of_generalized_cross_validation() -> None:
    recordings = PEOPLE[min(PEOPLE)]
    chosen = ct.fit(SMALL, recordings)
    scores = {}
    for candidate in SMALL.candidates(6, per_step=False):
        model = ct.fit(candidate, recordings)
        prepared = model.preprocessing.apply(recordings)
        z = np.concatenate(model.features.rows([one.u for one in prepared]))
        y = np.array([one.y for one in prepared])
        spread = z.std(axis=0) if model.features.standardize else np.ones(z.shape[1])
        z = (z - z.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        ridge = float(np.asarray(model.readout.ridge))
        hat = z @ np.linalg.solve(z.T @ z + ridge * np.eye(z.shape[1]), z.T) + 1 / len(z)
        left = y - hat @ y
        score = len(z) * (left**2).sum() / (len(z) - np.trace(hat)) ** 2
        scores[model.features.fingerprint] = score
    assert chosen.features.fingerprint == min(scores, key=scores.__getitem__)


def test_per_step_targets_have_other_candidates() -> None:
    u = np.sin(np.arange(300) / 5)
    waves = {f"w{k}": [Recording(u[k:-1], u[k + 1 :])] for k in range(3)}
    run = ct.federate("auto", waves)
    assert run.model.per_step
    assert ct.fit("auto", waves["w0"]).per_step


@pytest.mark.parametrize("settings", [{"ridge": 0.1}, {"ridge": "gcv"}])
def test_settings_that_the_choice_makes_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="leave out ridge, or name a map"):
        ct.federate("auto", PEOPLE, **settings)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="leave out ridge, or name a map"):
        ct.fit("auto", PEOPLE[min(PEOPLE)], ridge=0.1)
    learn = f"[learn]\nridge = {settings['ridge']!r}\n".replace("'", '"')
    with pytest.raises(ValueError, match="leave out ridge, or name a map"):
        parse_plan(PLAN + learn)


def test_a_class_that_one_client_has_alone_is_judged_by_the_sum() -> None:
    rng = np.random.default_rng(0)
    names = ("slow", "middle", "fast")
    apart = {}
    for k, name in enumerate(names):
        waves = [np.sin(np.arange(60) / (6 - 2 * k) + p) for p in rng.uniform(0, 6, 30)]
        apart[name] = [Recording.labeled(u + 0.1 * rng.normal(size=60), k, names) for u in waves]
    run = ct.federate("auto", apart)
    assert run.training.state.choice.block_errors is None
    score = ct.evaluate(run.model, apart).total
    assert score is not None
    assert score.value > 0.9


def test_a_plan_says_what_it_chose(tmp_path: Path) -> None:
    done = run_plan(parse_plan(PLAN), tmp_path / "run")
    facts = done.run.facts
    assert facts["map"] == "auto"
    assert facts["map_chosen"] == facts["map_label"]
    assert "units" not in facts or "echo_state" in facts["map_label"]
    assert "Feature maps that were tried" in render([read_run(tmp_path / "run")])
    hidden = f'{PLAN}[[protections]]\nname = "secure_aggregation"\n'
    hidden += "min_clients = 3\nrows_per_feature = 2\n"
    quiet = run_plan(parse_plan(hidden), tmp_path / "hidden").run.facts
    assert "sees only a sum" in quiet["map_note"]
    assert "map_scores" not in quiet


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no map 'minirockt'; did you mean 'minirocket'"):
        ct.federate("minirockt", PEOPLE)
    with pytest.raises(ValueError, match="no map 'qqqq'; choose from echo_state, default"):
        ct.federate("qqqq", PEOPLE)
    with pytest.raises(ValueError, match="'feature_union' needs settings"):
        ct.fit("feature_union", PEOPLE[min(PEOPLE)])


def test_names_are_the_maps_with_their_usual_settings() -> None:
    recordings = PEOPLE[min(PEOPLE)]
    usual: dict[str, DefaultMap | ct.EchoState]
    usual = {"default": DefaultMap(), "echo_state": ct.EchoState()}
    for name, described in usual.items():
        one, other = ct.fit(name, recordings), ct.fit(described, recordings)
        assert np.array_equal(one.readout.weights, other.readout.weights)
        in_pipeline = ct.fit(ct.Pipeline(ct.Preprocessing(), name), recordings)
        assert np.array_equal(one.readout.weights, in_pipeline.readout.weights)
