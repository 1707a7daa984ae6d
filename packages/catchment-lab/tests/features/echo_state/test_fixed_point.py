"""Reservoirs in fixed point: the same bits on every path, as the definition says."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import catchment as ct
from catchment import Array, EchoState, Reservoir
from catchment.errors import ClippingWarning, FingerprintError, IntegrityError
from catchment.features.echo_state import LogUniform, MixedActivation, Program, advance
from catchment_lab import echo_state_check
from catchment_research.learn import side_by_side
from tests.features.echo_state import oracle as floats
from tests.features.echo_state import whole_oracle as oracle

MIXED = MixedActivation(tanh=0.4, sigmoid=0.2, sin=0.2, relu=0.1, identity=0.1)


def deep(bits: int, **settings: object) -> Reservoir:
    recipe = Reservoir(
        units=(12, 8),
        inputs=2,
        activation=(MIXED, "tanh"),
        leak_rate=(LogUniform(0.05, 1.0), 0.5),
        gain=1.1,
        shift=0.05,
        seed=3,
        bits=bits,
    )
    return replace(recipe, **settings)  # type: ignore[arg-type]


def drawn(T: int, n_inputs: int = 2, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(T, n_inputs))


@pytest.mark.parametrize("bits", [8, 15, 20, 24])
def test_a_deep_mixed_reservoir_is_the_definition_in_whole_numbers(bits: int) -> None:
    reservoir, u = deep(bits), drawn(25)
    u[3], u[9] = (7.5, -9.0), (0.0, 400.0)  # beyond the range too
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClippingWarning)
        found = reservoir.states(u)
    np.testing.assert_array_equal(found, oracle.as_floats(oracle.whole_states(reservoir, u)))


@pytest.mark.parametrize("size", [5.0, 300.0, 3e5])
def test_large_weights_have_fewer_digits_and_are_exact_all_the_same(size: int) -> None:
    rng = np.random.default_rng(0)
    W, W_in = size * rng.normal(size=(7, 7)), size * rng.normal(size=(7, 1))
    names = ["tanh", "sigmoid", "relu", "sin", "identity", "tanh", "tanh"]
    reservoir = Reservoir.from_matrices(
        W, W_in, leak_rate=0.4, activation=names, bits=24, cut=(0, 0)
    )
    u = drawn(12, 1)
    expected = oracle.as_floats(oracle.whole_states(reservoir, u))
    np.testing.assert_array_equal(reservoir.states(u), expected)


def test_fifteen_bits_make_weights_and_states_of_sixteen_bit_words() -> None:
    reservoir = Reservoir(units=40, inputs=2, bits=15, spectral_radius=2.0)
    (program,) = reservoir.programs()
    for whole in (
        np.ldexp(program.values, program.weight_digits),
        np.ldexp(reservoir.states(drawn(200)), 15),
    ):
        np.testing.assert_array_equal(whole.astype(np.int16), whole)


def states_by(program: Program, u: Array, n_lanes: int, block_columns: int) -> Array:
    """Return the states of the last lane of several; the others have other inputs."""
    N = program.n_units
    lanes = [drawn(len(u), u.shape[1], seed=k + 5) for k in range(n_lanes - 1)]
    lanes = [on_twenty_digits(lane) for lane in lanes]
    parts = [
        block.rows[-N:, :, n_lanes - 1].T.copy()
        for block in advance([program], [*lanes, u], block_columns=block_columns)
    ]
    return np.concatenate(parts)


def on_twenty_digits(u: Array) -> Array:
    return np.ldexp(np.rint(np.ldexp(u, 20)), -20)


@pytest.mark.parametrize("mixed", [False, True])
def test_lanes_blocks_and_kernels_do_not_show(mixed: bool) -> None:
    rng = np.random.default_rng(2)
    W = 0.05 * rng.normal(size=(310, 310)) * (rng.random((310, 310)) < 0.3)
    names = [("tanh", "sin", "sigmoid")[k % 3] for k in range(310)] if mixed else "tanh"
    reservoir = Reservoir.from_matrices(
        W, rng.normal(size=(310, 2)), leak_rate=0.3, activation=names, bits=20, cut=(0, 0)
    )
    (dense,) = reservoir.programs()
    assert dense.by_matrix
    sparse = replace(dense, dense=None)
    u = on_twenty_digits(drawn(30))
    expected = states_by(sparse, u, 1, 512).tobytes()
    for program, n_lanes, columns in (
        (dense, 1, 512),  # dense rows
        (dense, 8, 512),  # matrix product
        (dense, 20, 70),
        (sparse, 1, 7),
        (sparse, 8, 512),  # lockstep
        (sparse, 16, 48),
        (sparse, 33, 512),
    ):
        assert states_by(program, u, n_lanes, columns).tobytes() == expected, (n_lanes, columns)


def cut_reservoir(cut: tuple[int, int], bits: int = 16) -> Reservoir:
    rng = np.random.default_rng(1)
    return Reservoir.from_matrices(
        0.4 * rng.normal(size=(5, 5)),
        rng.normal(size=(5, 2)),
        leak_rate=[0.1, 0.3, 1.0, 0.5, 0.02],
        activation=["tanh", "sin", "sigmoid", "relu", "identity"],
        bits=bits,
        cut=cut,
    )


@pytest.mark.parametrize("cut", [(0, 0), (20, 5), (20, 20), (7, 3)])
@pytest.mark.parametrize("T", [1, 19, 20, 21, 95])
def test_the_cut_is_the_plain_loop_over_parts(cut: tuple[int, int], T: int) -> None:
    reservoir, u = cut_reservoir(cut), drawn(T)
    expected = oracle.as_floats(oracle.whole_states(reservoir, u))
    np.testing.assert_array_equal(reservoir.states(u), expected)
    uncut = oracle.as_floats(oracle.whole_states(reservoir, u, cut=False))
    np.testing.assert_array_equal(reservoir.states(u, np.zeros(5)), uncut)


@pytest.mark.parametrize("washout", [0, 3, 45])
def test_features_see_the_same_states_alone_together_and_on_any_threads(washout: int) -> None:
    reservoir = cut_reservoir((20, 5))
    features = EchoState.of(reservoir, bias=True, washout=washout, feature_bits=9)
    us = [drawn(T, seed=T) for T in (50, 61, 70, 46, 130, 47, 48, 90, 51, 64, 200)]
    alone = [features(u) for u in us]
    for threads in (1, 2, 4):
        for one, other in zip(alone, features.rows(us, threads=threads), strict=True):
            assert one.tobytes() == other.tobytes()
    for u, z in zip(us, alone, strict=True):
        x = np.hstack([np.ones((len(u), 1)), reservoir.checked(u), reservoir.states(u)])[washout:]
        bounds = np.array([1.0, 8, 8, 1, 1, 1, 8, 8])
        np.testing.assert_array_equal(features.bounds, bounds)
        step = bounds / 2**9
        np.testing.assert_array_equal(z, np.rint(x / step) * step)
        np.testing.assert_array_equal(z / step, np.rint(z / step))


def test_rounding_a_block_leaves_the_states_that_go_on() -> None:
    reservoir = cut_reservoir((0, 0))
    features = EchoState.of(reservoir, feature_bits=4)
    (u,) = features.checked_all([drawn(3000)])
    (batch,) = features.batches([u])
    found = [block.rows[2:, :, 0].T.copy() for block in features.blocks(batch, spare_rows=1)]
    assert len(found) > 1
    plain = [b.rows[2:, :, 0].T.copy() for b in features.blocks(batch, rounded=False)]
    np.testing.assert_array_equal(np.concatenate(plain), reservoir.states(u))
    step = reservoir.state_bounds / 2**4
    rounded = np.rint(np.concatenate(plain) / step) * step
    np.testing.assert_array_equal(np.concatenate(found)[:, :5], rounded)


def test_no_zero_has_a_sign() -> None:
    features = EchoState.of(cut_reservoir((20, 5)), feature_bits=4)
    for z in (features(1e-3 * drawn(60)), EchoState.of(cut_reservoir((20, 5)))(-1e-9 * drawn(9))):
        assert (z == 0).any()
        assert not np.signbit(z[z == 0]).any()


def test_more_bits_come_closer_to_float64() -> None:
    u = 0.5 * drawn(300)
    plain = Reservoir(units=50, inputs=2, seed=1).states(u)
    errors = []
    for bits in (10, 15, 20, 24):
        in_fixed_point = Reservoir(units=50, inputs=2, seed=1, bits=bits).states(u)
        errors.append(np.abs(in_fixed_point - plain).max() * 2**bits)
    assert max(errors) < 40  # steps of the grid


def test_clipped_inputs_are_counted_over_the_whole_call() -> None:
    reservoir = deep(20, range=4.0)
    few, many = np.zeros((2000, 2)), np.zeros((40, 2))
    few[5, 0] = many[3, 1] = 5.0
    reservoir.run([few] + 9 * [np.zeros((100, 2))])
    with pytest.warns(ClippingWarning, match="1.25% of the input values lie beyond 4"):
        x = reservoir.states(many)
    many[3, 1] = 4.0
    np.testing.assert_array_equal(x, reservoir.states(many))


def test_recipes_in_fixed_point_travel_and_old_ones_stay_as_they_were() -> None:
    old = Reservoir(units=20, inputs=2).prepared()
    assert "grid" not in old.to_json()
    assert "range" not in old.to_json()
    recipe = Reservoir(units=20, inputs=2, bits=20)
    assert Reservoir.from_json(recipe.to_json()) == recipe
    prepared = recipe.prepared()
    assert prepared.scale == old.scale
    assert prepared.cut[0] >= 1536
    assert Reservoir.from_json(prepared.to_json()) == prepared
    others = [old, prepared, recipe_of(15), recipe_of(20, range=4.0)]
    assert len({other.fingerprint for other in others}) == 4
    with pytest.raises(FingerprintError, match="its weights have"):
        replace(prepared, known_cut=(4096, 64)).layers  # noqa: B018


def recipe_of(bits: int, **settings: float) -> Reservoir:
    return Reservoir(units=20, inputs=2, bits=bits, **settings).prepared()  # type: ignore[arg-type]


def test_maps_in_fixed_point_are_kept_and_rebuilt() -> None:
    reservoir = deep(20)
    adapted = reservoir.with_plasticity(np.full(20, 0.9), np.full(20, 0.1))
    u = drawn(2000)
    for one in (reservoir, adapted, cut_reservoir((100, 30))):
        features = EchoState.of(one, feature_bits=12, washout=2)
        kept = features.parts()
        again = EchoState.from_message(kept)
        assert again.fingerprint == features.fingerprint
        assert (again.reservoir.cut, again.feature_bits) == (one.cut, 12)
        assert again(u).tobytes() == features(u).tobytes()
    other = replace(kept, facts=dict(kept.facts) | {"cut": [100, 31]})
    with pytest.raises(IntegrityError, match="fingerprint"):
        EchoState.from_message(other)


def test_a_reservoir_that_never_forgets_is_never_cut() -> None:
    slow = Reservoir.from_matrices([[1.0]], [[1.0]], activation="identity", bits=20)
    assert slow.cut == (0, 0)
    quick = Reservoir.from_matrices([[0.5]], [[1.0]], bits=20)
    assert quick.cut == (1536, 64)


def test_reservoirs_side_by_side_share_their_bits() -> None:
    members = [Reservoir(units=n, inputs=2, bits=20, seed=n) for n in (5, 8)]
    joint, u = side_by_side(members), drawn(40)
    apart = np.hstack([member.states(u) for member in members])
    assert joint.bits == 20
    np.testing.assert_allclose(joint.states(u), apart, rtol=0, atol=8 / 2**20)
    plain = Reservoir(units=5, inputs=2)
    with pytest.raises(ValueError, match="different pairs of bits"):
        side_by_side([members[0], plain])


def test_opposite_starts_come_together_within_some_steps_of_fixed_point() -> None:
    reservoir = Reservoir(units=50, bits=20)
    report = echo_state_check(reservoir)
    assert report.converged
    assert report.tolerance == 8 / 2**20


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bits": 7}, "give an integer, 8 or more, at most 24"),
        ({"bits": 25}, "give an integer, 8 or more, at most 24"),
        ({"bits": 20, "range": 3.0}, "power of two"),
        ({"range": 4.0}, "in float64"),
        ({"bits": 20, "known_cut": (100, 10)}, "cut, scale and fingerprint together"),
    ],
)
def test_wrong_bits_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Reservoir(units=5, **settings)  # type: ignore[arg-type]


def test_bits_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match="use one or the other"):
        EchoState(5, bits=20, precision="float32")
    with pytest.raises(ValueError, match="use one or the other"):
        EchoState.of(deep(20), precision="float32")
    with pytest.raises(ValueError, match="bits is None"):
        EchoState(5, bits=None, feature_bits=8)
    with pytest.raises(ValueError, match="bits is None"):
        EchoState.of(floats.random_reservoir(), feature_bits=8)
    with pytest.raises(
        ValueError, match="feature_bits is 3; give an integer, 4 or more, at most 24"
    ):
        EchoState.of(deep(20), feature_bits=3)
    with pytest.raises(ValueError, match="float32 does not hold"):
        deep(20).programs(np.float32)
    with pytest.raises(ValueError, match="x0 reaches 9"):
        deep(20).states(drawn(3), np.full(20, 9.0))


def test_a_description_says_both_bits() -> None:
    described = EchoState(10, bits=18, feature_bits=8, range=4.0)
    built = described.build(2, per_step=True, classes=True)
    assert (built.reservoir.bits, built.feature_bits, built.reservoir.range) == (18, 8, 4.0)
    assert described.describes(built.parts(), 2, per_step=True, classes=True)
    assert not EchoState(10, bits=18, feature_bits=9, range=4.0).describes(
        built.parts(), 2, per_step=True
    )
    assert not EchoState(10, bits=19, feature_bits=8, range=4.0).describes(
        built.parts(), 2, per_step=True
    )
    single = EchoState(10, precision="float32").build(2, per_step=True, classes=True)
    assert single.reservoir.bits is None


def test_auto_follows_the_table() -> None:
    for classes, expected in ((True, (20, 8, 8.0)), (False, (24, 24, 64.0))):
        built = EchoState(10).build(2, per_step=True, classes=classes)
        assert (built.reservoir.bits, built.feature_bits, built.reservoir.range) == expected
    assert EchoState(10, bits=16).build(2, per_step=True).bits == 16
    assert EchoState(10, bits=None).build(2, per_step=True).bits is None
    assert ct.EchoState(10, precision="float32").build(2, per_step=True).bits is None
