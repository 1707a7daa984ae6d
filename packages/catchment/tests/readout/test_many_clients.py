"""Clients served side by side: the numbers each would have sent alone, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import Recording, Reservoir
from catchment.features import EchoState
from catchment.federation import moment_matrix
from catchment.readout import RidgeStatistics, accumulate, accumulate_each

pytestmark = pytest.mark.processor

RESERVOIR = Reservoir(units=60, inputs=2, seed=1)
SPARSE = EchoState.of(RESERVOIR, washout=5)


def sequence(rng: np.random.Generator, n_steps: int, n_targets: int = 1) -> Recording:
    u = rng.normal(size=(n_steps, 2))
    return Recording(u, rng.normal(size=(n_steps, n_targets)), weight=float(rng.choice([1.0, 0.7])))


def by_rows(features: EchoState, group: list[Recording]) -> RidgeStatistics:
    """Return the statistics by plain matrix products of all rows."""
    total = RidgeStatistics.zero(features.n_features, width(group[0]), features.fingerprint)
    for s in group:
        z, y = features(s.u), np.asarray(s.y)
        rows = y[features.washout :] if s.per_step else np.repeat(y[None], len(z), axis=0)
        total += RidgeStatistics.from_states(
            z, rows, weight=np.full(len(z), s.weight), fingerprint=features.fingerprint
        )
    return total


def width(sequence: Recording) -> int:
    return int(np.asarray(sequence.y).shape[-1])


def assert_close(found: RidgeStatistics, expected: RidgeStatistics) -> None:
    assert (found.n_rows, found.fingerprint) == (expected.n_rows, expected.fingerprint)
    M, N = moment_matrix(found), moment_matrix(expected)
    lengths = np.sqrt(np.outer(N.diagonal(), N.diagonal()))
    assert (np.abs(M - N) <= 1e-11 * lengths).all()


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.integers(6, 90), min_size=1, max_size=3), min_size=1, max_size=20),
    st.integers(0, 2**32 - 1),
)
def test_every_group_has_the_bits_it_would_have_alone(lengths: list[list[int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [[sequence(rng, n) for n in group] for group in lengths]
    together = accumulate_each(SPARSE, groups)
    assert together == [accumulate(SPARSE, group, threads=1) for group in groups]
    for found, group in zip(together, groups, strict=True):
        assert_close(found, by_rows(SPARSE, group))


@pytest.mark.parametrize(
    "features",
    [
        EchoState.of(RESERVOIR),
        EchoState.of(RESERVOIR, bias=True, input=False, washout=3),
        EchoState.of(RESERVOIR, pool="mean"),
        EchoState.of(RESERVOIR, precision="float32"),
        EchoState.of(Reservoir(units=10, inputs=2), washout=2),  # dense
        EchoState.of(Reservoir(units=(60, 50), inputs=2), washout=2),
        EchoState.of(Reservoir(units=60, inputs=2, activation="sin")),
        EchoState.of(Reservoir(units=60, inputs=2, leak_rate=1.0)),
    ],
    ids=["plain", "bias", "pooled", "single", "dense", "deep", "sin", "no-leak"],
)
def test_every_kind_of_feature(features: EchoState) -> None:
    rng = np.random.default_rng(0)
    groups = [[sequence(rng, 40)] for _ in range(10)]
    if not features.per_step:
        groups = [[Recording(s.u, np.eye(2)[k % 2])] for k, (s,) in enumerate(groups)]
    together = accumulate_each(features, groups)
    assert together == [accumulate(features, group, threads=1) for group in groups]
    for found, group in zip(together, groups, strict=True):
        assert_close(found, by_rows(features, group))


def test_gaps_constant_targets_long_sequences_and_other_widths_go_their_own_way() -> None:
    rng = np.random.default_rng(1)
    gap = sequence(rng, 30)
    assert gap.y is not None
    y = gap.y.copy()
    y[3:7] = np.nan
    groups = [
        [Recording(gap.u, y)],
        [Recording(gap.u, np.array([1.0, 2.0]))],
        [sequence(rng, 30, 2)],
        [sequence(rng, 30, 3)],
        [sequence(rng, 3000)],
        [sequence(rng, 30)],
        [sequence(rng, 6)],
    ]
    together = accumulate_each(SPARSE, groups)
    assert together == [accumulate(SPARSE, group, threads=1) for group in groups]
    for found, group in zip(together, groups, strict=True):
        assert_close(found, by_rows(SPARSE, group))


def test_groups_are_read_one_after_another() -> None:
    rng = np.random.default_rng(2)
    alive: list[int] = []

    def stream(k: int) -> Iterator[Recording]:
        alive.append(k)
        for _ in range(4):
            yield sequence(rng, 20)
        alive.remove(k)

    found = accumulate_each(SPARSE, (stream(k) for k in range(5)))
    assert len(found) == 5
    assert all(s.n_rows == 4 * 15 for s in found)
    assert alive == []


def test_a_bad_sequence_is_an_error() -> None:
    rng = np.random.default_rng(3)
    good = [[sequence(rng, 20)] for _ in range(3)]
    broken = Recording(np.full((20, 2), np.nan), np.zeros((20, 1)))
    with pytest.raises(ValueError, match="not finite"):
        accumulate_each(SPARSE, [*good, [broken]])
    with pytest.raises(ValueError, match="no recordings"):
        accumulate_each(SPARSE, [*good, []])
    with pytest.raises(ValueError, match="no targets"):
        accumulate_each(SPARSE, [*good, [Recording(np.zeros((20, 2)))]])
    assert accumulate_each(SPARSE, []) == []


def test_a_short_sequence_is_cut_where_fixed_point_says() -> None:
    rng = np.random.default_rng(3)
    reservoir = Reservoir.from_matrices(
        0.3 * rng.normal(size=(6, 6)), rng.normal(size=(6, 2)), bits=15, cut=(20, 5)
    )
    features = EchoState.of(reservoir, feature_bits=8)
    one = Recording(rng.normal(size=(90, 2)), rng.normal(size=(90, 1)))
    alone = accumulate(features, [one], classes=False)
    assert alone.digest() == accumulate_each(features, [[one]], classes=False)[0].digest()
    rows = RidgeStatistics.from_states(
        features(one.u), np.asarray(one.y), fingerprint=features.fingerprint, fixed=alone.fixed
    )
    assert alone.digest() == rows.digest()
