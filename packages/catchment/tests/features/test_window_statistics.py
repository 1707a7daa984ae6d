"""Window statistics against numpy's own quantiles, spectra and correlations."""

from __future__ import annotations

import hashlib
from itertools import combinations, pairwise
from math import ceil

import numpy as np
import pytest

from catchment import Array
from catchment.errors import ClippingWarning
from catchment.features import (
    BLOCK,
    EDGES,
    FRACTION,
    KINDS,
    N_BANDS,
    TABLE_DIGITS,
    FeatureMap,
    WindowStatistics,
    band_ends,
    log2_of,
    tables,
)

RNG = np.random.default_rng(7)
LENGTHS = (1, 2, 3, 4, 5, 17, 64, 101, 128, 255, 256, 257, 300, 513, 1000)


def statistics(channels: int, grid: int | None = None, **settings: float | bool) -> FeatureMap:
    built = WindowStatistics(bits=grid, **settings).build(channels, per_step=False)  # type: ignore[arg-type]
    assert isinstance(built, FeatureMap)
    return built


def signal(T: int, channels: int = 3) -> Array:
    """Waves and noise about levels of their own, on the steps that inputs are rounded to."""
    t = np.arange(T)[:, None]
    waves = np.sin(t * RNG.uniform(0.05, 3.0, channels)) * RNG.uniform(0.1, 2.0, channels)
    u = waves + RNG.normal(scale=0.3, size=(T, channels)) + RNG.normal(size=channels)
    return np.asarray(np.rint(u * 4096) / 4096)


def by_numpy(u: Array) -> Array:
    """The features in numpy, written from the page."""
    T, channels = u.shape
    features = []
    for x in u.T:
        features += [x.mean(), x.std(), *np.quantile(x, [0, 0.25, 0.5, 0.75, 1])]
        features.append(np.log2((np.abs(np.diff(x)).mean() if T > 1 else 0.0) + 2.0**-7))
        n_blocks = ceil(T / 256)
        L = T // n_blocks
        blocks = x[: n_blocks * L].reshape(n_blocks, L)
        taper = np.sin(np.pi * (np.arange(L) + 0.5) / L)
        spectrum = np.fft.rfft(taper * (blocks - blocks.mean(axis=1, keepdims=True)))
        power = (2 * np.abs(spectrum[:, 1:]) ** 2 / L).mean(axis=0)
        for lowest, highest in pairwise(EDGES):
            first = min(int(lowest * (L // 2)), max(L // 2 - 1, 0))
            band = power[first : max(int(highest * (L // 2)), first + 1)]
            features.append(np.log2((band.mean() if band.size else 0.0) + 2.0**-14))
    for i, j in combinations(range(channels), 2):
        constant = T == 1 or np.ptp(u[:, i]) == 0 or np.ptp(u[:, j]) == 0
        features.append(0.0 if constant else np.corrcoef(u[:, i], u[:, j])[0, 1])
    return np.array(features)


@pytest.mark.parametrize("T", LENGTHS)
def test_features_are_those_of_numpy(T: int) -> None:
    u = signal(T)
    z, expected = statistics(3).rows([u])[0][0], by_numpy(u)
    spectral = np.array([name.startswith(("band", "log")) for name in statistics(3).names()])
    np.testing.assert_allclose(z[~spectral], expected[~spectral], rtol=0, atol=2e-9)
    np.testing.assert_allclose(z[spectral], expected[spectral], rtol=0, atol=0.02)


def test_columns_are_counted_and_named() -> None:
    assert [statistics(n).n_features for n in (1, 3, 9)] == [17, 54, 189]
    assert statistics(20).n_features == 340
    assert statistics(20, correlations=True).n_features == 340 + 190
    names = statistics(3).names()
    assert names[: len(KINDS)] == [f"{kind}_u0" for kind in KINDS]
    assert names[-3:] == ["correlation_u0_u1", "correlation_u0_u2", "correlation_u1_u2"]


def test_a_constant_channel_has_no_spread_no_energy_and_no_correlation() -> None:
    u = np.column_stack([np.full(90, 1.37), signal(90, 1)[:, 0]])
    z = dict(zip(statistics(2).names(), statistics(2).rows([u])[0][0], strict=True))
    assert z["sd_u0"] == z["correlation_u0_u1"] == 0
    assert z["log_step_u0"] == -7
    assert {z[f"band{k}_u0"] for k in range(N_BANDS)} == {-14.0}
    assert {z[f"{kind}_u0"] for kind in ("min", "q1", "median", "q3", "max")} == {
        np.rint(1.37 * 4096) / 4096
    }


def test_equal_and_opposite_channels_correlate_fully() -> None:
    x = signal(77, 1)[:, 0]
    z = statistics(3).rows([np.column_stack([x, x, -x])])[0][0]
    np.testing.assert_allclose(z[-3:], [1, -1, -1], atol=1e-12)
    assert (np.abs(z[-3:]) <= 1).all()


def test_rows_are_the_same_for_any_batch_and_threads() -> None:
    us = [signal(T) for T in (128, 60, 128, 300, 60, 1)]
    alone = [statistics(3).rows([u], threads=1)[0] for u in us]
    for threads in (1, 2):
        for one, other in zip(alone, statistics(3).rows(us, threads=threads), strict=True):
            np.testing.assert_array_equal(one, other)


def test_bits_are_those_recorded() -> None:
    """Integers all the way: another machine, library or thread count may change nothing."""
    k = np.arange(3 * 300)
    u = ((k * k * 7919 + 104729 * k) % 30011 / 4096 - 3.5).reshape(300, 3)
    rows = statistics(3).rows([u, u[:128], u[:7]])
    digest = hashlib.sha256(np.concatenate(rows).astype("<f8").tobytes()).hexdigest()
    assert digest[:16] == "a03811c707eb8ff0"


def test_inputs_beyond_the_range_are_cut_off_with_a_warning() -> None:
    u = signal(50)
    u[10] = 1000.0
    with pytest.warns(ClippingWarning, match="2.00% of the input values lie beyond 8"):
        z = statistics(3).rows([u])[0]
    np.testing.assert_array_equal(z, statistics(3).rows([np.clip(u, -8, 8)])[0])
    assert z.max() <= 16


def test_the_largest_inputs_stay_whole_numbers_and_within_bounds() -> None:
    loud = np.where(np.arange(1024)[:, None] % np.array([2, 64, 256]) == 0, 64.0, -64.0)
    features = statistics(3, range=64.0)
    z = features.rows([loud])[0][0]
    assert (np.abs(z) <= features.bounds).all()
    expected = np.minimum(by_numpy(loud), features.bounds)
    # Tables of 14 digits leave 2^-28 of a tone of 64 in other bands, which is near what is added.
    np.testing.assert_allclose(z, expected, rtol=1e-9, atol=0.5)


def test_tables_are_far_from_ties() -> None:
    """So any mathematical library rounds them alike: its errors are below 1e-11 at this scale."""
    pi = np.longdouble("3.14159265358979323846264338327950288")
    for L in range(1, BLOCK + 1):
        cosines, sines = tables(L)
        t = np.arange((L + 1) // 2, dtype=np.longdouble)[:, None] + 0.5
        taper = np.sin(pi * t / L) * 2**TABLE_DIGITS
        angle = 2 * pi * t * np.arange(1, L // 2 + 1) / L
        for table, wave in ((cosines, np.cos), (sines, np.sin)):
            assert (table == np.rint(table)).all()
            assert (np.abs(table - (taper * wave(angle))[: len(table)]) < 0.5 - 1e-8).all()


@pytest.mark.parametrize("L", [2, 3, 9, 50, 128, 255, 256])
def test_bands_cover_all_frequencies(L: int) -> None:
    first, last = band_ends(L)
    covered = {k for a, b in zip(first, last, strict=True) for k in range(a, b)}
    assert covered == set(range(L // 2))
    assert (last > first).all()


def test_logarithms_of_whole_numbers() -> None:
    for value in [1, 2, 3, 5, 4095, 4096, 4097, 10**9, 2**31 - 1, 2**31, 2**62 + 12345]:
        assert abs(log2_of(value) / 2**FRACTION - np.log2(float(value))) < 2.0**-FRACTION * 1.01
    values = np.unique(RNG.integers(1, 2**40, 500))
    assert (np.diff([log2_of(v) for v in values]) >= 0).all()


def test_wrong_settings_are_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match="range is 65; give a number, more than 0"):
        WindowStatistics(range=65)
    with pytest.raises(ValueError, match="correlations is 'some'; give true or false, or 'auto'"):
        WindowStatistics(correlations="some")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="here every step has a target"):
        WindowStatistics().build(3, per_step=True)
    with pytest.raises(ValueError, match="0 steps"):
        statistics(3).rows([np.zeros((0, 3))])
    with pytest.raises(ValueError, match="call build"):
        WindowStatistics().names()
