"""Reservoirs and models of ReservoirPy, run there and here."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reservoirpy
import scipy.sparse
from reservoirpy import mat_gen, nodes
from sklearn.linear_model import Ridge

import catchment as ct
from catchment.data import RAW
from catchment.features.echo_state import LayerWeights
from catchment_research import from_reservoirpy, model_from_reservoirpy

rng = np.random.default_rng(0)
U = rng.uniform(-1, 1, (120, 3))
Y = np.column_stack([np.roll(U[:, 0], 1) * U[:, 1], U.sum(axis=1)])


def dense(N: int = 25) -> np.ndarray:
    W: np.ndarray = np.random.default_rng(N).normal(size=(N, N)) * 0.9 / np.sqrt(N)
    return W


CASES: dict[str, Callable[[], Any]] = {
    "defaults": lambda: nodes.Reservoir(50, seed=1),
    "leaky": lambda: nodes.Reservoir(50, lr=0.3, sr=0.95, seed=2),
    "leak per unit": lambda: nodes.Reservoir(20, lr=np.linspace(0.05, 1, 20), seed=3),
    "bias": lambda: nodes.Reservoir(30, bias=mat_gen.bernoulli, lr=0.5, seed=4),
    "one bias": lambda: nodes.Reservoir(30, bias=0.3, seed=4),
    "input scaling": lambda: nodes.Reservoir(30, input_scaling=[0.1, 2.0, 0.5], seed=5),
    "full": lambda: nodes.Reservoir(30, rc_connectivity=1.0, input_connectivity=1.0, seed=6),
    "sigmoid": lambda: nodes.Reservoir(30, activation="sigmoid", lr=0.4, seed=7),
    "relu": lambda: nodes.Reservoir(30, activation="relu", sr=0.5, seed=8),
    "identity": lambda: nodes.Reservoir(30, activation="identity", sr=0.5, lr=0.5, seed=9),
    "sin": lambda: nodes.Reservoir(30, activation=np.sin, seed=9),
    "numpy tanh": lambda: nodes.Reservoir(30, activation=np.tanh, seed=9),
    "given matrices": lambda: nodes.Reservoir(W=dense(), Win=np.ones((25, 3)), lr=0.7),
    "sparse matrices": lambda: nodes.Reservoir(
        W=scipy.sparse.csr_array(dense()), Win=scipy.sparse.coo_array(np.ones((25, 3)))
    ),
    "repeated entries": lambda: nodes.Reservoir(
        W=scipy.sparse.coo_array(([0.2, 0.3, 0.1], ([0, 0, 1], [1, 1, 0])), shape=(2, 2)),
        Win=np.ones((2, 3)),
    ),
    "float32 weights": lambda: nodes.Reservoir(30, dtype=np.float32, seed=10),
    "one unit": lambda: nodes.Reservoir(1, rc_connectivity=1.0, Win=np.ones((1, 3)), seed=1),
    "plasticity": lambda: nodes.IPReservoir(40, sr=0.9, mu=0.1, sigma=0.2, seed=11).fit(U),
    "plasticity, sigmoid": lambda: nodes.IPReservoir(
        40, sr=0.9, mu=0.2, activation="sigmoid", seed=12
    ).fit(U),
    "local plasticity": lambda: nodes.LocalPlasticityReservoir(30, sr=0.9, seed=13).fit(U),
}


def reset_run(node: Any, u: np.ndarray) -> np.ndarray:
    """Run a copy of the node from rest."""
    fresh = copy.deepcopy(node)
    if fresh.initialized:
        fresh.reset()
    out: np.ndarray = fresh.run(u)
    return out


@pytest.mark.parametrize("case", CASES)
def test_states_are_equal(case: str) -> None:
    node = CASES[case]()
    theirs = reset_run(node, U)
    ours = from_reservoirpy(node, n_inputs=3).states(U)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    assert np.abs(theirs).max() > 0


def snapshot(node: Any) -> dict[str, Any]:
    kept = {key: value for key, value in vars(node).items() if key != "rng"}
    return {key: v if callable(v) else copy.deepcopy(v) for key, v in kept.items()}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if scipy.sparse.issparse(a):
        return bool((a != b).nnz == 0)
    return bool(np.array_equal(a, b))


@pytest.mark.parametrize("initialized", [False, True])
def test_their_object_is_untouched(initialized: bool) -> None:
    node, twin = (nodes.Reservoir(20, lr=0.5, seed=1) for _ in range(2))
    if initialized:
        node.run(U)
        twin.run(U)
    before = snapshot(node)
    ours = from_reservoirpy(node, n_inputs=3)
    assert same(snapshot(node), before)
    assert node.initialized is initialized
    np.testing.assert_array_equal(node.run(U), twin.run(U))
    dense_theirs = node.W.toarray()
    node.W.data[:] = 0
    np.testing.assert_array_equal(ours.layers[0].W.to_dense(), dense_theirs)


def test_run_goes_on_from_their_state() -> None:
    node = nodes.Reservoir(20, lr=0.5, seed=1)
    node.run(U[:50])
    ours = from_reservoirpy(node).states(U[50:], x0=node.state["out"])
    np.testing.assert_allclose(ours, node.run(U[50:]), rtol=0, atol=1e-12)


def test_nodes_without_a_seed_draw_as_reservoirpy_would() -> None:
    reservoirpy.set_seed(5)
    chain = nodes.Reservoir(15) >> nodes.Reservoir(10)
    ours = from_reservoirpy(chain, n_inputs=3)
    theirs = chain.run(U)
    np.testing.assert_allclose(ours.states(U)[:, 15:], theirs, rtol=0, atol=1e-12)


def test_initialized_node_needs_no_input_width() -> None:
    node = nodes.Reservoir(5, input_dim=2, seed=1)
    assert from_reservoirpy(node).n_inputs == 2
    with pytest.raises(ValueError, match="input_dim is 2"):
        from_reservoirpy(node, n_inputs=3)
    with pytest.raises(ValueError, match="pass n_inputs"):
        from_reservoirpy(nodes.Reservoir(5))


MODELS: dict[str, Callable[[], Any]] = {
    "ESN": lambda: reservoirpy.ESN(units=40, lr=0.5, ridge=1e-4, seed=1),
    "ESN without intercept": lambda: reservoirpy.ESN(units=40, ridge=1e-4, fit_bias=False, seed=1),
    "ESN with input to readout": lambda: reservoirpy.ESN(
        units=40, ridge=1e-4, input_to_readout=True, seed=2
    ),
    "chain": lambda: nodes.Reservoir(30, seed=3) >> nodes.Ridge(1e-3),
    "input first": lambda: nodes.Input() >> nodes.Reservoir(30, seed=3) >> nodes.Ridge(1e-3),
    "two layers, upper read": lambda: (
        nodes.Reservoir(30, seed=3) >> nodes.Reservoir(20, lr=0.2, seed=4) >> nodes.Ridge(1e-3)
    ),
    "two layers, both read": lambda: both_read(),
}


def both_read() -> Any:
    source, lower, upper, readout = (
        nodes.Input(),
        nodes.Reservoir(30, seed=5),
        nodes.Reservoir(20, seed=6),
        nodes.Ridge(1e-3),
    )
    return source >> lower >> upper >> readout & upper >> readout & [source, lower] >> readout


@pytest.mark.parametrize("case", MODELS)
def test_predictions_are_equal(case: str) -> None:
    network = MODELS[case]().fit(U, Y)
    before = [snapshot(node) for node in network.nodes]
    ours = model_from_reservoirpy(network)
    assert all(same(snapshot(n), b) for n, b in zip(network.nodes, before, strict=True))
    network.reset()
    theirs = network.run(U)
    np.testing.assert_allclose(ours.predict(U), theirs, rtol=1e-10, atol=1e-10)
    assert np.abs(theirs).max() > 0.1


def test_probes_do_not_matter() -> None:
    network = reservoirpy.ESN(units=20, ridge=1e-3, seed=1, return_reservoir_activity=True).fit(
        U, {"readout": Y}
    )
    ours = model_from_reservoirpy(network)
    network.reset()
    theirs = network.run(U)
    np.testing.assert_allclose(ours.predict(U), theirs["readout"], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        from_reservoirpy(network).states(U), theirs["reservoir"], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("readout", [nodes.LMS, nodes.RLS])
def test_online_readouts_come_along(readout: Callable[[], Any]) -> None:
    network = nodes.Reservoir(20, seed=1) >> readout()
    network.partial_fit(U, Y)
    ours = model_from_reservoirpy(network)
    network.reset()
    np.testing.assert_allclose(ours.predict(U), network.run(U), rtol=1e-9, atol=1e-9)


class Noisy(nodes.Reservoir):  # type: ignore[misc]
    """A user's own kind of reservoir."""


def fed_back() -> Any:
    return reservoirpy.ESN(units=10, feedback=True, ridge=1e-3, seed=1)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "feedback": (fed_back, ValueError, "feedback"),
    "softplus": (lambda: nodes.Reservoir(5, activation="softplus"), ValueError, "^activation is"),
    "own function": (
        lambda: nodes.Reservoir(5, activation=lambda x: x**2),
        ValueError,
        "^activation is",
    ),
    "leak before": (lambda: nodes.IPReservoir(5, lr=0.5), ValueError, "^lr is 0.5; IPReservoir"),
    "local leak": (
        lambda: nodes.LocalPlasticityReservoir(5, lr=0.5),
        ValueError,
        "^lr is 0.5; LocalPlasticityReservoir",
    ),
    "no leak": (lambda: nodes.Reservoir(5, lr=0.0), ValueError, "^lr is 0"),
    "complex": (lambda: nodes.Reservoir(W=np.eye(5) * 1j), ValueError, "^W holds complex128"),
    "not finite": (lambda: nodes.Reservoir(W=np.eye(5) * np.nan), ValueError, "^W is not finite"),
    "column bias": (
        lambda: nodes.Reservoir(5, bias=np.ones((5, 1))),
        ValueError,
        "^bias has shape",
    ),
    "subclass": (lambda: Noisy(5), TypeError, "Noisy"),
    "other node": (lambda: nodes.NVAR(2, 2), TypeError, "NVAR"),
    "edge of stability": (lambda: nodes.ES2N(5), TypeError, "ES2N"),
    "parallel": (
        lambda: [nodes.Reservoir(5), nodes.Reservoir(5)] >> nodes.Ridge(1e-3),
        ValueError,
        "does not stand on one reservoir",
    ),
    "no reservoir": (lambda: nodes.Input() >> nodes.Ridge(1e-3), ValueError, "0 reservoirs"),
    "other function after": (
        lambda: nodes.Reservoir(5) >> nodes.Ridge(1e-3) >> nodes.Softmax(),
        TypeError,
        "Softmax",
    ),
    "not theirs": (lambda: 3, TypeError, "int is not a node"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_represented_is_refused(case: str) -> None:
    make, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        from_reservoirpy(make(), n_inputs=3)


def test_untrained_models_are_refused() -> None:
    with pytest.raises(ValueError, match="Wout is not trained"):
        model_from_reservoirpy(nodes.Reservoir(5, input_dim=1) >> nodes.Ridge(1e-3))
    with pytest.raises(ValueError, match="no readout"):
        model_from_reservoirpy(nodes.Reservoir(5) >> nodes.Reservoir(5))
    with pytest.raises(TypeError, match="Reservoir has no readout"):
        model_from_reservoirpy(nodes.Reservoir(5))


def test_weights_are_read_exactly() -> None:
    node = nodes.Reservoir(W=dense(), Win=scipy.sparse.csr_array(np.eye(25, 3)), lr=0.25, bias=0.5)
    layer: LayerWeights = from_reservoirpy(node).layers[0]
    np.testing.assert_array_equal(layer.W.to_dense(), dense())
    np.testing.assert_array_equal(layer.W_in.to_dense(), np.eye(25, 3))
    np.testing.assert_array_equal(layer.bias, np.full(25, 0.5))
    np.testing.assert_array_equal(layer.leak, np.full(25, 0.25))


def test_a_reservoir_taken_over_is_a_map_like_any_other() -> None:
    node = nodes.Reservoir(40, lr=0.5, seed=1)
    features = ct.EchoState(washout=10).reading(from_reservoirpy(node, n_inputs=3), per_step=True)
    pipeline = ct.Pipeline(RAW, features)
    model = ct.fit(pipeline, [ct.Recording(U, Y)], ridge=1e-3)
    states = np.hstack([U, reset_run(node, U)])[10:]
    expected = Ridge(alpha=1e-3, solver="svd").fit(states, Y[10:]).predict(states)
    np.testing.assert_allclose(model.predict(U), expected, rtol=1e-6, atol=1e-7)
    run = ct.federate(pipeline, {"a": [ct.Recording(U, Y)]}, ridge=1e-3)
    np.testing.assert_array_equal(run.model.readout.weights, model.readout.weights)


def test_a_model_taken_over_is_saved_and_refuses_gaps(tmp_path: Path) -> None:
    network = reservoirpy.ESN(units=20, ridge=1e-3, seed=1).fit(U, Y)
    model = model_from_reservoirpy(network)
    assert model.preprocessing == RAW
    loaded = ct.load(model.save(tmp_path / "theirs.safetensors"))
    np.testing.assert_array_equal(loaded.predict(U), model.predict(U))
    with pytest.raises(ValueError, match="not finite"):
        loaded.predict(np.where(U > 0.9, np.nan, U))
