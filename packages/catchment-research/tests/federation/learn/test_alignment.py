"""Alignment of reservoirs, and the published finding at a small size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from catchment import Recording, Reservoir
from catchment.data import narma
from catchment.engine import run_locally
from catchment.errors import FederationError
from catchment.features import EchoState
from catchment.federation import Plan
from catchment.federation.learn import FederatedRidge
from catchment.federation.measure import evaluate
from catchment.readout import Model
from catchment.wire import Message
from catchment_research.learn import AlignedRidge, ReservoirEnsemble, aligned_reservoir

pytestmark = pytest.mark.processor

RECIPE = Reservoir(
    units=40, inputs=1, spectral_radius=0.8, leak_rate=1.0, input_scaling=0.3, seed=3
)
TARGET = RECIPE
FEATURES = EchoState.of(TARGET, washout=20)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.9])
def test_the_recurrent_matrix_is_the_blend_at_the_same_radius(alpha: float) -> None:
    own = replace(RECIPE, seed=9, spectral_radius=0.5)
    blended = aligned_reservoir(own, TARGET, alpha)
    W = blended.layers[0].W.to_dense()
    mixed = (1 - alpha) * own.layers[0].W.to_dense() + alpha * TARGET.layers[0].W.to_dense()
    radius = np.abs(np.linalg.eigvals(mixed)).max()
    np.testing.assert_allclose(W, mixed * 0.8 / radius, rtol=2.0**-18)
    for name in ("bias", "leak", "activation"):
        np.testing.assert_array_equal(
            getattr(blended.layers[0], name), getattr(TARGET.layers[0], name)
        )
    np.testing.assert_array_equal(blended.layers[0].W_in.values, TARGET.layers[0].W_in.values)


def test_deep_reservoirs_align_layer_by_layer() -> None:
    deep = [Reservoir(units=(8, 6), inputs=2, seed=s) for s in (1, 2)]
    blended = aligned_reservoir(deep[0], deep[1], 0.5)
    for layer in blended.layers:
        assert np.abs(np.linalg.eigvals(layer.W.to_dense())).max() == pytest.approx(0.9)
    assert aligned_reservoir(deep[0], deep[1], 1.0) is deep[1]


def test_a_matrix_without_a_cycle_stays_as_it_is() -> None:
    line = Reservoir.from_matrices([[0.0, 0.5], [0.0, 0.0]], [[1.0], [1.0]])
    np.testing.assert_array_equal(
        aligned_reservoir(line, line, 0.5).layers[0].W.to_dense(), line.layers[0].W.to_dense()
    )


def test_wrong_arguments_are_errors() -> None:
    with pytest.raises(ValueError, match=r"alpha is 1\.5"):
        aligned_reservoir(TARGET, TARGET, 1.5)
    with pytest.raises(ValueError, match="alpha is -1"):
        AlignedRidge(ridge=FederatedRidge(features=FEATURES), alpha=-1)
    with pytest.raises(ValueError, match="do not align"):
        aligned_reservoir(replace(RECIPE, units=5), TARGET, 0.5)
    bare = FederatedRidge(features=EchoState.of(Reservoir.from_matrices([[0.5]], [[1.0]])))
    with pytest.raises(ValueError, match="no recipe for x"):
        AlignedRidge(ridge=bare, alpha=0.5).features_of("x")


def clients() -> dict[str, list[Recording]]:
    return {f"client-{k}": [narma(400, seed=k)] for k in range(4)}


def nrmse(model: Model | None) -> float:
    assert model is not None
    return evaluate(model, lambda: [narma(800, seed=77)]).value


def test_aggregation_pays_only_at_full_alignment_and_the_ensemble_always() -> None:
    exact = FederatedRidge(features=FEATURES, ridge=1e-6)
    pooled = nrmse(run_locally(Plan(algorithm=exact), clients()).model)
    together, apart = {}, {}
    for alpha in (0.0, 0.8, 1.0):
        algorithm = AlignedRidge(ridge=exact, alpha=alpha)
        state = run_locally(Plan(algorithm=algorithm), clients()).state
        together[alpha] = nrmse(algorithm.model_of(state, "client-0"))
        ensemble = ReservoirEnsemble(features=FEATURES, alpha=alpha, ridge=1e-6)
        apart[alpha] = nrmse(run_locally(Plan(algorithm=ensemble), clients()).model)
    assert together[1.0] == pytest.approx(pooled, rel=1e-9)
    assert together[0.0] > 1.3 * together[1.0]
    assert together[0.8] > 1.05 * together[1.0]
    assert max(apart.values()) < 1.15 * min(apart.values())
    assert apart[0.0] < together[0.0]


def test_the_state_survives_and_the_ensemble_remembers_its_alignment() -> None:
    algorithm = AlignedRidge(ridge=FederatedRidge(features=FEATURES, ridge=1e-6), alpha=0.5)
    state = run_locally(Plan(algorithm=algorithm), clients()).state
    again = algorithm.load_state(Message.from_bytes(algorithm.save_state(state).to_bytes()))
    assert again.total == state.total
    with pytest.raises(FederationError, match="nothing has been learned yet"):
        algorithm.model_of(algorithm.start(), "client-0")
    ensemble = ReservoirEnsemble(features=FEATURES, alpha=0.5, ridge=1e-6)
    run = run_locally(Plan(algorithm=ensemble), clients())
    members = run.result
    kept = ensemble.load_state(Message.from_bytes(ensemble.save_state(run.state).to_bytes()))
    u = narma(60, seed=5).u
    np.testing.assert_array_equal(ensemble.result(kept).predict(u), members.predict(u))
    own = members.features["client-0"].reservoir
    expected = algorithm.features_of("client-0").reservoir
    assert own.fingerprint == expected.fingerprint
