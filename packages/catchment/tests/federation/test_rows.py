"""Segments and blocks of a client's data: nothing is lost, nothing comes twice."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.data import Recording, narma
from catchment.features import EchoState, Reservoir
from catchment.federation import Rows, augmented, segment
from catchment.readout import RidgeStatistics, accumulate

RESERVOIR = Reservoir(units=6, inputs=1, seed=1)
PER_STEP = EchoState.of(RESERVOIR, washout=7)


@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(8, 60), min_size=1, max_size=3),
    cuts=st.lists(st.floats(0, 1), max_size=4),
)
def test_segments_that_follow_on_each_other_are_the_whole(
    lengths: list[int], cuts: list[float]
) -> None:
    data = [Recording(np.sin(np.arange(n)), np.cos(np.arange(n))) for n in lengths]
    edges = [0.0, *sorted(cuts), 1.0]
    parts = []
    for begin, end in pairwise(edges):
        part = list(segment(data, begin, end, washout=7))
        if part:
            parts.append(accumulate(PER_STEP, part))
    total, whole = reduce(add, parts), accumulate(PER_STEP, data)
    assert total.n_rows == whole.n_rows == sum(lengths) - 7 * len(lengths)
    np.testing.assert_allclose(total.gram, whole.gram, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(total.cross, whole.cross, rtol=1e-9, atol=1e-12)


@settings(max_examples=40)
@given(n=st.integers(1, 60), cut=st.floats(0, 1))
def test_sequences_with_one_target_are_in_one_segment_each(n: int, cut: float) -> None:
    data = [Recording.labeled([float(k)], 0, 2) for k in range(n)]
    first, second = list(segment(data, 0.0, cut)), list(segment(data, cut, 1.0))
    assert sorted(float(s.u[0, 0]) for s in first + second) == list(range(n))
    assert abs(len(first) - cut * n) <= 3 + np.log2(n)


def test_feature_rows_are_those_behind_the_statistics() -> None:
    series = narma(80, seed=1)
    weighted = Recording(series.u, series.y, weight=0.5)
    rows = Rows.of(PER_STEP, [series, weighted])
    (z, y), weight = rows.pair, rows.weight
    ours = RidgeStatistics.from_states(z, y, weight=weight, fingerprint=PER_STEP.fingerprint)
    theirs = accumulate(PER_STEP, [series, weighted])
    assert ours.n_rows == theirs.n_rows
    assert ours.weight == pytest.approx(theirs.weight)
    np.testing.assert_allclose(ours.gram, theirs.gram, rtol=1e-12)
    label = Recording(series.u, np.array([1.0, 2.0]))
    repeated = Rows.of(PER_STEP, [label]).y
    assert repeated.shape == (73, 2)
    assert (repeated == [1.0, 2.0]).all()


def test_augmented_moments_are_means_of_rows_with_a_constant() -> None:
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(20, 3)), rng.normal(size=(20, 2))
    A, B = augmented(RidgeStatistics.from_states(z, y))
    Z = np.column_stack([z, np.ones(20)])
    np.testing.assert_allclose(A, Z.T @ Z / 20, rtol=1e-12)
    np.testing.assert_allclose(B, Z.T @ y / 20, rtol=1e-12)
    with pytest.raises(ValueError, match="add data first"):
        augmented(RidgeStatistics.zero(3, 2))
