from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from inspect import getmodule
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from catchment import Array
from catchment.data import Recording
from catchment.errors import FingerprintError
from catchment.features import EchoState
from catchment.features.echo_state import Pool, plan_batches
from catchment.readout import RidgeStatistics, accumulate, unpack
from catchment.readout import accumulation as module
from tests.features.echo_state import oracle

RESERVOIR = oracle.random_reservoir(n_units=14)
FEATURES = EchoState.of(RESERVOIR)


def recorded(lengths: list[int], n_targets: int = 2, seed: int = 5) -> list[Recording]:
    rng = np.random.default_rng(seed)
    us = oracle.sequences(lengths)
    return [Recording(u, rng.normal(size=(len(u), n_targets))) for u in us]


def rows(features: EchoState, sequences: list[Recording]) -> tuple[Array, Array, Array]:
    """Return features (n, F), targets (n, K) and weights (n,) by the textbook, NaN rows too."""
    columns = np.repeat(
        [features.bias, features.input, features.state],
        [1, features.reservoir.n_inputs, features.reservoir.n_units],
    )
    z, y, w = [], [], []
    for s in sequences:
        assert s.y is not None
        part = oracle.extended(features.reservoir, s.u)[features.washout :, columns]
        target = s.y[features.washout :] if s.per_step else np.tile(s.y, (len(part), 1))
        z.append(part)
        y.append(target)
        w.append(np.full(len(part), s.weight))
    return np.vstack(z), np.vstack(y), np.concatenate(w)


def assert_equal_to_rows(
    total: RidgeStatistics, z: Array, y: Array, w: Array, atol: float = 1e-10
) -> None:
    """Compare every moment with the sums over explicit rows, NaN targets left out."""
    known = ~np.isnan(y).any(axis=1)
    z, y, w = z[known], y[known], w[known]
    assert total.n_rows == len(z)
    expected = {
        "weight": w.sum(),
        "feature_sum": w @ z,
        "target_sum": w @ y,
        "cross": (z * w[:, None]).T @ y,
    }
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(total, name), value, rtol=1e-11, atol=atol)
    np.testing.assert_allclose(unpack(total.gram), (z * w[:, None]).T @ z, rtol=1e-11, atol=atol)
    np.testing.assert_allclose(
        unpack(total.target_gram), (y * w[:, None]).T @ y, rtol=1e-11, atol=atol
    )


LENGTHS = [[40], [1], [7, 300, 40], [25] * 9, list(range(3, 60)), [200] * 33]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_statistics_are_the_sums_over_all_rows(lengths: list[int]) -> None:
    sequences = recorded(lengths)
    total = accumulate(FEATURES, sequences)
    assert_equal_to_rows(total, *rows(FEATURES, sequences))
    assert total.fingerprint == FEATURES.fingerprint


@pytest.mark.parametrize(
    ("bias", "input_", "state"), [c for c in product((False, True), repeat=3) if any(c)]
)
def test_any_choice_of_features(bias: bool, input_: bool, state: bool) -> None:
    features = EchoState.of(RESERVOIR, bias=bias, input=input_, state=state, washout=3)
    for lengths in ([50], [30] * 10):
        sequences = recorded(lengths)
        assert_equal_to_rows(accumulate(features, sequences), *rows(features, sequences))


@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
@pytest.mark.parametrize("lengths", [[400], [60, 40, 61] * 4], ids=str)
def test_rows_with_a_missing_target_are_left_out(share: float, lengths: list[int]) -> None:
    rng = np.random.default_rng(0)
    features = replace(FEATURES, washout=2)
    sequences = []
    for s in recorded(lengths):
        assert s.y is not None
        y = s.y.copy()
        y[rng.random(len(y)) < share, 0] = np.nan
        y[rng.random(len(y)) < share / 2, 1] = np.nan
        sequences.append(replace(s, y=y))
    assert_equal_to_rows(accumulate(features, sequences), *rows(features, sequences))


@pytest.mark.parametrize("lengths", [[400], [60, 40, 61] * 4], ids=str)
def test_a_row_stride_takes_every_nth_row_after_the_washout(lengths: list[int]) -> None:
    features, sequences = replace(FEATURES, washout=2), recorded(lengths)
    numbers = np.concatenate([np.arange(1, n - 1) for n in lengths])
    total = accumulate(features, sequences, row_stride=3)
    z, y, w = rows(features, sequences)
    assert_equal_to_rows(total, z[numbers % 3 == 0], y[numbers % 3 == 0], w[numbers % 3 == 0])
    for other in (accumulate(features, sequences), accumulate(features, sequences, row_stride=2)):
        with pytest.raises(FingerprintError):
            total + other
    for stride in (0, True, 2.0):
        with pytest.raises(ValueError, match=r"row_stride is .*; give an integer, 1 or more"):
            accumulate(features, sequences, row_stride=stride)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="row_stride is 2, and this map has a row per recording"):
        accumulate(EchoState.of(RESERVOIR, pool="last"), sequences, row_stride=2)


def test_no_known_target_is_no_row() -> None:
    total = accumulate(
        FEATURES, [Recording(u, np.full(20, np.nan)) for u in oracle.sequences([20])]
    )
    assert total == RidgeStatistics.zero(16, 1, FEATURES.fingerprint)


@pytest.mark.parametrize("lengths", [[60], [30, 20, 25] * 4], ids=str)
def test_weights_count_whole_sequences(lengths: list[int]) -> None:
    sequences = [replace(s, weight=0.25 + k % 3) for k, s in enumerate(recorded(lengths))]
    sequences[0] = replace(sequences[0], weight=0.0)
    assert_equal_to_rows(accumulate(FEATURES, sequences), *rows(FEATURES, sequences))


@pytest.mark.parametrize("n_sequences", [1, 12])
def test_a_target_per_sequence_stands_for_each_row(n_sequences: int) -> None:
    features = replace(FEATURES, washout=5)
    us = oracle.sequences([30 + k for k in range(n_sequences)])
    sequences = [Recording.labeled(u, k % 3, 3) for k, u in enumerate(us)]
    assert_equal_to_rows(accumulate(features, sequences), *rows(features, sequences))


def test_pooled_features_give_one_row_per_sequence() -> None:
    features = EchoState.of(RESERVOIR, pool="mean", segments=2)
    us = oracle.sequences([30 + k % 5 for k in range(40)])
    sequences = [Recording.labeled(u, k % 3, 3, weight=1 + k % 2) for k, u in enumerate(us)]
    z = np.array(
        [np.concatenate([h.mean(0) for h in _halves(oracle.extended(RESERVOIR, u))]) for u in us]
    )
    z = np.delete(z, [0, 17], axis=1)  # the constant, which is no feature here
    y, w = np.array([s.y for s in sequences]), np.array([s.weight for s in sequences])
    assert_equal_to_rows(accumulate(features, sequences), z, y, w)


def _halves(z: Array) -> tuple[Array, Array]:
    return z[: len(z) // 2], z[len(z) // 2 :]


def long_sequence(n_steps: int = 12_000) -> tuple[EchoState, list[Recording]]:
    reservoir = oracle.random_reservoir(n_units=30, n_inputs=1)
    (u,) = oracle.sequences([n_steps], n_inputs=1)
    return EchoState.of(reservoir, washout=50), [Recording(u, np.sin(np.arange(n_steps)))]


def test_a_long_sequence_is_summed_from_segments() -> None:
    features, sequences = long_sequence()
    assert features.batches([sequences[0].u])[0].joined
    total = accumulate(features, sequences)
    assert_equal_to_rows(total, *rows(features, sequences), atol=1e-8)


@pytest.mark.parametrize("threads", [1, 2])
def test_segments_that_do_not_join_are_summed_again_in_one_piece(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, sequences = long_sequence(4_000)
    monkeypatch.setattr(
        getmodule(plan_batches), "segment_starts", lambda *_: ([50 + 490 * k for k in range(8)], 20)
    )
    assert features.batches([sequences[0].u])[0].joined
    total = accumulate(features, sequences, threads=threads)
    assert_equal_to_rows(total, *rows(features, sequences), atol=1e-8)


@pytest.mark.parametrize("threads", [2, 3, None])
@pytest.mark.parametrize("pool", [None, "mean"])
def test_threads_do_not_change_a_bit(threads: int | None, pool: str | None) -> None:
    features = EchoState.of(RESERVOIR, pool=pool)  # type: ignore[arg-type]
    us = oracle.sequences([int(n) for n in np.random.default_rng(1).integers(5, 90, 100)])
    sequences = [Recording.labeled(u, k % 3, 3) for k, u in enumerate(us)]
    one = accumulate(features, sequences, threads=1)
    assert accumulate(features, sequences, threads=threads) == one


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("n_steps", [700, 12_000])
def test_threads_do_not_change_a_bit_of_one_sequence(threads: int, n_steps: int) -> None:
    features, sequences = long_sequence(n_steps)
    one = accumulate(features, sequences, threads=1)
    assert accumulate(features, sequences, threads=threads) == one


def test_an_iterator_is_read_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW_SEQUENCES", 3)
    sequences = recorded([20 + k for k in range(10)])
    taken = 0
    waiting = []

    def source() -> Iterator[Recording]:
        nonlocal taken
        for s in sequences:
            taken += 1
            yield s

    plain = module._window_statistics

    def watched(*arguments: object) -> RidgeStatistics:
        waiting.append(taken)
        return plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_window_statistics", watched)
    total = accumulate(FEATURES, source())
    assert waiting == [3, 6, 9, 10]
    assert_equal_to_rows(total, *rows(FEATURES, sequences))


def test_long_sequences_close_a_window_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW_STEPS", 50)
    sequences = recorded([30, 30, 80, 10])
    assert [len(window) for window in module.in_windows(iter(sequences))] == [2, 1, 1]
    assert_equal_to_rows(accumulate(FEATURES, sequences), *rows(FEATURES, sequences))


def test_single_precision_states_have_double_precision_sums() -> None:
    features = EchoState.of(RESERVOIR, precision="float32")
    for lengths in ([500], [60] * 10):
        sequences = recorded(lengths)
        total = accumulate(features, sequences)
        z, y, _ = rows(features, sequences)
        np.testing.assert_allclose(total.cross, z.T @ y, rtol=0, atol=1e-5 * len(z))
        np.testing.assert_allclose(unpack(total.target_gram), y.T @ y, rtol=1e-12)


@given(
    lengths=st.lists(st.integers(4, 70), min_size=2, max_size=20),
    cut=st.integers(1, 19),
    washout=st.integers(0, 3),
)
@settings(max_examples=25)
def test_any_split_adds_up_to_the_whole(lengths: list[int], cut: int, washout: int) -> None:
    features = replace(FEATURES, washout=washout)
    sequences = recorded(lengths)
    cut = min(cut, len(sequences) - 1)
    parts = accumulate(features, sequences[:cut]) + accumulate(features, sequences[cut:])
    whole = accumulate(features, sequences)
    assert parts.n_rows == whole.n_rows
    np.testing.assert_allclose(parts.gram, whole.gram, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(parts.cross, whole.cross, rtol=1e-11, atol=1e-11)


def test_the_readout_is_that_of_scikit_learn() -> None:
    sequences = recorded([300, 200])
    z, y, _ = rows(FEATURES, sequences)
    theirs = Ridge(alpha=1e-3, solver="svd").fit(z, y)
    ours = accumulate(FEATURES, sequences).solve(1e-3)
    np.testing.assert_allclose(ours(z), theirs.predict(z), rtol=0, atol=1e-8)


def test_memory_does_not_grow_with_the_sequence() -> None:
    def peak(n_steps: int) -> int:
        features, sequences = long_sequence(n_steps)
        accumulate(features, sequences, threads=1)
        tracemalloc.start()
        accumulate(features, sequences, threads=1)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    states = 60_000 * 31 * 8
    assert peak(80_000) - peak(20_000) < 0.1 * states


def test_wrong_arguments_are_named() -> None:
    good, other = recorded([20, 20])
    with pytest.raises(ValueError, match="no recordings were given"):
        accumulate(FEATURES, [])
    with pytest.raises(ValueError, match="recording 1 has no targets"):
        accumulate(FEATURES, [good, Recording(other.u)])
    with pytest.raises(ValueError, match="recording 1 has 3 target columns, the ones before it 2"):
        accumulate(FEATURES, [good, Recording(other.u, np.zeros((20, 3)))])
    with pytest.raises(ValueError, match="recording 0 has a target per step, but pooled"):
        accumulate(EchoState.of(RESERVOIR, pool="last"), [good])
    gap = Recording(np.where(np.arange(20)[:, None] == 4, np.nan, other.u), other.y)
    with pytest.raises(ValueError, match="recording 1 is not finite at row 4"):
        accumulate(FEATURES, [good, gap])
    for sequences in ([good], [good] * 40):
        with pytest.raises(ValueError, match="threads is 0; pass 1 or more"):
            accumulate(FEATURES, sequences, threads=0)


@pytest.mark.parametrize("pool", [None, "mean_std"])
@pytest.mark.parametrize("n", [3, 600])
def test_rows_come_along_without_changing_a_bit_of_the_sums(pool: Pool | None, n: int) -> None:
    features = EchoState.of(RESERVOIR, pool=pool, washout=2)
    sequences = [
        replace(s, y=s.y if pool is None else s.y[0], per_step=pool is None, weight=1.0 + k % 3)
        for k, s in enumerate(recorded([7 + k % 5 for k in range(n)]))
        if s.y is not None
    ]
    found = list[Array]()
    assert accumulate(features, sequences, rows=found) == accumulate(features, sequences)
    z = np.concatenate(found)
    alone = np.concatenate([features(s.u) for s in sequences])
    np.testing.assert_allclose(z, alone, rtol=1e-9, atol=1e-12)
