"""Draws against Philox in plain integers, exact fractions and the statistics of scipy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from catchment.features.echo_state import (
    Purpose,
    Words,
    distinct,
    integers,
    log_uniform,
    orthogonal,
    permutation,
    signs,
    uniform,
)

MASK = 2**64 - 1

# Philox4x64-10 in the test vectors published with Random123: counter, key, output.
KNOWN_ANSWERS = [
    (
        (0, 0, 0, 0),
        (0, 0),
        (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B),
    ),
    (
        (MASK, MASK, MASK, MASK),
        (MASK, MASK),
        (0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0),
    ),
    (
        (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89),
        (0x452821E638D01377, 0xBE5466CF34E90C6C),
        (0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6),
    ),
]


def philox(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """Philox4x64-10 in Python's integers."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        first, second = 0xD2E7470EE14C6C93 * c0, 0xCA5A826395121157 * c2
        c0, c1, c2, c3 = (
            (second >> 64) ^ c1 ^ k0,
            second & MASK,
            (first >> 64) ^ c3 ^ k1,
            first & MASK,
        )
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & MASK, (k1 + 0xBB67AE8584CAA73B) & MASK
    return c0, c1, c2, c3


def words(seed: int = 0, purpose: Purpose = Purpose.BIAS, layer: int = 0) -> Words:
    return Words(seed=seed, layer=layer, purpose=purpose)


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN_ANSWERS)
def test_plain_philox_gives_the_published_answers(
    counter: tuple[int, ...], key: tuple[int, ...], output: tuple[int, ...]
) -> None:
    assert philox(counter, key) == output


@given(
    seed=st.integers(0, MASK),
    layer=st.integers(0, 2**20),
    purpose=st.sampled_from(list(Purpose)),
)
def test_words_are_philox_of_seed_stream_and_position(
    seed: int, layer: int, purpose: Purpose
) -> None:
    key = (seed, (layer << 8) + int(purpose))
    # Counting starts at one.
    expected = [word for block in (1, 2, 3) for word in philox((block, 0, 0, 0), key)]
    stream = words(seed, purpose, layer)
    assert [*stream.take(5).tolist(), *stream.take(7).tolist()] == expected


@given(seed=st.integers(0, MASK))
def test_uniform_is_the_exact_fraction_of_the_upper_53_bits(seed: int) -> None:
    raw = words(seed).take(20)
    got = uniform(words(seed), 20)
    assert [Fraction(x) for x in got.tolist()] == [Fraction(w >> 11, 2**53) for w in raw.tolist()]
    assert [Fraction(x) for x in uniform(words(seed), 20, -1.0, 1.0).tolist()] == [
        2 * Fraction(w >> 11, 2**53) - 1 for w in raw.tolist()
    ]


def test_uniform_passes_a_kolmogorov_smirnov_test() -> None:
    assert stats.kstest(uniform(words(3), 20000, -2.0, 5.0), "uniform", (-2.0, 7.0)).pvalue > 0.01


@given(seed=st.integers(0, MASK), low=st.floats(1e-6, 0.5), ratio=st.floats(1.0, 1e6))
def test_log_uniform_agrees_with_the_power_function(seed: int, low: float, ratio: float) -> None:
    high = low * ratio
    fraction = (words(seed).take(30) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    got = log_uniform(words(seed), 30, low, high)
    np.testing.assert_allclose(got, low * (high / low) ** fraction, rtol=1e-13)
    assert got.min() >= low
    assert got.max() <= high


def test_words_beyond_the_last_multiple_of_the_bound_are_skipped() -> None:
    # Two of these fit into 2^64, so that a quarter of all words lie beyond.
    bound = 3 * 2**61
    accepted = [word for word in words(1).take(400).tolist() if word < 2**64 // bound * bound]
    assert integers(words(1), 100, bound).tolist() == [word % bound for word in accepted[:100]]


def test_integers_are_equally_likely() -> None:
    counts = np.bincount(integers(words(5), 70000, 7), minlength=7)
    assert len(counts) == 7
    assert stats.chisquare(counts).pvalue > 0.01


def test_signs_are_fair() -> None:
    drawn = signs(words(2), 10000)
    assert set(drawn.tolist()) == {-1.0, 1.0}
    assert stats.binomtest(int((drawn > 0).sum()), 10000).pvalue > 0.01


@given(seed=st.integers(0, MASK), n=st.integers(0, 60))
def test_permutation_sorts_the_words(seed: int, n: int) -> None:
    order = permutation(words(seed), n)
    assert sorted(order.tolist()) == list(range(n))
    assert words(seed).take(n)[order].tolist() == sorted(words(seed).take(n).tolist())


@given(
    seed=st.integers(0, 100),
    n_rows=st.integers(0, 5),
    size=st.integers(1, 60).flatmap(lambda b: st.tuples(st.integers(0, b), st.just(b))),
)
def test_distinct_rows_are_ascending_without_repeats(
    seed: int, n_rows: int, size: tuple[int, int]
) -> None:
    n, bound = size
    drawn = distinct(words(seed), n_rows, n, bound)
    assert drawn.shape == (n_rows, n)
    assert all(sorted(set(row)) == row for row in drawn.tolist())
    assert drawn.size == 0 or (drawn.min() >= 0 and drawn.max() < bound)


@pytest.mark.parametrize(("n", "bound"), [(2, 12), (7, 12), (11, 12)])
def test_every_position_is_equally_likely(n: int, bound: int) -> None:
    drawn = distinct(words(9), 6000, n, bound)
    counts = np.bincount(drawn.ravel(), minlength=bound)
    # Positions of a row exclude each other: their counts vary less than independent ones.
    spread = ((counts - 6000 * n / bound) ** 2).sum() / (6000 * n / bound * (1 - n / bound))
    assert stats.chi2.sf(spread * (bound - 1) / bound, bound - 1) > 0.01


def test_few_positions_out_of_a_huge_number_need_little_memory() -> None:
    drawn = distinct(words(6), 1, 1000, 10**12)
    assert len(np.unique(drawn)) == 1000
    assert stats.kstest(drawn[0] / 1e12, "uniform").pvalue > 0.01


@pytest.mark.parametrize("n", [1, 2, 3, 17, 64])
def test_orthogonal_is_orthogonal(n: int) -> None:
    Q = orthogonal(words(7), n)
    np.testing.assert_allclose(Q @ Q.T, np.eye(n), atol=1e-14)


def test_orthogonal_mixes_all_rows_and_spreads_its_eigenvalues() -> None:
    Q = orthogonal(words(8), 100)
    assert np.count_nonzero(Q) > 0.99 * Q.size
    assert (np.abs(Q).max(axis=1) < 0.7).all()
    angles = np.angle(np.linalg.eigvals(Q))
    assert stats.kstest(np.abs(angles), "uniform", (0.0, np.pi)).pvalue > 0.01
