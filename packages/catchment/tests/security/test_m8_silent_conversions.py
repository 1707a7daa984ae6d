"""M8: values that are no real numbers are refused with a sentence, wherever they enter.

On the code that was reviewed complex inputs lost their imaginary part, masked arrays their mask,
dates became integers, and targets of 1e150 gave weights of 1e150.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from catchment import (
    EchoState,
    Recording,
    Reservoir,
    as_numbers,
    fit,
    refuse_nonfinite,
)
from catchment.data import Moments, Scaler, from_frame
from catchment.readout import RidgeStatistics
from catchment.sklearn import EchoStateClassifier, EchoStateRegressor

N = 40
WAVE = 1.0 + 0.9 * np.sin(np.arange(N) / 3)
DAYS = np.datetime64("2026-01-01") + np.arange(N)
BAD: dict[str, tuple[Any, str]] = {
    "complex": (WAVE + 1j, "complex numbers; pass the real and the imaginary part"),
    "masked": (np.ma.masked_greater(WAVE, 0.5), r"mask, which would be lost; pass .filled\(np.nan"),
    "a mask of nothing": (np.ma.array(WAVE), "mask"),
    "dates": (DAYS, "times; pass numbers, and times as seconds in times="),
    "durations": (DAYS - DAYS[0], "times; pass numbers"),
    "text": (np.array(["1.5"] * N), "text; convert it to numbers"),
    "bytes": (np.array([b"1.5"] * N), "text"),
    "complex objects": (np.array([1.0] * (N - 1) + [1j], dtype=object), "complex"),
    "text among objects": (np.array([1.0] * (N - 1) + ["2"], dtype=object), "text"),
    "dates as objects": ([dt.datetime(2026, 1, 1)] * N, "times"),
    "fields": (np.zeros(N, dtype=[("a", "f8"), ("b", "f8")]), "several fields"),
    "things": ([object()] * N, "not numeric"),
    "too large": (
        np.where(np.arange(N) == 7, 1e101, WAVE),
        "are 1e.101 at row 7; scale the values",
    ),
    "too far below": (np.where(np.arange(N) == 7, -1e150, WAVE), "scale the values"),
    "infinite": (np.where(np.arange(N) == 7, np.inf, WAVE), "infinite at row 7"),
}
MODEL = fit(EchoState(5, washout=5), [Recording(WAVE[:-1], WAVE[1:])])
REGRESSOR = EchoStateRegressor(units=5, pool=None, washout=2)
CLASSIFIER = EchoStateClassifier(units=5, pool=None, washout=2)
MAP = EchoState.of(Reservoir(units=5, inputs=1))
ENTRANCES: dict[str, Callable[[Any], object]] = {
    "inputs": lambda bad: Recording(bad),
    "targets per step": lambda bad: Recording(WAVE, bad),
    "a target per recording": lambda bad: Recording(WAVE, bad, per_step=False),
    "labeled": lambda bad: Recording.labeled(bad, 0, 2),
    "an input column": lambda bad: from_frame({"x": bad}, inputs="x"),
    "a target column": lambda bad: from_frame({"x": WAVE, "y": bad}, inputs="x", target="y"),
    "moments": lambda bad: Moments.of([bad]),
    "a map": lambda bad: MAP(bad),
    "predict": lambda bad: MODEL.predict(bad),
    "X": lambda bad: REGRESSOR.fit(np.asanyarray(bad)[:, None], WAVE),
    "y": lambda bad: REGRESSOR.fit(WAVE[:, None], bad),
    "several sequences": lambda bad: REGRESSOR.fit([np.asanyarray(bad)[:, None]] * 2, [WAVE] * 2),
    "targets of several": lambda bad: REGRESSOR.fit([WAVE[:, None]] * 2, [bad] * 2),
    "sample_weight": lambda bad: REGRESSOR.fit(WAVE[:, None], WAVE, bad),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_what_is_no_real_number_is_refused_at_every_entrance(entrance: str) -> None:
    for kind, (bad, _) in BAD.items():
        try:
            ENTRANCES[entrance](bad)
        except (ValueError, TypeError):
            continue
        pytest.fail(f"{entrance} takes {kind}")


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_numbers_pass_every_entrance(entrance: str) -> None:
    ENTRANCES[entrance](WAVE)


@pytest.mark.parametrize("kind", BAD)
def test_the_sentence_says_what_to_do(kind: str) -> None:
    bad, words = BAD[kind]
    with pytest.raises(ValueError, match=words):
        Recording(bad)
    with pytest.raises(ValueError, match=words):
        Recording(WAVE, bad)


def test_a_list_of_masked_rows_is_seen_through() -> None:
    rows: Any = [np.ma.array([1.0, 2.0], mask=[False, True])] * 3
    with pytest.raises(ValueError, match="mask"):
        Recording(rows)


def test_truth_values_whole_numbers_and_missing_values_stay() -> None:
    def inputs(given: Any) -> list[float]:
        values: list[float] = Recording(given).u.ravel().tolist()
        return values

    assert inputs([True, False, True]) == [1.0, 0.0, 1.0]
    assert inputs(np.array([1, 2], dtype=np.int8)) == [1.0, 2.0]
    assert np.isnan(inputs([1.0, None, np.nan])).tolist() == [False, True, True]
    assert inputs(np.array([1, 2.5, True], dtype=object)) == [1.0, 2.5, 1.0]
    assert inputs([1e100, -1e100]) == [1e100, -1e100]
    (one,) = from_frame({"x": [True, False], "y": [1, 2]}, inputs="x", target="y")["all"]
    assert one.u.ravel().tolist() == [1.0, 0.0]


@pytest.mark.parametrize("weight", [1j, "2", np.inf, np.nan, -1.0, 1e101, [1.0, 2.0], DAYS[0]])
def test_a_weight_is_one_real_number(weight: Any) -> None:
    with pytest.raises(ValueError, match="weight"):
        Recording(WAVE, weight=weight)
    single: Any = np.float32(2)
    assert Recording(WAVE, weight=single).weight == 2.0


def test_times_are_seconds() -> None:
    with pytest.raises(ValueError, match=r"pass seconds, such as \(t - t\[0\]\)"):
        Recording(WAVE, times=DAYS)  # type: ignore[arg-type]
    seconds = (DAYS - DAYS[0]) / np.timedelta64(1, "s")
    timed = Recording(WAVE, times=seconds)
    assert timed.times is not None
    assert timed.times[1] == 86_400.0


def test_labels_may_be_text_but_have_no_mask() -> None:
    labels = np.where(WAVE > 1, "up", "down")
    fitted = CLASSIFIER.fit(WAVE[:, None], labels)
    assert set(fitted.predict(WAVE[:, None])) <= {"up", "down"}
    with pytest.raises(ValueError, match="y has a mask"):
        CLASSIFIER.fit(WAVE[:, None], np.ma.array(labels))


def test_scalers_take_numbers_alone() -> None:
    scaler = Scaler.from_moments(Moments.of([WAVE]))
    for kind in ("complex", "masked", "dates", "text"):
        with pytest.raises(ValueError):
            scaler(BAD[kind][0])


def test_statistics_refuse_what_would_overflow() -> None:
    z = np.ones((3, 2))
    with pytest.raises(ValueError, match=r"targets are 1e.150 at row 1"):
        RidgeStatistics.from_states(z, np.array([[0.0], [1e150], [0.0]]))
    refuse_nonfinite(np.empty((0, 2)), "nothing")
    refuse_nonfinite(np.array([np.nan, 1.0]), "missing", missing=True)
    with pytest.raises(ValueError, match=r"1e.101"):
        refuse_nonfinite(np.array([np.nan, 1e101]), "large", missing=True)
    assert as_numbers(3, "one").shape == ()
