from __future__ import annotations

from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from catchment import Array
from catchment.data import GapReport, Recording, fill_gaps

nan = np.nan
values = st.one_of(st.just(nan), st.floats(-10, 10))
gappy = st.tuples(st.integers(1, 12), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=values)
)


def test_without_gaps_the_sequences_come_back_themselves() -> None:
    sequences = [Recording(np.zeros(3)), Recording(np.ones(2), np.ones(2))]
    for policy in ("error", "hold", "interpolate", "restart"):
        kept, report = fill_gaps(sequences, policy)
        assert all(a is b for a, b in zip(kept, sequences, strict=True))
        assert report == GapReport()
    assert fill_gaps([], "hold") == ([], GapReport())


def test_error_names_the_place() -> None:
    u = np.array([[0.0, 0.0], [0.0, nan]])
    with pytest.raises(ValueError, match="recording 1 has no input in channel 1 at step 1; set"):
        fill_gaps([Recording(np.zeros((2, 2))), Recording(u)])


def test_error_names_the_channel_where_it_has_a_name() -> None:
    with pytest.raises(ValueError, match="no input in channel 'ay' at step 1"):
        fill_gaps([Recording(np.array([[0.0, 0.0], [0.0, nan]]), channels=("ax", "ay"))])


def test_restart_cuts_the_times_too() -> None:
    timed = Recording(np.array([1.0, nan, 3.0]), times=np.array([0.0, 0.5, 1.0]))
    pieces, _ = fill_gaps([timed], "restart")
    assert [cast(Array, piece.times).tolist() for piece in pieces] == [[0.0], [1.0]]


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="policy is 'guess'; pass one of error, hold"):
        fill_gaps([], cast(Any, "guess"))


@given(u=gappy)
def test_hold_agrees_with_pandas(u: Array) -> None:
    (filled,), report = fill_gaps([Recording(u)], "hold")
    expected = pd.DataFrame(u).ffill().bfill().fillna(0.0).to_numpy()
    np.testing.assert_array_equal(filled.u, expected)
    assert report.values_filled == int(np.isnan(u).sum())
    assert report.gap_rows == int(np.isnan(u).any(axis=1).sum())
    assert report.silent_channels == int(np.isnan(u).all(axis=0).sum())
    assert report.rows_removed == report.restarts == report.sequences_removed == 0


@given(u=gappy)
def test_interpolate_agrees_with_pandas(u: Array) -> None:
    (filled,), report = fill_gaps([Recording(u)], "interpolate")
    frame = pd.DataFrame(u).interpolate(method="linear", limit_direction="both")
    np.testing.assert_allclose(filled.u, frame.fillna(0.0).to_numpy(), atol=1e-9)
    assert report.values_filled == int(np.isnan(u).sum())


@given(u=gappy)
def test_restart_keeps_whole_steps_in_order(u: Array) -> None:
    y = np.arange(float(len(u)))
    pieces, report = fill_gaps([Recording(u, y, per_step=True)], "restart")
    gap = np.logical_or.reduce(np.isnan(u), axis=1)
    kept = [step for piece in pieces if piece.y is not None for step in piece.y[:, 0].tolist()]
    assert kept == y[~gap].tolist()
    for piece in pieces:
        assert piece.y is not None
        steps = piece.y[:, 0].astype(int)
        np.testing.assert_array_equal(piece.u, u[steps])
        assert (np.diff(steps) == 1).all()
        # A piece is as long as it can be.
        assert steps[0] == 0 or gap[steps[0] - 1]
        assert steps[-1] == len(u) - 1 or gap[steps[-1] + 1]
    assert report == GapReport(
        gap_rows=int(gap.sum()),
        rows_removed=int(gap.sum()),
        restarts=max(0, len(pieces) - 1),
        sequences_removed=int(gap.all()),
    )


def test_restart_shares_the_weight_of_a_target_per_sequence() -> None:
    u = np.array([1.0, 2.0, 3.0, nan, 5.0, nan])
    whole = Recording.labelled(u, 1, 3, weight=2.0)
    pieces, report = fill_gaps([whole], "restart")
    assert [piece.n_steps for piece in pieces] == [3, 1]
    assert [piece.weight for piece in pieces] == [1.5, 0.5]
    for piece in pieces:
        assert piece.per_step is False
        np.testing.assert_array_equal(cast(Array, piece.y), [0.0, 1.0, 0.0])
    assert report.restarts == 1


def test_restart_keeps_the_weight_of_targets_per_step() -> None:
    pieces, _ = fill_gaps([Recording(np.array([1.0, nan, 3.0]), np.ones(3), 2.0)], "restart")
    assert [piece.weight for piece in pieces] == [2.0, 2.0]


def test_filling_keeps_target_and_weight() -> None:
    sequence = Recording.labelled(np.array([nan, 1.0, 2.0]), 0, 3, weight=0.5)
    (filled,), _ = fill_gaps([sequence], "hold")
    assert filled.y is not None
    np.testing.assert_array_equal(filled.y, [1.0, 0.0, 0.0])
    assert filled.weight == 0.5
    assert filled.per_step is False
    assert np.isnan(sequence.u[0, 0])


def test_missing_targets_are_counted_and_kept() -> None:
    per_step = Recording(np.array([0.0, nan, 2.0]), np.array([nan, nan, 1.0]))
    per_sequence = Recording(np.zeros(4), np.full(2, nan))
    kept, report = fill_gaps([per_step, per_sequence, Recording(np.zeros(2))], "hold")
    assert len(kept) == 3
    assert report.target_rows_missing == 3
    # A row that "restart" removes is not there for the statistics to drop.
    _, report = fill_gaps([per_step], "restart")
    assert report.target_rows_missing == 1


def test_reports_add() -> None:
    one, two = [Recording(np.array([nan, 1.0]))], [Recording(np.array([nan, nan]))]
    _, a = fill_gaps(one, "hold")
    _, b = fill_gaps(two, "hold")
    _, both = fill_gaps(one + two, "hold")
    assert a + b == both
    assert both == GapReport(gap_rows=3, values_filled=3, silent_channels=1)
