from __future__ import annotations

from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from catchment import Array
from catchment.data import Recording, fill_recording

nan = np.nan
values = st.one_of(st.just(nan), st.floats(-10, 10))
gappy = st.tuples(st.integers(1, 12), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=values)
)


def pieces_of(recording: Recording, policy: Any = "error") -> list[Recording]:
    return [piece for _, piece in fill_recording(recording, policy)]


def test_without_gaps_the_recording_comes_back_itself() -> None:
    recording = Recording(np.ones(2), np.ones(2))
    for policy in ("error", "hold", "interpolate", "restart"):
        assert [piece is recording for piece in pieces_of(recording, policy)] == [True]


def test_error_names_the_place() -> None:
    u = np.array([[0.0, 0.0], [0.0, nan]])
    with pytest.raises(ValueError, match="recording 1 has no input in channel 1 at step 1; set"):
        fill_recording(Recording(u), "error", 1)
    with pytest.raises(ValueError, match="no input in channel 'ay' at step 1"):
        fill_recording(Recording(u, channels=("ax", "ay")), "error")


def test_restart_cuts_the_times_too() -> None:
    timed = Recording(np.array([1.0, nan, 3.0]), times=np.array([0.0, 0.5, 1.0]))
    pieces = pieces_of(timed, "restart")
    assert [cast(Array, piece.times).tolist() for piece in pieces] == [[0.0], [1.0]]


@given(u=gappy)
def test_hold_agrees_with_pandas(u: Array) -> None:
    (filled,) = pieces_of(Recording(u), "hold")
    expected = pd.DataFrame(u).ffill().bfill().fillna(0.0).to_numpy()
    np.testing.assert_array_equal(filled.u, expected)


@given(u=gappy)
def test_interpolate_agrees_with_pandas(u: Array) -> None:
    (filled,) = pieces_of(Recording(u), "interpolate")
    frame = pd.DataFrame(u).interpolate(method="linear", limit_direction="both")
    np.testing.assert_allclose(filled.u, frame.fillna(0.0).to_numpy(), atol=1e-9)


@given(u=gappy)
def test_restart_keeps_whole_steps_in_order(u: Array) -> None:
    y = np.arange(float(len(u)))
    pieces = pieces_of(Recording(u, y, per_step=True), "restart")
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


def test_restart_shares_the_weight_of_a_target_per_sequence() -> None:
    u = np.array([1.0, 2.0, 3.0, nan, 5.0, nan])
    whole = Recording.labeled(u, 1, 3, weight=2.0)
    pieces = pieces_of(whole, "restart")
    assert [piece.n_steps for piece in pieces] == [3, 1]
    assert [piece.weight for piece in pieces] == [1.5, 0.5]
    for piece in pieces:
        assert piece.per_step is False
        np.testing.assert_array_equal(cast(Array, piece.y), [0.0, 1.0, 0.0])


def test_restart_keeps_the_weight_of_targets_per_step() -> None:
    pieces = pieces_of(Recording(np.array([1.0, nan, 3.0]), np.ones(3), 2.0), "restart")
    assert [piece.weight for piece in pieces] == [2.0, 2.0]


def test_filling_keeps_target_and_weight() -> None:
    sequence = Recording.labeled(np.array([nan, 1.0, 2.0]), 0, 3, weight=0.5)
    (filled,) = pieces_of(sequence, "hold")
    assert filled.y is not None
    np.testing.assert_array_equal(filled.y, [1.0, 0.0, 0.0])
    assert filled.weight == 0.5
    assert filled.per_step is False
    assert np.isnan(sequence.u[0, 0])
