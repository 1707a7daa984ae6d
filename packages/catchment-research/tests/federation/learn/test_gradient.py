"""Gradient steps against numeric ones, and what averaging them leads to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment import Array
from catchment.data import Recording, narma
from catchment.engine import run_locally
from catchment.errors import IntegrityError, TooFewClientsError, UploadError
from catchment.features import EchoState, Reservoir
from catchment.federation import Plan, RoundContext, Rows
from catchment.federation.learn import FederatedRidge, ReadoutAveraging
from catchment.federation.measure import evaluate
from catchment.privacy import Clip, SecureAggregation, generate_keys
from catchment.privacy.dp import Clipped
from catchment.readout import Readout
from catchment.wire import NOTHING
from catchment_research.learn import (
    Averaged,
    GradientAveraging,
    Momentum,
    Progress,
    TrainedSum,
    largest_eigenvalue,
)

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


def rows_and_start() -> tuple[Array, Array, Readout]:
    z, y = Rows.of(FEATURES, CLIENTS["b"]).pair
    rng = np.random.default_rng(0)
    return z, y, Readout(rng.normal(size=(13, 1)), rng.normal(size=1))


def test_one_step_goes_down_the_numeric_gradient() -> None:
    z, y, start = rows_and_start()
    rate, ridge, eps = 1e-3, 0.05, 1e-6
    algorithm = GradientAveraging(
        features=FEATURES, learning_rate=rate, relative=False, ridge=ridge, initial=start
    )
    update = algorithm.client_update(start.parts(), lambda: CLIENTS["b"], TURN)
    step = [array / update.weight for array in update.arrays]

    def loss(V: Array) -> float:
        error = z @ V[:-1] + V[-1] - y
        return float((error**2).sum() / (2 * len(z)) + ridge / 2 * (V[:-1] ** 2).sum())

    V = np.vstack([start.weights, start.intercept])
    for k in range(len(V)):
        bump = np.zeros_like(V)
        bump[k] = eps
        slope = (loss(V + bump) - loss(V - bump)) / (2 * eps)
        moved = step[0][k, 0] if k < 13 else step[1][0]
        assert moved == pytest.approx(-rate * slope, rel=1e-5, abs=1e-10)


def test_one_batch_of_all_rows_is_the_step_on_statistics() -> None:
    _, _, start = rows_and_start()
    for relative in (True, False):
        changes = [
            GradientAveraging(
                features=FEATURES, learning_rate=0.01, relative=relative, batch_size=size, ridge=0.1
            ).client_update(start.parts(), lambda: CLIENTS["b"], TURN)
            for size in (None, 10_000)
        ]
        # The relative step of a batch bounds the curvature of its rows and of the ridge apart.
        tolerance = 0.2 if relative else 1e-9
        for a, b in zip(changes[0].arrays, changes[1].arrays, strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance)


def test_small_batches_pass_over_every_row_in_an_order_of_the_clients_own() -> None:
    _, _, start = rows_and_start()
    algorithm = GradientAveraging(features=FEATURES, batch_size=1, learning_rate=0.5)

    def update(context: RoundContext) -> bytes:
        made = algorithm.client_update(start.parts(), lambda: CLIENTS["b"], context)
        return made.arrays[0].tobytes()

    assert update(TURN) == update(TURN)
    others = (replace(TURN, client="b"), replace(TURN, round=1))
    assert len(set(map(update, (TURN, *others)))) == 3


@pytest.mark.parametrize(("batch_size", "rate"), [(None, 1.0), (16, 0.1)])
def test_a_relative_step_is_stable_and_leads_towards_the_exact_readout(
    batch_size: int | None, rate: float
) -> None:
    exact = run_locally(
        Plan(algorithm=FederatedRidge(features=FEATURES, ridge=1e-6)), CLIENTS
    ).model
    assert exact is not None

    def error(rounds: int, rate: float) -> float:
        algorithm = GradientAveraging(
            features=FEATURES, epochs=5, learning_rate=rate, batch_size=batch_size
        )
        model = run_locally(Plan(algorithm=algorithm, rounds=rounds), CLIENTS).model
        assert model is not None
        return evaluate(model, lambda: CLIENTS["c"]).value

    errors = [error(rounds, rate) for rounds in (1, 10, 60)]
    assert errors[0] > errors[1] > errors[2] > evaluate(exact, lambda: CLIENTS["c"]).value
    assert errors[2] < 0.9
    assert error(60, 1.9) < 3.0


def test_momentum_gets_further_in_the_same_rounds() -> None:
    def error(algorithm: GradientAveraging) -> float:
        model = run_locally(Plan(algorithm=algorithm, rounds=30), CLIENTS).model
        assert model is not None
        return evaluate(model, lambda: CLIENTS["c"]).value

    plain = GradientAveraging(features=FEATURES)
    assert error(replace(plain, optimizer=Momentum())) < error(plain)


def test_it_begins_where_it_is_told_to() -> None:
    _, _, start = rows_and_start()
    algorithm = GradientAveraging(features=FEATURES, learning_rate=1e-12, initial=start)
    np.testing.assert_allclose(averaged(algorithm).weights, start.weights, rtol=1e-9)
    assert algorithm.broadcast(algorithm.start(), TURN).kind == "readout"
    zeros = replace(algorithm, initial=None)
    assert zeros.broadcast(zeros.start(), TURN) is NOTHING


def test_a_server_with_another_shape_is_refused_by_the_client() -> None:
    algorithm = GradientAveraging(features=FEATURES)
    wrong = Readout(np.zeros((13, 2)), np.zeros(2)).parts()
    with pytest.raises(UploadError, match="this client's data need"):
        algorithm.client_update(wrong, lambda: CLIENTS["a"], TURN)


def test_a_client_without_known_targets_takes_no_part() -> None:
    unknown = [Recording(np.zeros(40), np.full(40, np.nan))]
    for batch_size in (None, 5):
        algorithm = GradientAveraging(features=FEATURES, batch_size=batch_size)
        with pytest.raises(TooFewClientsError):
            run_locally(Plan(algorithm=algorithm), {"a": unknown})


def test_the_largest_eigenvalue_is_lapacks() -> None:
    rng = np.random.default_rng(1)
    for n in (1, 2, 9):
        M = rng.normal(size=(n, n))
        assert largest_eigenvalue(M @ M.T) == pytest.approx(np.linalg.eigvalsh(M @ M.T)[-1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"learning_rate": 2.0}, "learning_rate is 2.0"),
        ({"learning_rate": 0.0, "relative": False}, "learning_rate is 0.0"),
        ({"ridge": -1.0}, "ridge is -1.0"),
        ({"weighting": "rows"}, "weighting is 'rows'"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GradientAveraging(features=FEATURES, **settings)


@pytest.mark.parametrize("batch_size", [None, 1000])
def test_the_loss_of_a_round_is_the_mean_squared_error_before_each_step(
    batch_size: int | None,
) -> None:
    algorithm = GradientAveraging(
        features=FEATURES,
        epochs=3,
        batch_size=batch_size,
        ridge=0.1,
        learning_rate=0.01,
        relative=False,
    )
    (record,) = run_locally(Plan(algorithm=algorithm), CLIENTS).records
    losses, weights = [], []
    for held in CLIENTS.values():
        z, y = Rows.of(FEATURES, held).pair
        W, b, met = np.zeros((z.shape[1], 1)), np.zeros(1), []
        for _ in range(3):
            error = z @ W + b - y
            met.append((error**2).mean())
            W = W - 0.01 * (z.T @ error / len(z) + 0.1 * W)
            b = b - 0.01 * error.mean(axis=0)
        losses.append(np.mean(met))
        weights.append(len(z))
    expected = np.average(losses, weights=weights)
    assert record.figures["training loss"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("batch_size", [None, 16])
def test_the_loss_falls_from_round_to_round(batch_size: int | None) -> None:
    algorithm = GradientAveraging(
        features=FEATURES, batch_size=batch_size, learning_rate=0.2 if batch_size else 1.0
    )
    result = run_locally(Plan(algorithm=algorithm, rounds=12), CLIENTS)
    losses = [record.figures["training loss"] for record in result.records]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.5 * losses[0]


def test_a_loss_fits_every_secure_aggregation_that_the_weights_fit() -> None:
    plain = GradientAveraging(features=FEATURES, learning_rate=0.1)
    far = GradientAveraging(features=FEATURES, learning_rate=1e-20, relative=False)
    huge = {
        name: [Recording(s.u, s.y * 1e9) for s in held if s.y is not None]
        for name, held in CLIENTS.items()
    }
    for algorithm, clients in ((plain, CLIENTS), (far, huge)):
        tight = SecureAggregation(generate_keys(CLIENTS), min_clients=3, bits=64, bound=2.0**10)
        plan = Plan(algorithm=algorithm, protections=(tight,))
        (hidden,) = run_locally(plan, clients).records
        (clear,) = run_locally(Plan(algorithm=algorithm), clients).records
        loss = clear.figures["training loss"]
        assert hidden.figures["training loss"] == pytest.approx(loss, rel=1e-6)
    assert loss == 2.0**20


@given(st.floats(), st.floats(0, 1), st.floats(1e-3, 1e12))
def test_what_tells_of_progress_is_never_more_than_the_weight(
    loss: float, accuracy: float, weight: float
) -> None:
    sent = Progress(loss, accuracy).weighted(weight)
    assert all(0 <= number <= weight for number in sent)
    back = Progress.mean(*sent, scored=True)
    if 0 <= loss <= 2.0**20:
        assert back.loss == pytest.approx(loss, rel=1e-12, abs=1e-300)


def test_a_loss_is_no_part_of_a_clipped_message() -> None:
    moved = TrainedSum.of((np.array([3.0, 4.0]),), 7.0)
    quiet, loud = (moved.told(Progress(loss, 0.5)) for loss in (0.1, 1e30))
    clip = Clip(bound=1.0)
    one, other, bare = (clip.clipped(sent, 2.0**-40) for sent in (quiet, loud, moved))
    assert one.parts().to_bytes() == other.parts().to_bytes() == bare.parts().to_bytes()
    total = TrainedSum.from_message(clip.upload(one + other))
    assert total.weight == 2.0
    assert total.progress(scored=True) == Progress()
    for wrong in ([9], "no"):
        about = {**one.about, "remarks": wrong}
        with pytest.raises(IntegrityError, match="remarks"):
            clip.upload(Clipped(one.vector, 1, about))


def test_a_kept_mean_of_earlier_versions_is_read() -> None:
    _, _, start = rows_and_start()
    kept = GradientAveraging(features=FEATURES).save_state(Averaged(start))
    averaging = ReadoutAveraging(features=FEATURES)
    for parts in (kept, averaging.save_state(averaging.load_state(kept))):
        again = averaging.load_state(parts).readout
        assert again is not None
        assert again.weights.tobytes() == start.weights.tobytes()
