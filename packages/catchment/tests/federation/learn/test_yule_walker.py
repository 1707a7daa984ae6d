"""Forecasts from summed autocovariances: any split, hidden, noisy, taken off, going on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment as ct
from catchment.engine import run_locally
from catchment.errors import FederationError
from catchment.federation import ByRound
from catchment.federation.learn import FederatedYuleWalker, unlearn
from catchment.federation.runs.ledger import map_sentence
from catchment.readout import Autocovariances, autocovariances, forecasts

AHEAD = ct.Preprocessing(horizon=(1, 3))
LAGS = ct.NVAR(24, order=1)


def wave(n: int, seed: int, level: float = 10.0) -> Any:
    """Return an autoregression of two lags whose noise has deviation 1, around a level."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n + 100)
    for t in range(2, len(x)):
        x[t] += 1.6 * x[t - 1] - 0.9 * x[t - 2]
    return level + x[100:]


def clients(n: int = 4, steps: int = 700) -> dict[str, list[ct.Recording]]:
    return {f"c{k}": [ct.Recording(wave(steps, k), channels=("load",))] for k in range(n)}


def federated(held: Any, **more: Any) -> Any:
    return ct.federate(ct.Pipeline(AHEAD, LAGS), held, upload="autocovariances", **more)


def total_of(run: Any) -> Autocovariances:
    total = run.training.state.total
    assert isinstance(total, Autocovariances)
    return total


def errors_of(model: Any, held: Any) -> Any:
    scores: Any = ct.evaluate(model, held)
    return scores.total.errors


def test_the_error_is_that_of_the_best_forecast() -> None:
    run = federated(clients(6, 2_000))
    # Of an autoregression: 1, and 1 + 1.6^2 + (1.6^2 - 0.9)^2 three steps ahead.
    best = np.sqrt([1.0, 1.0 + 1.6**2 + (1.6**2 - 0.9) ** 2])
    np.testing.assert_allclose(run.model.deviation, best, rtol=0.03)
    new = ct.Recording(wave(4_000, 99), channels=("load",))
    errors = errors_of(run.model, {"new": [new]})
    np.testing.assert_allclose(np.sqrt(errors.squared_error / errors.n), best, rtol=0.05)
    (ahead,) = forecasts(run.model, [new])
    assert ahead.values.shape == (2, 1)
    assert ahead.lower is not None
    assert (ahead.lower < ahead.values).all()


def test_predictions_are_those_of_the_equations_written_out() -> None:
    held = clients(3)
    run = ct.federate(
        ct.Plan(
            algorithm=FederatedYuleWalker(
                features=LAGS.build(1, per_step=True),
                preprocessing=replace(AHEAD, scale="none"),
                lookback=5,
                trailing_mean=5,
                ridge=0.01,
            ),
            preprocessing=replace(AHEAD, scale="none"),
        ),
        {name: [ct.Recording((one.u - 10) / 4)] for name, (one,) in held.items()},
    )
    q = [np.rint((one.u[:, 0] - 10) / 4 * 4096) / 4096 for (one,) in held.values()]
    r = np.array([sum(x[: len(x) - k] @ x[k:] for x in q) for k in range(8)])
    r = r / sum(map(len, q))
    G = np.array([[r[abs(i - j)] for j in range(5)] for i in range(5)])
    P = np.eye(5) - np.full((5, 5), 0.2)
    for h, place in ((1, 0), (3, 1)):
        C = P @ (np.array([r[d + h] for d in range(5)]) - G @ np.full(5, 0.2))
        w = P.T @ np.linalg.solve(P @ G @ P.T + 0.01 * r[0] * np.eye(5), C) + 0.2
        np.testing.assert_allclose(run.model.readout.weights[1:, place], w, rtol=1e-8)


def test_steps_far_ahead_take_nothing_from_those_at_hand() -> None:
    held, found = clients(2, 1_500), []
    for steps in ((1, 3), (1, 3, 96, 720)):
        ahead = ct.Preprocessing(horizon=steps)
        learn = FederatedYuleWalker(
            features=LAGS.build(1, per_step=True),
            preprocessing=ahead,
            lookback=12,
            trailing_mean=1,
            ridge=1e-3,
        )
        prepare = ahead.fitted(_scaler(federated(held)))
        run: Any = ct.federate(ct.Plan(algorithm=learn, preprocessing=prepare), held)
        found.append(run.model)
    near, far = found
    np.testing.assert_allclose(far.readout.weights[:, :2], near.readout.weights, rtol=1e-9)
    (ahead_of,) = forecasts(far, held["c0"])
    assert ahead_of.values.shape == (4, 1)
    # So far ahead nothing is known but the level.
    assert far.deviation[3] == pytest.approx(np.std(wave(50_000, 9)), rel=0.1)


def test_any_split_and_order_give_the_same_model_to_the_bit() -> None:
    held = clients(4)
    one = total_of(federated(held))
    paired = {"x": held["c3"] + held["c0"], "y": held["c2"] + held["c1"]}
    assert total_of(federated(paired)).digest() == one.digest()
    assert total_of(federated(dict(reversed(held.items())), threads=2)).digest() == one.digest()


def test_one_owner_learns_what_a_federation_of_one_does() -> None:
    held = clients(1)
    pipeline = ct.Pipeline(AHEAD, LAGS)
    alone = ct.fit(pipeline, held["c0"], upload="autocovariances")
    run = federated(held)
    assert (alone.readout.weights == run.model.readout.weights).all()
    assert run.training.state.choice.by == "gcv"
    # A ridge that is given is heeded.
    alone = ct.fit(pipeline, held["c0"], upload="autocovariances", ridge=50.0)
    assert (alone.readout.weights == federated(held, ridge=50.0).model.readout.weights).all()
    upload: Any = "autocovariance"
    with pytest.raises(ValueError, match="give 'statistics' or 'autocovariances'"):
        ct.fit(pipeline, held["c0"], upload=upload)


def test_secure_aggregation_gives_the_same_sum_and_says_how_it_chose() -> None:
    held = clients(10, 200)
    keys = ct.generate_keys(held)
    hidden = federated(held, protections=[ct.SecureAggregation(keys)])
    assert hidden.upload.startswith("clients send 27 autocovariances and their counts of pairs")
    assert "sums" in hidden.upload
    assert "by generalized cross-validation, all from one upload" in map_sentence(
        hidden.map_facts()
    )
    assert "on groups left out, all" in map_sentence(federated(held).map_facts())
    assert total_of(hidden).digest() == total_of(federated(held)).digest()
    assert hidden.training.state.choice.by == "gcv"
    assert not hidden.training.state.by_client


def noisy(n: int, epsilon: float) -> float:
    """Return the error, three steps ahead, of a model with noise, over that without."""
    held = {f"c{k}": [ct.Recording(wave(300, k, 0.0) / 4)] for k in range(n)}
    prepare = ct.Preprocessing(horizon=(1, 3), scale="none")
    learn = FederatedYuleWalker(
        features=LAGS.build(1, per_step=True), preprocessing=prepare, store_per_client=False
    )
    noise = ct.GaussianNoise(epsilon=epsilon, delta=1e-5, clip=ct.Clip(bound=learn.clip(3.0)))
    plan = ct.Plan(algorithm=learn, preprocessing=prepare, protections=(noise,))
    run: Any = ct.federate(plan, held)
    assert not run.state.total.is_counted
    errors = errors_of(run.model, {"new": [ct.Recording(wave(3_000, 999, 0.0) / 4)]})
    return float(np.sqrt(errors.squared_error[1] / errors.n)) * 4


def test_noise_bounds_a_client_and_leaves_a_forecast() -> None:
    errors = [noisy(200, epsilon) for epsilon in (1.0, 50.0)]
    assert errors[1] < 2.7  # the best has 2.51, the mean of the series 3.9
    assert errors[0] < 4.0


def test_a_client_is_taken_off_as_if_it_had_never_been_there() -> None:
    held = clients(4)
    run, rest = federated(held), {name: one for name, one in held.items() if name != "c2"}
    algorithm = run.training.plan.algorithm
    without: Any = unlearn(algorithm, run.training.state, "c2")
    again: Any = ct.federate(replace(run.training.plan), rest)
    assert without.state.total.digest() == again.state.total.digest()
    assert (without.certificate.how, without.certificate.n_rows) == ("equality", 700)
    assert without.certificate.confirms(total_of(run), without.state.total)
    one = algorithm.result(without.state).prepared_by(AHEAD.fitted(_scaler(run)), ("load",))
    assert (one.readout.weights == again.model.readout.weights).all()


def _scaler(run: Any) -> Any:
    return run.model.preprocessing.scale


def test_what_is_new_is_added_and_only_the_last_values_are_remembered() -> None:
    held = clients(3)
    fitted = federated(held).model.preprocessing
    algorithm = FederatedYuleWalker(
        features=LAGS.build(1, per_step=True), preprocessing=fitted, increments="new"
    )
    plan = ct.Plan(algorithm=algorithm, preprocessing=fitted, rounds=3)
    parts, memories = {}, dict[str, Any]((name, {}) for name in held)
    for name, (one,) in held.items():
        times = np.arange(one.n_steps, dtype=float)
        whole = replace(one, times=times, name="ward 3", goes_on=True)
        parts[name] = ByRound(
            [whole.part(0, 100)], [whole.part(100, 110)], [replace(whole, goes_on=False)]
        )
    run: Any = run_locally(plan, parts, memories=memories)
    once: Any = run_locally(
        replace(plan, algorithm=replace(algorithm, increments=None), rounds=1), held
    )
    assert run.state.total.digest() == once.state.total.digest()
    assert (run.model.readout.weights == once.model.readout.weights).all()
    # 27 lags: 26 values, and the last answer, with room for names.
    sizes = [len(kept) for memory in memories.values() for kept in memory.values()]
    assert max(sizes) < 3_000


def test_gaps_are_pairs_that_are_not_there() -> None:
    rng, held = np.random.default_rng(5), {}
    for name, (one,) in clients(3, 2_000).items():
        gone = rng.random(one.u.shape) < 0.3
        held[name] = [replace(one, u=np.where(gone, np.nan, one.u))]
    run = federated(held)
    scaler = _scaler(run)
    sums = [autocovariances(scaler(one.u), 27) for (one,) in held.values()]
    assert (total_of(run).pairs == sum(one.pairs for one in sums)).all()
    assert (total_of(run).products == sum(one.products for one in sums)).all()
    assert (total_of(run).pairs + total_of(run).missing)[0, 3] == 3 * (2_000 - 3)
    # Values that are held where they are missing look far smoother than they are.
    new = {"new": [ct.Recording(wave(4_000, 99), channels=("load",))]}
    exact = ct.federate(ct.Pipeline(AHEAD, LAGS), held).model
    errors = [errors_of(model, new) for model in (run.model, exact)]
    ours, theirs = (np.sqrt(one.squared_error / one.n) for one in errors)
    assert (ours < 0.97 * theirs).all()
    # As many are missing among the values to forecast from: they are held, and that is expected.
    late = new["new"][0].u
    gappy = [ct.Recording(np.where(rng.random(late.shape) < 0.3, np.nan, late), channels=("load",))]
    errors = [errors_of(model, {"new": gappy}) for model in (run.model, exact)]
    ours, theirs = (np.sqrt(one.squared_error / one.n) for one in errors)
    np.testing.assert_allclose(run.model.deviation, ours, rtol=0.1)
    assert (ours < 1.1 * theirs).all()


def test_a_trend_is_better_learned_from_the_exact_gram_and_widens_intervals() -> None:
    def rising(seed: int) -> Any:
        e = np.random.default_rng(seed).normal(size=900)
        for t in range(1, len(e)):
            e[t] += 0.8 * e[t - 1]
        return e + 0.1 * np.arange(len(e))  # by 42 deviations of e in 700 steps

    held = {f"c{k}": [ct.Recording(rising(k)[:700])] for k in range(4)}
    later = {f"c{k}": [ct.Recording(rising(k)[652:])] for k in range(4)}
    pipeline = ct.Pipeline(ct.Preprocessing(horizon=24), LAGS)
    found, expected = [], []
    for upload in ("autocovariances", "statistics"):
        model: Any = ct.federate(pipeline, held, upload=upload).model
        errors = errors_of(model, later)
        found.append(float(np.sqrt(errors.squared_error[0] / errors.n)))
        expected.append(float(model.deviation[0]))
    last = np.sqrt(np.mean([(rising(k)[724:] - rising(k)[700:-24]) ** 2 for k in range(4)]))
    assert found[1] < 0.8 * found[0] < 0.8 * last  # 2.5, 3.4 and 3.5
    assert expected[0] > 2.5 * found[0]  # 9.5
    assert expected[1] == pytest.approx(found[1], rel=0.2)


def test_a_calendar_and_what_is_known_ahead_stand_beside_the_lags() -> None:
    rng = np.random.default_rng(6)
    held = {}
    for k in range(4):
        hours, price = np.arange(1_500.0), rng.normal(size=1_500)
        day = 2 * np.sin(hours * np.pi / 12 + 1)
        load = day + 3 * price + rng.normal(size=1_500) * 0.5
        held[f"c{k}"] = [
            ct.Recording(
                np.stack([load, price], axis=1),
                times=3600 * hours,
                epoch=0.0,
                channels=("load", "price"),
            )
        ]
    prepare = ct.Preprocessing(horizon=(1, 5), known=("price",), calendar=("hour",))
    lags = ct.Pipeline(prepare, ct.NVAR(43, order=1))
    run: Any = ct.federate(lags, held, upload="autocovariances")
    np.testing.assert_allclose(run.model.deviation, 0.5, rtol=0.1)
    errors = errors_of(run.model, held)
    np.testing.assert_allclose(np.sqrt(errors.squared_error / errors.n), 0.5, rtol=0.1)


def test_intervals_are_calibrated_by_clients_left_out() -> None:
    held = clients(6, 1_000)
    model = ct.calibrate(federated(held), held)
    new = wave(4_000, 77)[:, None]
    low, high = model.interval(model.predict(new), coverage=0.8)
    truth = np.hstack([np.roll(new, -1), np.roll(new, -3)])[model.washout : -3]
    inside = ((low[:-3] <= truth) & (truth <= high[:-3])).mean(axis=0)
    np.testing.assert_allclose(inside, 0.8, atol=0.05)


def test_a_model_says_the_same_from_its_file(tmp_path: Path) -> None:
    run = federated(clients(2, 300))
    path = run.model.save(tmp_path / "model.safetensors")
    new = wave(100, 5)[:, None]
    assert (ct.load(path).predict(new) == run.model.predict(new)).all()


def test_settings_that_cannot_be_are_refused_with_a_remedy() -> None:
    lags, made = LAGS.build(1, per_step=True), FederatedYuleWalker
    cases: Any = (
        ({"preprocessing": ct.Preprocessing()}, "pass a horizon"),
        ({"preprocessing": ct.Preprocessing(horizon=1, scale="own")}, "federated"),
        ({"preprocessing": ct.Preprocessing(horizon=1, scale="recording")}, "federated"),
        ({"features": ct.NVAR(5).build(1, per_step=True)}, "order=1"),
        ({"lookback": 25}, "24 lags"),
    )
    for wrong, said in cases:
        with pytest.raises(ValueError, match=said):
            made(**{"features": lags, "preprocessing": AHEAD} | wrong)
    plan = ct.Plan(algorithm=FederatedYuleWalker(features=lags, preprocessing=AHEAD))
    with pytest.raises(FederationError, match="raw recordings"):
        ct.federate(plan, clients(2))
