"""Dense and spiking reservoirs, feedback and local rules against ReservoirPy or own loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import catchment as ct
from catchment import Array
from catchment.data import RAW, Recording, synthetic_wearables
from catchment.features import FeatureMap, Pipeline, Reservoir
from catchment_research import (
    ACTIVATIONS,
    DenseReservoir,
    SpikingReservoir,
    adapt_weights,
    from_esnfed,
    graph_metrics,
    known_series,
    noiseless,
    predict_with_feedback,
    with_feedback,
)

nodes = pytest.importorskip("reservoirpy.nodes")
U = np.random.default_rng(0).normal(size=(40, 2))


def built(features: FeatureMap, per_step: bool = True) -> FeatureMap:
    return features.build(2, per_step=per_step)


def test_states_at_the_edge_of_stability_are_those_of_reservoirpy() -> None:
    ours = built(DenseReservoir(30, proximity=0.3, weights="normal", seed=3))
    assert isinstance(ours, DenseReservoir)
    W, W_in, bias, O = ours.matrices
    theirs = nodes.ES2N(units=30, proximity=0.3, W=W, Win=W_in, bias=bias, O=O)
    assert np.abs(ours.rows([U])[0] - theirs.run(U)).max() < 1e-12
    assert np.allclose(O @ O.T, np.eye(30))
    assert np.abs(ours.rows([U])[0]).max() <= ours.bounds.max()


def test_spikes_are_those_of_reservoirpy() -> None:
    ours = built(SpikingReservoir(40, leak_rate=0.25, trace=1.0, input_scaling=1.0, bits=None))
    assert isinstance(ours, SpikingReservoir)
    u = np.rint(U[:10] * 1024) / 1024  # ten steps of exact potentials
    W, W_in = ours.matrices
    theirs = nodes.LIF(units=40, lr=0.25, threshold=1.0, W=W, Win=W_in).run(u)
    assert theirs.sum() > 10
    assert np.array_equal(ours.rows([u])[0], theirs)


def test_rates_are_means_of_spikes_and_traces_follow_them() -> None:
    rates = built(SpikingReservoir(40, bits=None, pool="mean", washout=5), per_step=False)
    spikes = built(SpikingReservoir(40, bits=None, trace=1.0, washout=5))
    assert np.allclose(rates.rows([U])[0][0], spikes.rows([U])[0].mean(0), atol=1e-12)
    slow = built(SpikingReservoir(40, bits=None, trace=0.25)).rows([U])[0]
    fast, r = built(SpikingReservoir(40, bits=None, trace=1.0)).rows([U])[0], np.zeros(40)
    for s, x in zip(fast, slow, strict=True):
        r = 0.75 * r + 0.25 * s if r.any() or x.any() else x
        assert np.allclose(x, r, atol=1e-6)


@pytest.mark.parametrize("make", [DenseReservoir, SpikingReservoir])
def test_recordings_of_other_lengths_beside_it_change_nothing(
    make: Callable[..., FeatureMap],
) -> None:
    features = built(make(20), per_step=False)
    alone = features.rows([U])[0]
    assert np.allclose(features.rows([U[:9], U, U[:9] + 1, U])[3], alone, atol=1e-12)


@pytest.mark.parametrize("make", [DenseReservoir, SpikingReservoir])
def test_a_federation_learns_and_its_model_is_loaded_again(
    make: Callable[..., FeatureMap], tmp_path: Path
) -> None:
    train, test = ct.split(synthetic_wearables(8, seed=0), test=0.25, seed=0)
    run = ct.federate(make(60, seed=1), train)
    score = ct.evaluate(run.model, test).total
    assert score is not None
    assert score.value > 0.25, "a sixth is chance"
    run.model.save(tmp_path / "model")
    again = ct.load(tmp_path / "model", use=[make])
    u = next(iter(test.values()))[0].u
    assert again.predict([u]) == run.model.predict([u])


def test_going_on_with_a_recording_is_the_recording_at_once() -> None:
    features = built(DenseReservoir(25, leak_rate=0.4, proximity=0.5, washout=7))
    first, carried = features.go_on(U[:5], 0, ())
    second, _ = features.go_on(U[5:], 5, carried)
    assert np.allclose(np.vstack([first, second]), features.rows([U])[0], atol=1e-12)


def test_weights_in_clusters_have_most_connections_within() -> None:
    ours = built(DenseReservoir(80, weights="clusters", clusters=4, connectivity=0.4))
    assert isinstance(ours, DenseReservoir)
    W = ours.matrices[0]
    assert np.abs(np.linalg.eigvals(W)).max() == pytest.approx(0.9)
    block = np.arange(80) // 20
    within = block[:, None] == block
    assert np.mean(W[within] != 0) == pytest.approx(0.4, abs=0.05)
    assert np.mean(W[~within] != 0) == pytest.approx(0.04, abs=0.015)


def test_any_function_is_an_activation_once_it_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no activation is called 'cubic'"):
        DenseReservoir(activation="cubic")
    monkeypatch.setitem(ACTIVATIONS, "cubic", lambda v: v - v**3 / 9)
    ours = built(DenseReservoir(10, activation="cubic"))
    assert isinstance(ours, DenseReservoir)
    W, W_in, bias, _ = ours.matrices
    x = np.zeros(10)
    for u in U[:3]:
        v = W @ x + W_in @ u + bias
        x = v - v**3 / 9
    assert np.allclose(ours.rows([U[:3]])[0][-1], x)
    assert np.isinf(ours.bounds).all()


def test_noise_is_in_training_only_and_is_the_same_twice() -> None:
    quiet = DenseReservoir(30, washout=20)
    u = np.sin(np.arange(400) / 5)
    one = ct.fit(Pipeline(RAW, replace(quiet, noise=0.01)), [Recording(u[:-1], u[1:])])
    two = ct.fit(Pipeline(RAW, replace(quiet, noise=0.01)), [Recording(u[:-1], u[1:])])
    assert np.array_equal(one.readout.weights, two.readout.weights)
    still = noiseless(one)
    states = quiet.build(1, per_step=True).rows([u])[0]
    assert np.allclose(still.predict(u), one.readout(states))
    noise = np.std(one.features.rows([u])[0] - states, axis=0)
    assert 0.009 < np.median(noise) < 0.03
    with pytest.raises(TypeError, match="which has no noise"):
        noiseless(ct.fit(ct.EchoState(10), [Recording(u[:-1], u[1:])]))


def test_outputs_fed_back_carry_what_inputs_do_not() -> None:
    """A switch: rare pulses set the output, which stays there until the next one."""
    rng = np.random.default_rng(1)
    u = np.where(rng.uniform(size=1500) < 0.03, rng.choice([-1.0, 1.0], 1500), 0.0)
    u[0], y = 1.0, np.empty((1500, 1))
    for t in range(1500):
        y[t] = u[t] if u[t] else y[t - 1]
    recording = Recording(u[:1000], y[:1000])
    features = DenseReservoir(80, spectral_radius=0.3, washout=20, noise=0.01)
    fed = noiseless(ct.fit(Pipeline(RAW, features), with_feedback([recording])))
    alone = noiseless(ct.fit(Pipeline(RAW, features), [recording]))
    told = predict_with_feedback(fed, u, given=y[:20])
    assert np.array_equal(told[:20], y[:20])
    right = [np.mean(np.sign(said[-500:]) == y[-500:]) for said in (told, alone.predict(u))]
    assert right[0] > right[1] + 0.1, right
    (forced,) = with_feedback([Recording(u, y)])
    one_step = predict_with_feedback(fed, u[:22], given=y[:21])[21]
    assert np.allclose(one_step, fed.predict(forced.u)[1], atol=1e-9)
    with pytest.raises(ValueError, match="changes its inputs"):
        predict_with_feedback(ct.fit(features, with_feedback([recording])), u)
    with pytest.raises(ValueError, match="recording 0 has no target"):
        with_feedback([Recording(u)])


@pytest.mark.parametrize("rule", ["hebbian", "anti-hebbian", "oja", "anti-oja"])
def test_local_rules_are_those_of_a_plain_loop(rule: str) -> None:
    reservoir = Reservoir(units=15, inputs=2, leak_rate=0.6, seed=2)
    after = adapt_weights(reservoir, [Recording(U[:12])] * 2, rule=rule, rate=0.01)  # type: ignore[arg-type]
    (layer,) = reservoir.layers
    W, W_in = layer.W.to_dense(), layer.W_in.to_dense()
    sign = -1 if "anti" in rule else 1
    for _ in range(2):
        x = np.zeros(15)
        for u in U[:12]:
            y = 0.4 * x + 0.6 * np.tanh(W @ x + W_in @ u + layer.bias)
            for i, j in zip(*np.nonzero(W), strict=True):
                less = y[i] * W[i, j] if "oja" in rule else 0.0
                W[i, j] += sign * 0.01 * y[i] * (x[j] - less)
            x = y
    assert np.abs(after.layers[0].W.to_dense() - W).max() < 1e-12
    with pytest.raises(ValueError, match="grew without bound"), np.errstate(all="ignore"):
        adapt_weights(reservoir, [Recording(U)] * 50, rule="anti-oja", rate=50.0)


def test_graph_metrics_of_known_graphs() -> None:
    whole = graph_metrics(np.ones((5, 5)))
    assert (whole["density"], whole["clustering"], whole["path length"]) == (1, 1, 1)
    star = np.zeros((5, 5))
    star[0, 1:] = 1
    found = graph_metrics(star)
    assert (found["mean degree"], found["largest degree"], found["clustering"]) == (1.6, 4, 0)
    assert found["path length"] == pytest.approx((4 * 1 + 6 * 2) / 10)
    assert np.isinf(graph_metrics(np.eye(3))["path length"])
    drawn = graph_metrics(Reservoir(units=100, density=0.06))
    small = graph_metrics(Reservoir(units=100, topology="small_world", connections=6, seed=0))
    assert small["clustering"] > 3 * drawn["clustering"]
    with pytest.raises(ValueError, match="square matrix"):
        graph_metrics(np.ones((2, 3)))


def test_a_network_of_esnfed_has_the_same_states() -> None:
    esn = pytest.importorskip("esnfed.esn")
    rng = np.random.default_rng(0)
    theirs = esn.EchoStateNetwork(
        2, 1, rng.normal(size=(20, 20)), leaking_rate=rng.uniform(0.2, 1, 20), washout=0, bias=0.7
    )
    ours = from_esnfed(theirs)
    assert np.abs(ours.states(U) - theirs.harvest(U)[:, 3:]).max() < 1e-12


def test_a_network_of_esnfed_is_read_by_its_attributes() -> None:
    rng = np.random.default_rng(0)
    W, W_in, leak = rng.normal(size=(9, 9)), rng.normal(size=(9, 3)), rng.uniform(0.2, 1, 9)
    names = np.array(["tanh", "sin", "relu"] * 3)
    theirs = SimpleNamespace(W=W, W_in=W_in, bias=0.7, leaking_rate=leak, activation=names)
    ours, x = from_esnfed(theirs).states(U[:6]), np.zeros(9)
    for u, found in zip(U, ours, strict=False):
        v = W_in @ [0.7, *u] + W @ x
        after = np.choose(np.arange(9) % 3, [np.tanh(v), np.sin(v), np.maximum(v, 0)])
        x = (1 - leak) * x + leak * after
        assert np.abs(found - x).max() < 1e-9 * max(1, np.abs(x).max())
    theirs.activation = np.tanh
    with pytest.raises(ValueError, match="cannot be taken over; use DenseReservoir"):
        from_esnfed(theirs)


def test_sunspots_are_in_the_package_and_a_reservoir_beats_the_last_value() -> None:
    series = known_series("sunspots", 309)
    assert series.shape == (309, 1)
    u: Array = (series - series.mean()) / series.std()
    model = ct.fit(
        Pipeline(RAW, DenseReservoir(60, leak_rate=0.5, washout=20)), [Recording(u[:219], u[1:220])]
    )
    said = model.predict(u[:-1])[-89:]
    assert np.mean((said - u[220:]) ** 2) < np.mean((u[219:-1] - u[220:]) ** 2)
