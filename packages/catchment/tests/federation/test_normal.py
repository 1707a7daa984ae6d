"""Federated detection of anomalies against scikit-learn on all clients' rows together."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.covariance import OAS, ShrunkCovariance

import catchment as ct
from catchment import Array
from catchment.engine import run_locally
from catchment.errors import FederationError, UploadError
from catchment.federation import RoundContext
from catchment.federation.learn import FederatedAnomalyDetector, unlearn
from catchment.readout import Counts, Detector
from catchment.wire import Message

FEATURES = ct.NVAR(delays=3, order=1, washout=3, bits=None).build(2, per_step=True)


def machines(n: int = 4, n_steps: int = 300) -> dict[str, list[ct.Recording]]:
    """Return recordings of machines whose two channels swing together, each a little its own."""
    found = {}
    for k in range(n):
        rng = np.random.default_rng(k)
        time = np.arange(n_steps) / (5 + 0.1 * k)
        u = np.column_stack([np.sin(time), np.cos(time)]) + 0.1 * rng.normal(size=(n_steps, 2))
        found[f"machine-{k}"] = [ct.Recording(u)]
    return found


def normal(**settings: Any) -> FederatedAnomalyDetector:
    return FederatedAnomalyDetector(features=FEATURES, standardize=False, **settings)


def trained(clients: dict[str, list[ct.Recording]], **settings: Any) -> Detector:
    plan = ct.Plan(algorithm=normal(**settings), rounds=2)
    return ct.federate(plan, clients).result


def halves(clients: dict[str, list[ct.Recording]]) -> tuple[Array, Array]:
    """Return all clients' rows that are learned from, and those that set the threshold."""
    rows = [FEATURES.rows([one.u])[0] for held in clients.values() for one in held]
    cut = [int(len(z) * 0.75) for z in rows]
    pairs = list(zip(rows, cut, strict=True))
    return np.concatenate([z[:c] for z, c in pairs]), np.concatenate([z[c:] for z, c in pairs])


@pytest.mark.parametrize("shrinkage", ["auto", 0.05])
def test_the_detector_is_that_of_all_rows_together(shrinkage: float | str) -> None:
    clients = machines()
    model = trained(clients, shrinkage=shrinkage, false_positive_rate=0.02)
    first, second = halves(clients)
    theirs = OAS() if shrinkage == "auto" else ShrunkCovariance(shrinkage=shrinkage)
    theirs.fit(first)
    new = np.random.default_rng(9).normal(size=(50, 2))
    np.testing.assert_allclose(
        -model.score_samples(new),
        theirs.mahalanobis(FEATURES.rows([new])[0]) / first.shape[1],
        rtol=1e-9,
    )
    scores = np.sort(theirs.mahalanobis(second) / first.shape[1])
    exact = scores[math.ceil((len(scores) + 1) * 0.98) - 1]
    assert exact <= model.threshold <= exact * 10 ** (1 / 64) * (1 + 1e-6)
    assert model.predict(new).tolist() == (-model.score_samples(new) > model.threshold).tolist()


def test_the_threshold_is_set_by_rows_that_were_not_learned_from() -> None:
    rng = np.random.default_rng(3)
    loud = np.where(np.arange(400) < 300, 0.1, 1.0)[:, None]  # the last quarter alone
    clients = {"pump": [ct.Recording(loud * rng.normal(size=(400, 2)))]}
    model = trained(clients, shrinkage=0.01, false_positive_rate=0.5)
    scores = -model.score_samples(clients["pump"][0].u)
    held_out = float(np.median(scores[300:]))
    assert model.threshold == pytest.approx(held_out, rel=0.2)
    assert model.threshold > 10 * float(np.quantile(scores, 0.5)), "not by all rows"


def test_forecast_errors_are_scored_as_a_ridge_on_all_rows_would_err() -> None:
    from sklearn.linear_model import Ridge

    clients = machines()
    model = trained(clients, score="error", ridge=0.1, shrinkage=0.02, horizon=2, calibration=0)
    rows = [(FEATURES.rows([one.u])[0], one.u) for held in clients.values() for one in held]
    z = np.concatenate([z[:-2] for z, _ in rows])
    y = np.concatenate([u[FEATURES.washout + 2 :] for _, u in rows])
    ridge = Ridge(alpha=0.1, solver="svd").fit(z, y)
    theirs = ShrunkCovariance(shrinkage=0.02).fit(y - ridge.predict(z))
    new = machines(5)["machine-4"][0].u
    fresh = FEATURES.rows([new])[0]
    errors = new[FEATURES.washout + 2 :] - ridge.predict(fresh[:-2])
    np.testing.assert_allclose(-model.score_samples(new), theirs.mahalanobis(errors) / 2, rtol=1e-8)
    assert model.washout == FEATURES.washout + 2


def test_secure_aggregation_gives_the_same_detector() -> None:
    clients = machines(4)
    plan = ct.Plan(
        algorithm=normal(store_per_client=False),
        rounds=2,
        protections=(
            ct.SecureAggregation(ct.generate_keys(clients), min_clients=3, rows_per_feature=2.0),
        ),
    )
    hidden, plain = ct.federate(plan, clients).result, trained(clients)
    assert hidden.threshold == plain.threshold
    new = machines(6)["machine-5"][0].u
    np.testing.assert_allclose(-hidden.score_samples(new), -plain.score_samples(new), rtol=1e-9)


def test_noise_applies_to_both_rounds() -> None:
    clients = machines(20, 200)
    noise = ct.GaussianNoise(
        epsilon=1e8, delta=1e-5, clip=ct.Clip(bound=40.0), releases=2,
        min_clients=20, small_cohort=True, ridge_factor=0.0,
    )  # fmt: skip
    algorithm = normal(store_per_client=False, shrinkage=0.05, per_decade=16)
    plan = ct.Plan(algorithm=algorithm, rounds=2, protections=(noise,))
    noisy, plain = ct.federate(plan, clients).result, trained(clients, shrinkage=0.05)
    new = machines(21)["machine-20"][0].u
    np.testing.assert_allclose(-noisy.score_samples(new), -plain.score_samples(new), rtol=0.05)
    assert noisy.threshold == pytest.approx(plain.threshold, rel=0.3)


def test_the_bound_of_the_sums_does_not_blur_the_counts() -> None:
    counts = Counts.of(np.linspace(0.1, 5.0, 200), normal(per_decade=4).edges)
    for bound in (0.5, 400.0):
        clip = ct.Clip(bound=bound)
        clipped = clip.clipped(counts, 2.0**-30)
        # Shares of one bin alone would have the length of the bound, whatever it is.
        assert clip.length(Counts.of(np.ones(50), counts.edges)) == pytest.approx(bound)
        back = Counts.from_message(clip.upload(clipped))
        np.testing.assert_allclose(back.counts, counts.counts / 200, atol=1e-6)


@pytest.mark.parametrize("grid", ["auto", None])
def test_a_client_can_be_taken_off_as_if_it_had_never_been_there(grid: Any) -> None:
    features = ct.NVAR(delays=3, order=1, washout=3, bits=grid).build(2, per_step=True)
    algorithm = FederatedAnomalyDetector(features=features)
    clients = machines(4)
    clients["machine-1"] = [ct.Recording(clients["machine-1"][0].u * 3)]
    state = ct.federate(ct.Plan(algorithm=algorithm, rounds=2), clients).state
    others = {name: held for name, held in clients.items() if name != "machine-1"}
    never = ct.federate(ct.Plan(algorithm=algorithm, rounds=2), others)
    rest = unlearn(algorithm, state, "machine-1")
    assert rest.certificate.how == ("summed-anew" if grid is None else "equality")
    assert "threshold" in rest.certificate.remains
    new = machines(5)["machine-4"][0].u
    left = algorithm.result(rest.state)
    assert left.score_samples(new).tolist() == never.result.score_samples(new).tolist()
    assert left.threshold != never.result.threshold
    counted = run_locally(ct.Plan(algorithm=algorithm), others, onto=rest.state)
    assert counted.result.threshold == never.result.threshold


def test_rows_labeled_as_anomalies_are_left_out() -> None:
    clean = machines()
    marked = {}
    for name, (one,) in clean.items():
        u, label = one.u.copy(), np.tile([1.0, 0.0], (one.n_steps, 1))
        u[100:110] += 5.0
        label[100 : 110 + FEATURES.washout] = [0.0, 1.0]
        marked[name] = [ct.Recording(u, label, per_step=True, classes=("0", "1"))]
    model = trained(marked, classes=("0", "1"), shrinkage=0.01)
    blind = trained(marked, shrinkage=0.01)
    fault = marked["machine-0"][0]
    assert model.score_samples(fault).min() < 10 * blind.score_samples(fault).min()
    scores = ct.evaluate(model, marked)
    assert scores.total is not None
    assert scores.total.counts is not None
    assert scores.total.counts.recall[1] > 0.9
    # Without labels every row counts as normal, and the accuracy is the share without an alarm.
    bare = ct.evaluate(model, clean).total
    assert bare is not None
    alarms = np.concatenate([model.predict(one) for held in clean.values() for one in held])
    assert bare.value == pytest.approx(1 - alarms.mean())


def test_a_saved_detector_says_the_same(tmp_path: Path) -> None:
    clients = machines(3)
    new = machines(4)["machine-3"]
    for settings in ({}, {"score": "error", "average": 5}):
        model = trained(clients, **settings)
        again = ct.load(model.save(tmp_path / "model.safetensors"))
        assert isinstance(again, Detector)
        assert again.score_samples(new)[0].tolist() == model.score_samples(new)[0].tolist()
        assert (again.threshold, again.false_positive_rate) == (model.threshold, 0.01)


def test_counts_that_no_rows_can_have_are_refused() -> None:
    algorithm = normal()
    counts = Counts.of([0.5, 2.0], algorithm.edges)
    more = Message("counts", counts.parts().facts, (np.array([1.0]), counts.counts))
    with pytest.raises(UploadError, match="more scores"):
        algorithm.read_update(more, RoundContext(1, ("a",), client="a"))
    with pytest.raises(UploadError, match="other edges"):
        algorithm.read_update(
            Counts.of([0.5], [0.0, 1.0]).parts(), RoundContext(1, ("a",), client="a")
        )


def test_too_few_rows_for_the_rate_are_told() -> None:
    with pytest.raises(FederationError, match="at least 9999"):
        trained(machines(3), false_positive_rate=1e-4)
