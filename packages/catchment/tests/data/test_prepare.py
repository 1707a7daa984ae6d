from __future__ import annotations

import json
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import StandardScaler

from catchment import Array
from catchment.data import RAW, Moments, Prepared, Preprocessing, Recording, Scaler

nan = np.nan


@st.composite
def recordings(draw: st.DrawFn, targets: bool = True) -> list[Recording]:
    """Return up to four recordings of two channels with times, gaps and targets of one kind."""
    kind = draw(st.sampled_from(["none", "steps", "classes", "whole"] if targets else ["none"]))
    made = []
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(1, 30))
        value = st.one_of(st.just(nan), st.integers(-900, 900).map(lambda n: n / 64))
        u = draw(arrays(np.float64, (n, 2), elements=value))
        gaps = draw(arrays(np.float64, n, elements=st.sampled_from([0.5, 1.0, 1.1, 4.0])))
        y: Any = None
        if kind == "steps":
            y = draw(arrays(np.float64, (n, 1), elements=st.floats(-5, 5)))
        elif kind == "classes":
            y = np.eye(3)[draw(arrays(np.int64, n, elements=st.integers(0, 2)))]
        elif kind == "whole":
            y = np.eye(3)[draw(st.integers(0, 2))]
        made.append(
            Recording(u, y, per_step=None if y is None else y.ndim == 2, times=gaps.cumsum())
        )
    return made


@st.composite
def prepares(draw: st.DrawFn) -> Preprocessing:
    window = draw(st.sampled_from([None, 1, 3, "8s"]))
    scaler = Scaler(np.array([1.0, -2.0]), np.array([0.5, 3.0]))
    return Preprocessing(
        gaps=draw(st.sampled_from(["hold", "interpolate", "restart"])),
        rate=draw(st.sampled_from([None, 0.7, 1.0, 2.0])),
        window=window,
        step=None if window is None else draw(st.sampled_from([None, 1, 2, "4s"])),
        scale=draw(st.sampled_from([cast(Any, "none"), scaler])),
    )


def same(one: Recording, other: Recording) -> bool:
    def equal(a: Array | None, b: Array | None) -> bool:
        if a is None or b is None:
            return a is b
        return np.array_equal(a, b, equal_nan=True)

    arrays_agree = equal(one.u, other.u) and equal(one.y, other.y) and equal(one.times, other.times)
    return arrays_agree and one.weight == other.weight and one.per_step == other.per_step


def applied(preprocessing: Preprocessing, data: list[Recording]) -> list[Recording]:
    """Return nothing where the preparation says that nothing remains."""
    try:
        return preprocessing.apply(data)
    except ValueError as error:
        if "as long as a window" in str(error) or "lacks an input" in str(error):
            return []
        raise


@given(preprocessing=prepares(), data=recordings())
def test_a_list_is_prepared_as_each_of_its_recordings_alone(
    preprocessing: Preprocessing, data: list[Recording]
) -> None:
    together = applied(preprocessing, data)
    alone = [made for one in data for made in applied(preprocessing, [one])]
    assert len(together) == len(alone)
    assert all(same(a, b) for a, b in zip(together, alone, strict=True))


@given(preprocessing=prepares(), data=recordings(), own=st.booleans())
def test_training_and_prediction_see_the_same_inputs(
    preprocessing: Preprocessing, data: list[Recording], own: bool
) -> None:
    preprocessing = replace(preprocessing, scale="own") if own else preprocessing
    trained = applied(preprocessing, data)
    assume(trained)
    predicted = preprocessing.inputs(data)
    assert len(trained) == len(predicted)
    for one, other in zip(trained, predicted, strict=True):
        np.testing.assert_array_equal(one.u, other.u)
        assert not np.isnan(one.u).any()
        assert other.recording.y is None
        assert one.times is not None
        assert other.seconds == one.times[0]


@given(preprocessing=prepares(), data=recordings(targets=False), horizon=st.integers(1, 5))
def test_with_a_horizon_training_and_prediction_see_the_same_inputs(
    preprocessing: Preprocessing, data: list[Recording], horizon: int
) -> None:
    ahead = replace(preprocessing, horizon=horizon)
    trained = applied(ahead, data)
    assume(trained)
    for one, other in zip(trained, ahead.inputs(data), strict=True):
        np.testing.assert_array_equal(one.u, other.u)


@given(n=st.integers(1, 60), window=st.integers(1, 20))
def test_windows_that_follow_on_each_other_tile_the_recording(n: int, window: int) -> None:
    assume(n >= window)
    made = Preprocessing(scale="none", window=window).inputs([Recording(np.arange(float(n)))])
    kept = np.concatenate([piece.u[:, 0] for piece in made])
    np.testing.assert_array_equal(kept, np.arange(float(n - n % window)))
    assert [piece.start for piece in made] == [int(piece.u[0, 0]) for piece in made]


@given(n=st.integers(1, 60), window=st.integers(1, 20), step=st.integers(1, 30))
def test_windows_are_those_of_a_sliding_view(n: int, window: int, step: int) -> None:
    assume(n >= window)
    u = np.random.default_rng(n).normal(size=(n, 2))
    made = Preprocessing(scale="none", window=window, step=step).inputs([Recording(u)])
    views = np.lib.stride_tricks.sliding_window_view(u, window, axis=0)[::step]
    np.testing.assert_array_equal([piece.u for piece in made], views.transpose(0, 2, 1))


@given(u=arrays(np.float64, (40, 3), elements=st.floats(-100, 100)), n=st.integers(1, 5))
def test_the_fitted_scale_is_that_of_sklearn_on_the_pool(u: Array, n: int) -> None:
    u = np.round(u, 3)
    assume((u.std(axis=0) > 1e-2).all())
    preprocessing = Preprocessing()
    parts = [preprocessing.moments([Recording(part)]) for part in np.array_split(u, n)]
    ready = preprocessing.fitted(reduce(add, parts))
    assert ready.is_fitted
    theirs = StandardScaler().fit(u)
    assert isinstance(ready.scale, Scaler)
    # The sum of squares about zero loses the digits that the mean has more than the deviation.
    digits = float((1 + (u.mean(axis=0) / u.std(axis=0)) ** 2).max())
    np.testing.assert_allclose(ready.scale.scale, theirs.scale_, rtol=1e-12 * max(1.0, digits))
    np.testing.assert_allclose(ready.scale.mean, theirs.mean_, rtol=1e-12, atol=1e-12)


def test_the_fitted_scale_is_that_of_sklearn_to_twelve_digits() -> None:
    u = np.random.default_rng(0).normal(2.0, 3.0, (500, 4))
    preprocessing = Preprocessing()
    ready = preprocessing.fitted(preprocessing.moments([Recording(u[:200]), Recording(u[200:])]))
    (made,) = ready.apply([Recording(u)])
    np.testing.assert_allclose(made.u, StandardScaler().fit_transform(u), rtol=0, atol=1e-12)


@given(
    rate=st.floats(0.01, 1000),
    start=st.sampled_from([0.0, -3.5, 1e5, 1.7e9]),
    u=arrays(np.float64, (20, 2), elements=st.one_of(st.just(nan), st.floats(-10, 10))),
)
def test_at_the_recorded_rate_a_recording_stays_itself(rate: float, start: float, u: Array) -> None:
    raw = Recording(u, times=start + np.arange(20) / rate)
    preprocessing = Preprocessing(rate=rate, scale="none", gaps="error")
    if np.isnan(u).any():
        with pytest.raises(ValueError, match="has no input"):
            preprocessing.apply([raw])
    else:
        (made,) = preprocessing.apply([raw])
        assert made is raw


@given(
    times=st.lists(st.integers(0, 40), min_size=2, max_size=20, unique=True).map(sorted),
    rate=st.sampled_from([1.0, 2.0, 4.0]),
)
def test_resampling_interpolates_in_time_as_pandas_does(times: list[int], rate: float) -> None:
    # Steps lie on quarters of a second, no further apart than pandas is asked to bridge.
    seconds = np.array(times) / 4
    assume(np.diff(seconds).max() <= 2.5 * max(np.median(np.diff(seconds)), 1 / rate))
    u = np.random.default_rng(len(times)).normal(size=len(times))
    (made,) = Preprocessing(rate=rate, gaps="error", scale="none").apply(
        [Recording(u, times=seconds)]
    )
    assert made.times is not None
    grid = np.arange(seconds[0], seconds[-1] + 1e-9, 1 / rate)
    both = pd.Series(u, seconds).reindex(np.union1d(seconds, grid)).interpolate("index")
    np.testing.assert_allclose(made.times, grid)
    np.testing.assert_allclose(made.u[:, 0], both[grid], atol=1e-12)


def test_a_long_gap_in_time_is_missing_and_goes_to_the_gap_policy() -> None:
    times = np.array([0.0, 1.0, 2.0, 6.0, 7.0])
    raw = Recording(np.array([0.0, 1.0, 2.0, 6.0, 7.0]), y=np.arange(5.0), times=times)
    (held,) = Preprocessing(rate=1, scale="none").apply([raw])
    assert held.u[:, 0].tolist() == [0, 1, 2, 2, 2, 2, 6, 7]
    assert held.y is not None
    np.testing.assert_array_equal(held.y[:, 0], [0, 1, 2, nan, nan, nan, 3, 4])
    first, second = Preprocessing(rate=1, scale="none", gaps="restart").inputs([raw])
    assert (first.start, first.seconds, second.start, second.seconds) == (0, 0.0, 6, 6.0)
    (slow,) = Preprocessing(rate=0.5, scale="none", gaps="error").apply([raw])
    assert slow.u[:, 0].tolist() == [0, 2, 4, 6], "two intervals of the new rate are no gap"


def test_of_a_pause_no_window_is_made_up() -> None:
    times = np.arange(100) / 10
    times[50:] += 60.0
    raw = Recording.labeled(np.arange(100.0), 1, 3)
    raw = replace(raw, times=times)
    preprocessing = Preprocessing(rate=10, window="1s", scale="none")
    made = preprocessing.inputs([raw])
    assert [one.start for one in made] == [*range(0, 50, 10), *range(650, 700, 10)]
    assert [one.start for one in preprocessing.inputs([raw])] == [one.start for one in made]
    assert len(preprocessing.apply([raw])) == len(made)
    for gaps in ("hold", "interpolate", "restart"):
        u = np.arange(20.0)
        u[7:17] = nan
        windows = Preprocessing(gaps=gaps, window=4, scale="none").inputs([Recording(u)])
        assert 8 not in [one.start for one in windows]
        assert 12 not in [one.start for one in windows]


@pytest.mark.parametrize("gaps", ["hold", "interpolate", "restart"])
def test_a_recording_without_a_value_is_left_out_unless_nothing_remains(gaps: Any) -> None:
    silent, good = Recording(np.full((9, 2), nan)), Recording(np.ones((9, 2)))
    for window in (None, 3):
        preprocessing = Preprocessing(gaps=gaps, window=window, scale="none")
        assert {one.source for one in preprocessing.inputs([silent, good, silent])} == {1}
        with pytest.raises(ValueError, match="every step of 1 recordings lacks an input"):
            preprocessing.inputs([silent])


def test_a_slow_channel_beside_a_fast_one_is_no_channel_of_gaps() -> None:
    u = np.stack([np.arange(21.0), np.where(np.arange(21) % 10 == 0, np.arange(21.0), nan)], axis=1)
    (made,) = Preprocessing(rate=2, scale="none", gaps="error").apply(
        [Recording(u, times=np.arange(21.0))]
    )
    np.testing.assert_allclose(made.u[:, 0], made.u[:, 1])


def test_classes_per_step_are_those_of_the_nearest_step() -> None:
    y = np.eye(2)[[0, 1, 0]]
    raw = Recording(np.zeros(3), y, times=np.array([0.0, 1.0, 2.0]))
    (made,) = Preprocessing(rate=4, scale="none").apply([raw])
    assert made.y is not None
    assert made.y.argmax(axis=1).tolist() == [0, 0, 0, 1, 1, 1, 1, 0, 0]
    whole = Recording.labeled(np.zeros(3), 1, 3)
    (kept,) = Preprocessing(rate=4, scale="none").apply([replace(whole, times=np.arange(3.0))])
    assert kept.y is not None
    assert kept.y.tolist() == [0.0, 1.0, 0.0]


def test_a_rate_without_times_and_times_that_are_no_seconds_are_refused() -> None:
    with pytest.raises(ValueError, match="has no times, so it cannot be brought to 50 Hz"):
        Preprocessing(rate=50, scale="none").apply([Recording(np.zeros(3))])
    with pytest.raises(ValueError, match="check that its times are seconds"):
        Preprocessing(rate=50, scale="none").apply(
            [Recording(np.zeros(2), times=np.array([0.0, 1e9]))]
        )
    rows = Recording(np.zeros(50), times=np.arange(0.0, 1000.0, 20.0))  # of 50 Hz, in milliseconds
    with pytest.raises(ValueError, match="50 steps over 980 s would have 49001 steps at 50 Hz"):
        Preprocessing(rate=50, scale="none").apply([rows])
    hourly = replace(rows, times=np.arange(0.0, 180_000.0, 3600.0))
    assert len(Preprocessing(rate=1 / 60, scale="none").apply([hourly])[0].u) == 49 * 60 + 1


def test_raw_returns_the_recordings_themselves() -> None:
    data = [Recording(np.array([1.0, nan]), np.ones(2)), Recording(np.zeros((3, 4)))]
    assert all(a is b for a, b in zip(RAW.apply(data), data, strict=True))
    places = [(piece.source, piece.start) for piece in RAW.inputs(data)]
    assert places == [(0, 0), (1, 0)]
    assert RAW.inputs(data)[1].recording is data[1]
    assert RAW.is_fitted


@pytest.mark.parametrize(
    ("label", "expected"),
    [("last", [[0, 1], [1, 0], [nan, nan]]), ("majority", [[1, 0], [1, 0], [nan, nan]])],
)
def test_a_window_takes_its_class_from_its_steps(label: Any, expected: Any) -> None:
    y = np.eye(2)[[0, 0, 1, 1, 1, 0, 0, 0, 0]]
    y[3], y[6:] = nan, nan
    (*made,) = Preprocessing(window=3, label=label, scale="none").apply([Recording(np.zeros(9), y)])
    np.testing.assert_array_equal([one.y for one in made], expected)
    assert [one.per_step for one in made] == [False] * 3


@pytest.mark.parametrize(("label", "expected"), [("last", [nan, 5.0]), ("mean", [0.5, 4.0])])
def test_a_window_takes_its_number_from_its_steps(label: Any, expected: Any) -> None:
    y = np.array([0.0, 1.0, nan, 3.0, 4.0, 5.0, 6.0])
    made = Preprocessing(window=3, label=label, scale="none").apply([Recording(np.zeros(7), y)])
    np.testing.assert_array_equal([one.y for one in made], np.array(expected)[:, None])


def test_a_label_rule_that_does_not_fit_the_targets_is_refused() -> None:
    classes, numbers = Recording(np.zeros(4), np.eye(4)), Recording(np.zeros(4), np.arange(4.0))
    with pytest.raises(ValueError, match=r'"mean", but the targets of recording 0 are classes'):
        Preprocessing(window=2, label="mean", scale="none").apply([classes])
    with pytest.raises(ValueError, match=r'"majority", but the targets of recording 1 are numbers'):
        Preprocessing(window=2, label="majority", scale="none").apply([classes, numbers])
    with pytest.raises(ValueError, match="inputs ahead in time are numbers"):
        Preprocessing(window=2, label="majority", horizon=1)


def test_windows_pass_on_a_target_per_recording_and_its_weight() -> None:
    raw = Recording.labeled(np.array([0.0, 1.0, nan, 3.0, 4.0, 5.0, 6.0]), 1, 3, weight=2.0)
    made = Preprocessing(window=2, gaps="restart", scale="none").apply([raw])
    assert [one.u[0, 0] for one in made] == [0.0, 3.0, 5.0]
    assert [one.weight for one in made] == [2.0] * 3
    assert all(one.y is not None and one.y.tolist() == [0, 1, 0] for one in made)


def test_a_window_after_a_gap_says_where_in_the_recording_it_starts() -> None:
    u = np.arange(9.0)
    u[3] = nan
    raw = Recording(u, times=10 + np.arange(9.0))
    made = Preprocessing(window=2, gaps="restart", scale="none").inputs([raw])
    assert [(one.u[0, 0], one.start, one.seconds) for one in made] == [
        (0.0, 0, 10.0),
        (4.0, 4, 14.0),
        (6.0, 6, 16.0),
    ]


def test_a_pause_does_not_lengthen_the_steps_that_a_duration_counts() -> None:
    times = np.arange(100) / 10
    times[50:] += 1000.0
    made = Preprocessing(window="2s", scale="none").inputs([Recording(np.zeros(100), times=times)])
    assert [len(one.u) for one in made] == [20] * 5


def test_windows_of_a_duration_count_steps_of_the_rate_or_of_the_recording() -> None:
    slow = Recording(np.zeros(100), times=np.arange(100) / 10)
    fast = Recording(np.zeros(100), times=np.arange(100) / 20)
    made = Preprocessing(window="2s", step="1s", scale="none").inputs([slow, fast])
    assert {(piece.source, len(piece.u)) for piece in made} == {(0, 20), (1, 40)}
    steady = Preprocessing(rate=20, window="2s", scale="none").inputs([slow, fast])
    assert {len(piece.u) for piece in steady} == {40}
    with pytest.raises(ValueError, match="window is '2s', but recording 1 has no times"):
        Preprocessing(window="2s", scale="none").apply([slow, Recording(np.zeros(9))])


def test_short_recordings_are_left_out_unless_nothing_remains() -> None:
    short, long = Recording(np.zeros(3)), Recording(np.zeros(7))
    made = Preprocessing(window=5, scale="none").inputs([short, long, short])
    assert [piece.source for piece in made] == [1]
    with pytest.raises(ValueError, match="no recording is as long as a window of 5, the longest h"):
        Preprocessing(window=5, scale="none").apply([short])
    with pytest.raises(ValueError, match="every step of 1 recordings lacks an input"):
        Preprocessing(gaps="restart", scale="none").apply([Recording(np.full(3, nan))])
    assert Preprocessing(window=5, scale="none").apply([]) == []


def test_a_horizon_makes_targets_of_raw_inputs_ahead() -> None:
    u = np.array([[1.0], [nan], [3.0], [4.0]])
    preprocessing = Preprocessing(horizon=2, scale=Scaler(np.ones(1), np.full(1, 2.0)))
    (made,) = preprocessing.apply([Recording(u)])
    assert made.y is not None
    np.testing.assert_array_equal(made.y[:, 0], [3.0, 4.0, nan, nan])
    np.testing.assert_array_equal(made.u[:, 0], [0.0, 0.0, 1.0, 1.5])
    (short,) = preprocessing.apply([Recording(np.zeros(2))])
    assert short.y is not None
    assert np.isnan(short.y).all()
    windows = replace(preprocessing, window=2, step=1).apply([Recording(np.arange(6.0))])
    np.testing.assert_array_equal([cast(Array, one.y)[0] for one in windows], [3, 4, 5, nan, nan])
    with pytest.raises(ValueError, match="recording 0 has targets, and a horizon of 2 steps"):
        preprocessing.apply([Recording(u, np.zeros(4))])
    assert len(preprocessing.inputs([Recording(u, np.zeros(4))])) == 1


def test_own_scale_is_that_of_the_recordings_handed_in_together() -> None:
    u = np.random.default_rng(0).normal(5.0, 2.0, (60, 2))
    made = Preprocessing(scale="own").apply([Recording(u[:20]), Recording(u[20:])])
    expected = StandardScaler().fit_transform(u)
    np.testing.assert_allclose(np.concatenate([one.u for one in made]), expected, atol=1e-12)


def test_recordings_may_be_scaled_each_by_its_own_moments_before_they_are_cut() -> None:
    u = np.random.default_rng(0).normal(5.0, 2.0, (60, 2))
    raw = [Recording(u[:20]), Recording(100 * u[20:] + 7)]
    preprocessing = Preprocessing(scale="recording", window=4)
    whole = [StandardScaler().fit_transform(one) for one in (u[:20], u[20:])]  # in whichever unit
    made = preprocessing.inputs(raw)
    assert [one.source for one in made] == [0] * 5 + [1] * 10
    for number, expected in enumerate(whole):
        found = np.concatenate([one.u for one in made if one.source == number])
        np.testing.assert_allclose(found, expected, atol=1e-12)
    alone = preprocessing.inputs(raw[1:])
    np.testing.assert_array_equal(alone[3].u, made[8].u)
    streamed = list(preprocessing.stream(iter(raw)))
    np.testing.assert_array_equal(streamed[-1].u, made[-1].u)
    gap = u[:20].copy()
    gap[8, 0] = nan
    after = Preprocessing(scale="recording", gaps="restart").inputs([Recording(gap)])[1]
    rest = StandardScaler().fit_transform(np.delete(gap, 8, axis=0))
    np.testing.assert_allclose(after.u, rest[8:], atol=1e-12)  # by the whole recording


def test_a_channel_without_values_is_zero_after_scaling_and_counts_in_no_moment() -> None:
    silent = Recording(np.array([[1.0, nan], [3.0, nan]]))
    loud = Recording(np.array([[5.0, 1000.0], [7.0, 1002.0]]))
    preprocessing = Preprocessing()
    moments = preprocessing.moments([silent, loud])
    assert moments.count.tolist() == [4, 2]
    assert moments.mean.tolist() == [4.0, 1001.0]
    first, second = preprocessing.fitted(moments).apply([silent, loud])
    assert first.u[:, 1].tolist() == [0.0, 0.0]
    assert second.u[:, 1].tolist() == [-1.0, 1.0]
    (bare,) = Preprocessing(scale="none").apply([silent])
    assert bare.u[:, 1].tolist() == [0.0, 0.0]


def test_fitting_is_asked_for_where_it_is_needed() -> None:
    preprocessing = Preprocessing()
    assert not preprocessing.is_fitted
    with pytest.raises(ValueError, match="not fitted yet"):
        preprocessing.apply([Recording(np.zeros(2))])
    with pytest.raises(ValueError, match="nothing to fit"):
        Preprocessing(scale="own").fitted(Scaler(np.zeros(1), np.ones(1)))
    again = preprocessing.fitted(Scaler(np.zeros(1), np.ones(1))).fitted(Moments.of([[1.0, 3.0]]))
    assert again.scale == Scaler(np.array([2.0]), np.array([1.0]))
    with pytest.raises(ValueError, match="2 channels, the scaler was fitted on 1"):
        again.apply([Recording(np.zeros((3, 2)))])


@given(
    preprocessing=prepares(),
    mean=arrays(np.float64, 3, elements=st.floats(-1e12, 1e12)),
    scale=arrays(np.float64, 3, elements=st.floats(1e-12, 1e12)),
)
def test_settings_go_through_json_and_come_back_exactly(
    preprocessing: Preprocessing, mean: Array, scale: Array
) -> None:
    for one in (
        preprocessing,
        replace(preprocessing, scale=Scaler(mean, scale)),
        Preprocessing(),
        RAW,
    ):
        back = Preprocessing.from_settings(json.loads(json.dumps(one.settings())))
        assert back == one
        assert hash(back) == hash(one)
        assert back.fingerprint == one.fingerprint
        if isinstance(one.scale, Scaler):
            assert isinstance(back.scale, Scaler)
            assert back.scale.mean.tobytes() == one.scale.mean.tobytes()
            assert back.scale.scale.tobytes() == one.scale.scale.tobytes()


def test_settings_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="no setting 'gap'; did you mean 'gaps'"):
        Preprocessing.from_settings({"gap": "hold"})
    with pytest.raises(ValueError, match=r"scale has the keys \['mean'\]"):
        Preprocessing.from_settings({"scale": {"mean": [0.0]}})
    assert Preprocessing.from_settings({}) == Preprocessing()


def test_the_fingerprint_changes_with_every_setting_that_could_change_a_prediction() -> None:
    scaler = Scaler(np.zeros(2), np.ones(2))
    base = Preprocessing(rate=50, window=250, scale=scaler)
    different = [
        base,
        replace(base, gaps="restart"),
        replace(base, rate=25),
        replace(base, window=125),
        replace(base, step=125),
        replace(base, label="mean"),
        replace(base, horizon=1),
        replace(base, scale="own"),
        replace(base, scale="none"),
        replace(base, scale="federated"),
        replace(base, scale=Scaler(np.array([0.0, 1e-300]), np.ones(2))),
        replace(base, scale=Scaler(np.zeros(2), np.array([1.0, np.nextafter(1.0, 2.0)]))),
        replace(base, window=None),
        replace(base, rate=None, window="5s"),
    ]
    prints = [one.fingerprint for one in different]
    assert len(set(prints)) == len(different)
    assert all(len(one) == 64 for one in prints)


def test_two_ways_to_say_one_thing_have_one_fingerprint() -> None:
    scaler = Scaler(np.zeros(2), np.ones(2))
    base = Preprocessing(rate=50, window=250, scale=scaler)
    for other in (
        Preprocessing(rate=50.0, window="5s", scale=scaler),
        Preprocessing(rate=50, window="5000ms", step="5s", scale=scaler),
        Preprocessing(rate=50, window=250, scale=Scaler(np.array([-0.0, 0.0]), np.ones(2))),
    ):
        assert other.fingerprint == base.fingerprint
    assert Preprocessing(label="mean").fingerprint == Preprocessing().fingerprint
    assert Preprocessing(window="1min").fingerprint == Preprocessing(window="60s").fingerprint


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"gaps": "guess"}, "gaps is 'guess'; give 'error', 'hold', 'interpolate' or 'restart'"),
        ({"scale": "all"}, "scale is 'all'; give 'none', 'recording', 'own' or 'federated'"),
        ({"label": "first"}, "label is 'first'"),
        ({"rate": 0}, "rate is 0; give a number, more than 0"),
        ({"rate": True}, "rate is True"),
        ({"rate": np.inf}, "rate is inf"),
        ({"window": 0}, "window is 0; give an integer, 1 or more"),
        ({"window": 2.5}, "window is 2.5"),
        ({"window": "5 apples"}, "window is '5 apples'; pass a number of steps, or a duration"),
        ({"window": "0s"}, "window is '0s'"),
        ({"window": "1ms", "rate": 50}, "less than one step of 0.02 s"),
        ({"step": 2}, "step is 2 without a window"),
        ({"window": 3, "step": -1}, "step is -1"),
        ({"horizon": 0}, "horizon is 0"),
        ({"horizon": True}, "horizon is True"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Preprocessing(**wrong)


def test_recordings_of_other_channels_are_refused_by_name() -> None:
    one = Recording(np.zeros((3, 2)), channels=("ax", "ay"))
    turned = replace(one, channels=("ay", "ax"))
    bare = Recording(np.zeros((3, 2)))
    for good in ([one, bare], [bare, one]):
        assert len(Preprocessing(scale="none").apply(good)) == 2
    with pytest.raises(
        ValueError, match="recording 1 has the channels ay, ax where ax, ay are exp"
    ):
        Preprocessing(scale="none").apply([one, turned])
    with pytest.raises(ValueError, match="recording 1 has 1 channels, recording 0 has 2"):
        Preprocessing(scale="none").apply([one, Recording(np.zeros(3))])
    with pytest.raises(ValueError, match="channels a, b where ax, ay are expected; pass these"):
        Preprocessing(scale="none").apply([bare, one, replace(one, channels=("a", "b"))])


def test_what_is_prepared_cannot_be_written_and_keeps_its_names() -> None:
    raw = Recording(np.arange(6.0), np.arange(6.0), channels=("x",))
    (first, _) = Preprocessing(window=3, label="mean", scale="own").apply([raw])
    assert first.channels == ("x",)
    for array in (first.u, cast(Array, first.y)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    assert isinstance(RAW.inputs([raw])[0], Prepared)
