from __future__ import annotations

import numpy as np
import pytest

from catchment.features.echo_state import best_segments, joints_agree, segment_starts
from tests.features.echo_state import oracle


def test_short_sequences_are_not_cut_and_long_ones_are() -> None:
    programs = oracle.random_reservoir(n_units=60).programs()
    assert best_segments(programs, 400, 200) == 1
    assert best_segments(programs, 100_000, 200) > 1
    assert best_segments(programs, 100_000, 90_000) == 1


@pytest.mark.parametrize("washout", [0, 100])
def test_segments_cover_the_sequence_once_and_take_equally_long(washout: int) -> None:
    reservoir = oracle.random_reservoir(n_units=60, n_inputs=1)
    (u,) = oracle.sequences([20_000], n_inputs=1)
    starts, warmup = segment_starts(reservoir.programs(), u, washout)
    assert starts[0] == washout
    assert len(starts) in (8, 16, 32)
    rows = np.diff([*starts, len(u)])
    assert (rows > 0).all()
    lengths = rows + np.array([0, *[warmup] * (len(starts) - 1)])
    assert np.ptp(lengths) <= len(starts)


def test_the_warm_up_forgets_opposite_starts() -> None:
    reservoir = oracle.random_reservoir(n_units=40, n_inputs=1)
    (u,) = oracle.sequences([20_000], n_inputs=1)
    _, warmup = segment_starts(reservoir.programs(), u, 0)
    for place in (0, 7_000, 19_000 - warmup):
        piece = u[place : place + warmup]
        ends = [oracle.states(reservoir, piece, np.full(40, x))[-1] for x in (1.0, -1.0)]
        assert np.abs(ends[0] - ends[1]).max() <= 1e-12


def test_a_quiet_passage_late_in_the_sequence_is_noticed() -> None:
    reservoir = oracle.random_reservoir(n_units=40, n_inputs=1, radius=0.95)
    (loud,) = oracle.sequences([40_000], n_inputs=1)
    mixed = 3 * loud
    mixed[20_000:] *= 1e-3
    _, warmup_loud = segment_starts(reservoir.programs(), 3 * loud, 0)
    _, warmup_mixed = segment_starts(reservoir.programs(), mixed, 0)
    assert 0 < warmup_loud < warmup_mixed


@pytest.mark.parametrize("radius", [1.3, 2.0])
def test_a_reservoir_that_does_not_forget_is_not_cut(radius: float) -> None:
    reservoir = oracle.random_reservoir(n_units=60, n_inputs=1, radius=radius)
    (u,) = oracle.sequences([20_000], n_inputs=1)
    assert segment_starts(reservoir.programs(), 0.01 * u, 0) == ([0], 0)


def test_joints_agree_to_a_tolerance_that_follows_the_precision() -> None:
    reservoir = oracle.random_reservoir(n_units=2)
    ends = np.zeros((2, 3))
    starts = np.zeros((2, 3))
    starts[0, 0] = 5.0  # the first segment has nothing before it
    assert joints_agree(reservoir.programs(), starts, ends)
    starts[1, 2] = 1e-7
    assert not joints_agree(reservoir.programs(), starts, ends)
    assert joints_agree(reservoir.programs(np.float32), starts, ends)
