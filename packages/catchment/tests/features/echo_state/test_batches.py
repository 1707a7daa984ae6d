from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.features.echo_state import Batch, Lane, SegmentsError, plan_batches, run_batch
from tests.features.echo_state import oracle

RESERVOIR = oracle.random_reservoir(n_units=40, n_inputs=1)


def covered(batches: list[Batch]) -> Counter[tuple[int, int]]:
    """Return how often each step of each sequence counts."""
    steps: Counter[tuple[int, int]] = Counter()
    for batch in batches:
        for lane in batch.lanes:
            steps.update((lane.source, lane.first + k) for k in range(lane.n_rows))
    return steps


@given(
    lengths=st.lists(st.integers(6, 60), min_size=1, max_size=90),
    washout=st.integers(0, 5),
    may_segment=st.booleans(),
)
@settings(max_examples=50)
def test_every_step_after_the_washout_counts_once(
    lengths: list[int], washout: int, may_segment: bool
) -> None:
    inputs = oracle.sequences(lengths, n_inputs=1)
    batches = plan_batches(RESERVOIR.programs(), inputs, washout=washout, may_segment=may_segment)
    expected = {(k, t) for k, length in enumerate(lengths) for t in range(washout, length)}
    assert covered(batches) == Counter(dict.fromkeys(expected, 1))
    for batch in batches:
        assert not batch.joined
        for lane in batch.lanes:
            np.testing.assert_array_equal(lane.u, inputs[lane.source])


def test_neighbors_in_a_batch_are_of_like_length() -> None:
    lengths = [int(n) for n in np.random.default_rng(0).integers(10, 500, 100)]
    inputs = oracle.sequences(lengths, n_inputs=1)
    batches = plan_batches(RESERVOIR.programs(), inputs, washout=0, may_segment=False)
    order = [len(lane.u) for batch in batches for lane in batch.lanes]
    assert order == sorted(lengths, reverse=True)


@pytest.mark.parametrize("washout", [0, 30])
def test_a_long_sequence_is_cut_into_segments_with_the_right_inputs(washout: int) -> None:
    inputs = oracle.sequences([30_000], n_inputs=1)
    (batch,) = plan_batches(RESERVOIR.programs(), inputs, washout=washout, may_segment=True)
    assert batch.joined
    assert covered([batch]) == Counter({(0, t): 1 for t in range(washout, 30_000)})
    for lane in batch.lanes:
        begin = lane.first - lane.skip
        np.testing.assert_array_equal(lane.u, inputs[0][begin : begin + len(lane.u)])
    (uncut,) = plan_batches(RESERVOIR.programs(), inputs, washout=washout, may_segment=False)
    assert len(uncut.lanes) == 1


def test_a_batch_of_segments_falls_back_to_one_piece() -> None:
    inputs = oracle.sequences([30_000], n_inputs=1)
    (batch,) = plan_batches(RESERVOIR.programs(), inputs, washout=7, may_segment=True)
    (lane,) = batch.in_one_piece(inputs, 7).lanes
    assert (lane.source, lane.skip, lane.first, len(lane.u)) == (0, 7, 7, 30_000)


def segments(warmup: int) -> Batch:
    (u,) = oracle.sequences([2_000], n_inputs=1)
    lanes = [Lane(0, u[:1_000], 0, 0), Lane(0, u[1_000 - warmup :], warmup, 1_000)]
    return Batch(tuple(lanes), joined=True)


def test_segments_that_do_not_join_raise_after_the_last_block() -> None:
    programs = RESERVOIR.programs()
    whole = sum(block.stop - block.start for block in run_batch(programs, segments(600)))
    assert whole == 1_600
    cut_short = run_batch(programs, segments(10))
    for _ in range(-(-1_010 // 256)):
        next(cut_short)
    with pytest.raises(SegmentsError):
        next(cut_short)
