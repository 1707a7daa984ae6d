from __future__ import annotations

from inspect import getmodule

import numpy as np
import pytest

from catchment.features import Reservoir
from catchment.features.echo_state import plan_batches, segment_starts
from tests.features.echo_state import oracle


def deep(seed: int = 0) -> Reservoir:
    rng = np.random.default_rng(seed)
    return Reservoir.of_layers(
        (oracle.random_layer(rng, 10, 2), oracle.random_layer(rng, 7, 10, plastic=True))
    )


def test_states_agree_with_numpy_from_any_start() -> None:
    reservoir = deep()
    (u,) = oracle.sequences([60])
    np.testing.assert_allclose(reservoir.states(u), oracle.states(reservoir, u), rtol=0, atol=1e-12)
    x0 = np.linspace(-1, 1, 17)
    np.testing.assert_allclose(
        reservoir.states(u, x0), oracle.states(reservoir, u, x0), rtol=0, atol=1e-12
    )


def test_a_sequence_in_two_pieces_equals_the_whole() -> None:
    reservoir = deep()
    (u,) = oracle.sequences([60])
    whole = reservoir.states(u)
    pieces = [reservoir.states(u[:23])]
    pieces.append(reservoir.states(u[23:], pieces[0][-1]))
    np.testing.assert_allclose(np.vstack(pieces), whole, rtol=0, atol=1e-14)


def test_no_memory_between_calls() -> None:
    reservoir = deep()
    (u,) = oracle.sequences([30])
    np.testing.assert_array_equal(reservoir.states(u), reservoir.states(u))


@pytest.mark.parametrize("lengths", [[5], [1, 1], [7, 300, 40], [20] * 9, list(range(1, 50))])
def test_many_sequences_are_each_run_from_zero(lengths: list[int]) -> None:
    reservoir = deep()
    us = oracle.sequences(lengths)
    for u, x in zip(us, reservoir.run(us), strict=True):
        np.testing.assert_allclose(x, oracle.states(reservoir, u), rtol=0, atol=1e-12)


def test_a_long_sequence_is_exact_although_cut() -> None:
    reservoir = oracle.random_reservoir(n_units=30, n_inputs=1)
    (u,) = oracle.sequences([15_000], n_inputs=1)
    starts, warmup = segment_starts(reservoir.programs(), u, 0)
    assert len(starts) > 1
    assert warmup > 0
    np.testing.assert_allclose(reservoir.states(u), oracle.states(reservoir, u), rtol=0, atol=1e-12)


@pytest.mark.parametrize("radius", [0.9, 1.3])
def test_segments_that_do_not_join_are_run_again_in_one_piece(
    radius: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    reservoir = oracle.random_reservoir(n_units=30, n_inputs=1, radius=radius)
    (u,) = oracle.sequences([4_000], n_inputs=1)
    cut = [500 * k for k in range(8)]
    monkeypatch.setattr(
        getmodule(plan_batches), "segment_starts", lambda programs, u, washout: (cut, 20)
    )
    (planned,) = plan_batches(reservoir.programs(), [u], washout=0, may_segment=True)
    assert planned.joined
    # Beyond a radius of one rounding grows, so the start is what can be compared.
    steps = 4_000 if radius < 1 else 200
    np.testing.assert_allclose(
        reservoir.states(u)[:steps], oracle.states(reservoir, u)[:steps], rtol=0, atol=1e-11
    )
    np.testing.assert_array_equal(reservoir.states(u), reservoir.states(u, np.zeros(30)))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_states_do_not_depend_on_threads(threads: int) -> None:
    reservoir = deep()
    us = oracle.sequences([10 + k for k in range(50)])
    for a, b in zip(reservoir.run(us, threads=1), reservoir.run(us, threads=threads), strict=True):
        np.testing.assert_array_equal(a, b)


def test_matrices_become_one_layer() -> None:
    W, W_in = np.array([[0.0, 0.5], [-0.5, 0.0]]), np.array([[1.0], [0.5]])
    reservoir = Reservoir.from_matrices(
        W, W_in, bias=[0.1, 0.2], leak_rate=[0.5, 1.0], activation=["tanh", "relu"]
    )
    x1 = np.array([0.5 * np.tanh(1.1), 0.7])
    x2 = np.array([0.5 * x1[0] + 0.5 * np.tanh(2 + 0.5 * x1[1] + 0.1), 1 - 0.5 * x1[0] + 0.2])
    np.testing.assert_allclose(reservoir.states([1.0, 2.0]), np.array([x1, x2]), rtol=1e-14)
    assert (reservoir.n_units, reservoir.n_inputs) == (2, 1)


def test_plasticity_is_put_into_every_layer() -> None:
    plain = deep()
    rng = np.random.default_rng(0)
    gain, shift = rng.uniform(0.5, 1.5, 17), rng.uniform(-0.1, 0.1, 17)
    reservoir = plain.with_plasticity(gain, shift)
    (u,) = oracle.sequences([25])
    np.testing.assert_allclose(reservoir.states(u), oracle.states(reservoir, u), rtol=0, atol=1e-12)
    assert reservoir.fingerprint != plain.fingerprint
    with pytest.raises(ValueError, match=r"must both have shape \(17,\)"):
        plain.with_plasticity(gain[:-1], shift)


def test_a_recipe_gives_its_reservoir() -> None:
    reservoir = Reservoir(units=20, inputs=2, seed=3)
    (u,) = oracle.sequences([20])
    np.testing.assert_allclose(reservoir.states(u), oracle.states(reservoir, u), rtol=0, atol=1e-12)
    assert reservoir.fingerprint == reservoir.prepared().known_fingerprint


def test_wrong_arguments_say_what_to_do() -> None:
    W, W_in = np.eye(2), np.ones((2, 1))
    with pytest.raises(ValueError, match="activation 'softmax' is unknown; use one of tanh"):
        Reservoir.from_matrices(W, W_in, activation="softmax")
    for leak in (0.0, 1.5, -0.1):
        with pytest.raises(ValueError, match="leak rates must be above 0 and at most 1"):
            Reservoir.from_matrices(W, W_in, leak_rate=leak)
    with pytest.raises(ValueError, match="W is not finite at row 1"):
        Reservoir.from_matrices([[0.0, 0.0], [np.inf, 0.0]], W_in)
    with pytest.raises(ValueError, match="W must be square"):
        Reservoir.from_matrices(np.ones((2, 3)), W_in)
    with pytest.raises(ValueError, match="at least one layer"):
        Reservoir.of_layers(())
    layers = deep().layers
    with pytest.raises(ValueError, match="2 inputs stands on one of 7 units"):
        Reservoir.of_layers((layers[1], layers[0]))
    reservoir = Reservoir.from_matrices(W, W_in)
    with pytest.raises(ValueError, match="2 columns, the reservoir was built for 1"):
        reservoir.states(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="no steps; leave empty sequences out"):
        reservoir.run([np.zeros((0, 1))])
    with pytest.raises(ValueError, match="inputs is not finite at row 1"):
        reservoir.states([0.0, np.nan])
    with pytest.raises(ValueError, match=r"x0 has shape \(3,\), expected \(2,\)"):
        reservoir.states([0.0], np.zeros(3))
