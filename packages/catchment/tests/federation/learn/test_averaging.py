"""Averages of readouts against scikit-learn's ridges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from catchment import Array
from catchment.data import Recording, contiguous, narma
from catchment.engine import run_locally
from catchment.errors import TooFewClientsError, UploadError
from catchment.features import EchoState, Reservoir
from catchment.federation import Plan, RoundContext, Rows, WeightedSum, Weighting, client_weight
from catchment.federation.learn import FederatedRidge, ReadoutAveraging
from catchment.federation.measure import evaluate
from catchment.readout import Readout

pytestmark = pytest.mark.slow

FEATURES = EchoState.of(Reservoir(units=12, inputs=1, seed=1), washout=10)
SERIES = narma(500, seed=2)
CLIENTS = {
    "a": [Recording(SERIES.u[:60], SERIES.y[:60])] if SERIES.y is not None else [],
    "b": [Recording(SERIES.u[60:220], SERIES.y[60:220])] if SERIES.y is not None else [],
    "c": [Recording(SERIES.u[220:], SERIES.y[220:])] if SERIES.y is not None else [],
}
TURN = RoundContext(0, tuple(CLIENTS), client="a")


def averaged(algorithm: Any, rounds: int = 1) -> Readout:
    readout = run_locally(Plan(algorithm=algorithm, rounds=rounds), CLIENTS).state.readout
    assert isinstance(readout, Readout)
    return readout


@pytest.mark.parametrize(
    ("weighting", "weights"),
    [
        ("samples", np.array([50.0, 150.0, 270.0])),
        ("uniform", np.ones(3)),
        ("printed", 1 / np.array([50.0, 150.0, 270.0])),
    ],
)
def test_the_average_is_that_of_scikit_learns_ridges(weighting: Weighting, weights: Array) -> None:
    readout = averaged(ReadoutAveraging(features=FEATURES, ridge=0.1, weighting=weighting))
    rows = [Rows.of(FEATURES, CLIENTS[name]).pair for name in sorted(CLIENTS)]
    models = [Ridge(alpha=0.1, solver="svd").fit(z, y) for z, y in rows]
    coefficients = np.array([m.coef_.reshape(1, -1)[0] for m in models])
    expected = weights @ coefficients / weights.sum()
    np.testing.assert_allclose(readout.weights[:, 0], expected, rtol=1e-7, atol=1e-9)
    intercepts = np.array([float(np.ravel(m.intercept_)[0]) for m in models])
    assert readout.intercept[0] == pytest.approx(weights @ intercepts / weights.sum())


def test_alike_clients_average_to_the_exact_readout_and_different_ones_do_not() -> None:
    ridge = 1e-2
    twins = dict.fromkeys("abc", CLIENTS["b"])
    one = run_locally(
        Plan(algorithm=ReadoutAveraging(features=FEATURES, ridge=ridge)), twins
    ).state.readout
    exact = FederatedRidge(features=FEATURES, ridge=3 * ridge)
    pooled = run_locally(Plan(algorithm=exact), twins).state.readout
    assert one is not None
    assert pooled is not None
    np.testing.assert_allclose(one.weights, pooled.weights, rtol=1e-7, atol=1e-9)
    apart = averaged(ReadoutAveraging(features=FEATURES, ridge=ridge))
    truth = run_locally(Plan(algorithm=replace(exact, ridge=ridge)), CLIENTS).state.readout
    assert truth is not None
    assert np.abs(apart.weights - truth.weights).max() > 1e-3


def test_a_client_chooses_its_own_ridge() -> None:
    every = {}
    ridges: tuple[Any, ...] = ("gcv", 1e-2, 1e-6)
    for ridge in ridges:
        readout = averaged(ReadoutAveraging(features=FEATURES, ridge=ridge))
        every[ridge] = readout.weights.tobytes()
    assert len(set(every.values())) == 3


def test_a_client_without_known_targets_takes_no_part() -> None:
    unknown = [Recording(np.zeros(40), np.full(40, np.nan))]
    plan: Plan[Any, Any, Any] = Plan(algorithm=ReadoutAveraging(features=FEATURES))
    with pytest.raises(TooFewClientsError):
        run_locally(plan, {"a": unknown})


def test_uploads_of_another_shape_are_refused() -> None:
    good = WeightedSum.of((np.zeros((13, 2)), np.zeros(2)), 4.0)
    plain = ReadoutAveraging(features=FEATURES)
    assert replace(plain, classes=("x", "y")).read_update(good.parts(), TURN).weight == 4.0
    for arrays, classes in (
        ((np.zeros((12, 2)), np.zeros(2)), None),
        ((np.zeros((13, 2)), np.zeros(3)), None),
        ((np.zeros((13, 2)), np.zeros(2)), ("x", "y", "z")),
        ((np.zeros((13, 2)),), None),
        ((), None),
    ):
        algorithm = replace(plain, classes=classes)
        with pytest.raises(UploadError, match=r"came, not \[\(13, "):
            algorithm.read_update(WeightedSum.of(arrays, 1.0).parts(), TURN)


def test_a_client_without_rows_has_no_weight() -> None:
    with pytest.raises(UploadError, match="no rows"):
        client_weight("samples", 0.0)


def test_wrong_settings_of_readout_averaging_are_named() -> None:
    with pytest.raises(ValueError, match="ridge is 'best'"):
        ReadoutAveraging(features=FEATURES, ridge="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weighting is 'rows'"):
        ReadoutAveraging(features=FEATURES, weighting="rows")  # type: ignore[arg-type]


def test_many_equal_parts_of_one_series_average_well() -> None:
    parts = contiguous(SERIES, 4)
    model = run_locally(
        Plan(algorithm=ReadoutAveraging(features=FEATURES, ridge="gcv")), parts
    ).model
    assert model is not None
    assert evaluate(model, lambda: parts["client-003"]).value < 0.75
