"""Ring arithmetic against Python's own integers, and the promise of the compact ring."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.privacy.secure_aggregation import (
    Residues,
    Ring,
    add_into,
    decode,
    encode,
    negate,
    readout_error,
    subtract_from,
)

WIDE, COMPACT = Ring(), Ring(64, 40)
rings = st.sampled_from([WIDE, COMPACT])


def residues(numbers: list[int], ring: Ring) -> Residues:
    rows = [[n >> 64 * limb & (2**64 - 1) for n in numbers] for limb in range(ring.limbs)]
    return np.array(rows, dtype=np.uint64).reshape(ring.limbs, len(numbers))


def integers(x: Residues) -> list[int]:
    return [sum(int(limb) << 64 * k for k, limb in enumerate(column)) for column in x.T]


def signed(n: int, ring: Ring) -> int:
    return n - 2**ring.bits if n >> (ring.bits - 1) else n


# Half of the draws near a power of two or a carry, where rounding and carries are decided.
wide = st.one_of(
    st.integers(0, 2**128 - 1),
    st.builds(
        lambda power, off: ((1 << power) + off) % 2**128, st.integers(0, 127), st.integers(-3, 3)
    ),
    st.builds(
        lambda top, shift, off: ((top << shift) + (1 << shift >> 1) + off) % 2**128,
        st.integers(2**52, 2**53),
        st.integers(0, 75),
        st.integers(-1, 1),
    ),
)


@settings(max_examples=200)
@given(ring=rings, a=st.lists(wide, min_size=1, max_size=8), b=wide)
def test_sums_differences_and_signs_are_those_of_integers(ring: Ring, a: list[int], b: int) -> None:
    modulus = 2**ring.bits
    a, others = [n % modulus for n in a], [(b + k) % modulus for k in range(len(a))]
    total = residues(a, ring)
    add_into(total, residues(others, ring))
    assert integers(total) == [(x + y) % modulus for x, y in zip(a, others, strict=True)]
    subtract_from(total, residues(a, ring))
    assert integers(total) == others
    negate(total, np.ones(len(a), dtype=np.bool_))
    assert integers(total) == [-y % modulus for y in others]


@settings(max_examples=500)
@given(ring=rings, numbers=st.lists(wide, min_size=1, max_size=20))
def test_decoding_rounds_to_the_nearest_float(ring: Ring, numbers: list[int]) -> None:
    numbers = [n % 2**ring.bits for n in numbers]
    # Division of integers is correctly rounded in Python.
    expected = [signed(n, ring) / 2**ring.fraction for n in numbers]
    np.testing.assert_array_equal(decode(residues(numbers, ring), ring), expected)


def test_a_vector_of_every_size_decodes() -> None:
    x = np.concatenate([[0.0], np.ldexp(1.0, np.arange(-80, 46)), -np.ldexp(1.5, np.arange(40))])
    np.testing.assert_array_equal(decode(encode(x, WIDE), WIDE), x)
    assert decode(encode(np.zeros(0), WIDE), WIDE).shape == (0,)


def test_sums_are_correctly_rounded_in_any_order() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 400)) * 10.0 ** rng.integers(-4, 8, (50, 400))
    expected = [math.fsum(column) for column in x.T]
    for order in (np.arange(50), rng.permutation(50)):
        total = np.zeros((2, 400), dtype=np.uint64)
        for k in order:
            add_into(total, encode(x[k], WIDE, n_clients=50))
        np.testing.assert_array_equal(decode(total, WIDE), expected)
    assert (x.sum(axis=0) != expected).any()


def test_the_sum_of_the_largest_numbers_does_not_wrap() -> None:
    for n in (1, 2, 3, 10, 1000):
        for ring in (WIDE, Ring.compact(1e6)):
            largest = np.array([np.nextafter(ring.limit(n), 0.0)])
            total = np.zeros((ring.limbs, 1), dtype=np.uint64)
            for _ in range(n):
                add_into(total, encode(-largest, ring, n_clients=n))
            assert decode(total, ring)[0] == pytest.approx(-n * largest[0], rel=1e-12)
            with pytest.raises(ValueError, match="below"):
                encode(np.array([ring.limit(n)]), ring, n_clients=n)


@pytest.mark.parametrize("bound", [1e-3, 1.0, 1000.0, 2.0**40])
def test_the_compact_ring_holds_its_bound(bound: float) -> None:
    ring = Ring.compact(bound)
    x = np.array([bound, -bound, bound / 3])
    assert ring.bits == 64
    assert np.abs(decode(encode(x, ring), ring) - x).max() <= 2.0 ** -(ring.fraction + 1)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan, 2.0**63])
def test_a_bound_that_is_none_is_refused(bound: float) -> None:
    with pytest.raises(ValueError, match="bound"):
        Ring.compact(bound)


@pytest.mark.parametrize(("bits", "fraction"), [(32, 10), (64, 63), (128, -1)])
def test_impossible_rings_are_refused(bits: int, fraction: int) -> None:
    with pytest.raises(ValueError, match="ring"):
        Ring(bits, fraction)


@pytest.mark.parametrize("fraction", [24, 32, 40, 48])
@pytest.mark.parametrize("ridge", [1e-1, 1e-4])
def test_rounding_moves_the_readout_by_less_than_the_bound(fraction: int, ridge: float) -> None:
    rng = np.random.default_rng(fraction)
    n_clients, F, K, ring = 20, 30, 2, Ring(64, fraction)
    z = rng.normal(size=(400, F)) @ np.diag(np.logspace(0, -3, F))
    y = z @ rng.normal(size=(F, K)) + rng.normal(size=(400, K))
    G, C, moved_G, moved_C = (np.zeros(shape) for shape in ((F, F), (F, K), (F, F), (F, K)))
    for part in np.split(np.arange(400), n_clients):
        g, c = z[part].T @ z[part], z[part].T @ y[part]
        G += g
        C += c
        moved_G += decode(encode(g.ravel(), ring), ring).reshape(F, F)
        moved_C += decode(encode(c.ravel(), ring), ring).reshape(F, K)
    W = scipy.linalg.solve(G + ridge * np.eye(F), C)
    moved = scipy.linalg.solve(moved_G + ridge * np.eye(F), moved_C)
    bound = readout_error(
        ring,
        n_clients=n_clients,
        n_features=F,
        n_targets=K,
        smallest_eigenvalue=float(np.linalg.eigvalsh(G)[0]) + ridge,
        weights_norm=float(np.linalg.norm(W, 2)),
    )
    solving = 1e-9 * np.linalg.norm(W)  # what float64 does to W by itself
    assert np.linalg.norm(moved - W) <= bound + solving
    assert bound > 0
