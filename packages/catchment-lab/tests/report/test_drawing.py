"""Signals of a person that are drawn: their places, their truth, their size, and the picture."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment import NVAR, EchoState, Pipeline, Plan, Preprocessing, Recording, federate, fit
from catchment.federation.learn import FederatedAnomalyDetector
from catchment_lab.diagnose import (
    DrawnRecording,
    Segment,
    draw,
    signal_chart,
    thinned,
)

CLASSES = ("fast", "slow")


def waves(n: int, steps: int = 40, *, timed: bool = False) -> list[Recording]:
    """Return n waves, every other one slow."""
    made = []
    for k in range(n):
        u = np.sin(np.arange(steps) / (2 + 3 * (k % 2)) + k)
        times = 1e9 + 0.5 * np.arange(float(steps)) if timed else None
        y = np.eye(2)[k % 2]
        made.append(Recording(u, y, per_step=False, times=times, classes=CLASSES))
    return made


def test_a_segment_says_what_the_model_says() -> None:
    data = waves(6)
    model = fit(EchoState(5), data)
    for k, one in enumerate(data):
        drawn = draw(model, one, "ann")
        (segment,) = drawn.segments
        np.testing.assert_array_equal(drawn.signals, one.u)
        assert (segment.start, segment.end) == (0, 40)
        assert (segment.predicted, segment.truth) == (model.predict(one), CLASSES[k % 2])
        assert 0.5 <= (segment.probability or 0) <= 1


def test_time_is_in_seconds_from_zero_where_it_is_known() -> None:
    data = waves(4, timed=True)
    drawn = draw(fit(EchoState(5), data), data[0], "ann")
    assert drawn.unit == "second"
    assert [(segment.start, segment.end) for segment in drawn.segments] == [(0.0, 20.0)]
    assert drawn.times[0] == 0


def test_windows_that_overlap_end_where_the_next_begins() -> None:
    labels = np.repeat(np.eye(2), 60, axis=0)
    u = np.sin(np.arange(120) / np.repeat([1.0, 8.0], 60))
    one = Recording(u, labels, classes=CLASSES)
    preprocessing = Preprocessing(window=20, step=5, label="majority", scale="none")
    model = fit(Pipeline(preprocessing, EchoState(20)), [one])
    segments = draw(model, one).segments
    assert segments[0].start == 0
    assert segments[-1].end == 120
    assert all(a.end == b.start for a, b in pairwise(segments))
    # What goes on as it was is one segment: truth changes once.
    assert 2 <= len(segments) <= 6


def test_numbers_are_those_of_the_model_and_the_targets() -> None:
    u = np.sin(np.arange(200.0) / 5)
    one = Recording(u, channels=("load",))
    model = fit(Pipeline(Preprocessing(horizon=3), EchoState(20, washout=10)), [one])
    drawn = draw(model, one)
    assert drawn.output == "load"
    predicted = np.array([segment.predicted for segment in drawn.segments], dtype=float)
    np.testing.assert_allclose(predicted, model.predict(one).ravel())
    truth = np.array([segment.truth for segment in drawn.segments[:-3]], dtype=float)
    np.testing.assert_allclose(truth, u[13:])
    assert [segment.truth for segment in drawn.segments[-3:]] == [None] * 3
    assert [segment.start for segment in drawn.segments] == list(range(10, 200))
    assert not drawn.names_classes


def test_missing_labels_and_values_are_drawn_as_missing() -> None:
    data = waves(6)
    model = fit(EchoState(5), data)
    gap = np.array(data[0].u)
    gap[7] = np.nan
    unknown = Recording(gap, np.full(2, np.nan), per_step=False, classes=CLASSES)
    drawn = draw(model, unknown, "ann")
    assert drawn.segments[0].truth is None
    assert not drawn.segments[0].is_wrong
    back = DrawnRecording.from_dict(json.loads(json.dumps(drawn.to_dict(), allow_nan=False)))
    assert np.isnan(back.signals[7]).all()
    np.testing.assert_allclose(back.signals, drawn.signals, rtol=1e-4)


def test_a_detector_has_its_scores_and_its_threshold() -> None:
    rng = np.random.default_rng(0)
    clients = {f"m{k}": [Recording(rng.normal(size=(400, 2)))] for k in range(3)}
    features = NVAR(delays=2, order=1, washout=1).build(2, per_step=True)
    plan = Plan(algorithm=FederatedAnomalyDetector(features=features), rounds=2)
    model = federate(plan, clients).result
    drawn = draw(model, clients["m0"][0], "m0")
    assert drawn.threshold == model.threshold
    assert len(drawn.scores)
    assert 'class="mark"' in signal_chart(drawn)


@given(
    values=st.lists(st.floats(-1e6, 1e6) | st.just(np.nan), min_size=1, max_size=3000),
    most=st.integers(10, 200),
)
def test_thinning_keeps_the_reach(values: list[float], most: int) -> None:
    signals = np.array(values)[:, None]
    times, kept = thinned(np.arange(float(len(values))), signals, most)
    assert len(times) == len(kept) <= max(most, min(len(values), most))
    assert (np.diff(times) >= 0).all()
    known = kept[np.isfinite(kept)]
    assert np.isin(known, signals).all()
    if not np.isnan(signals).any():
        assert known.min() == signals.min()
        assert known.max() == signals.max()


@given(
    st.text(max_size=8),
    st.lists(st.tuples(st.floats(0, 9), st.none() | st.text() | st.floats(-1, 1)), max_size=4),
)
def test_it_comes_back_from_json(client: str, said: list[tuple[float, str | float | None]]) -> None:
    segments = tuple(Segment(round(t, 3), round(t, 3) + 1, truth, "é<&") for t, truth in said)
    one = DrawnRecording(client, ("x", "y"), np.arange(3.0), np.ones((3, 2)), segments, "out")
    back = DrawnRecording.from_dict(json.loads(json.dumps(one.to_dict())))
    assert (back.client, back.channels, back.output, back.unit) == (
        client,
        ("x", "y"),
        "out",
        "step",
    )
    np.testing.assert_array_equal(back.signals, one.signals)
    for mine, theirs in zip(segments, back.segments, strict=True):
        assert mine.start == pytest.approx(theirs.start)
        assert mine.truth == pytest.approx(theirs.truth, abs=1e-4)


def segments_of(*said: tuple[str, str]) -> tuple[Segment, ...]:
    return tuple(Segment(k, k + 1.0, truth, guess, 0.5) for k, (truth, guess) in enumerate(said))


def drawing(segments: tuple[Segment, ...], channels: int = 2) -> DrawnRecording:
    names = tuple(f"c{k}" for k in range(channels))
    return DrawnRecording("ann", names, np.arange(9.0), np.ones((9, channels)), segments)


def test_a_mistake_is_marked_in_the_row_of_what_was_said() -> None:
    chart = signal_chart(drawing(segments_of(("a", "a"), ("a", "b"), ("b", "b"))))
    bars = re.findall(r'<rect class="(truth|right|wrong)" x="([\d.]+)" y="([\d.]+)"', chart)
    assert [kind for kind, *_ in bars] == ["truth", "right", "truth", "wrong", "truth", "right"]
    truth, wrong = bars[2], bars[3]
    assert truth[1] == wrong[1]  # at the same time
    assert float(wrong[2]) > float(truth[2]) + 10  # in another row
    assert "steps 1 to 2: true a, predicted b (50 %)" in chart
    assert "1 of 3 segments with a label are wrong." in chart


def test_many_channels_and_classes_stay_readable() -> None:
    many = segments_of(*((f"class {k:02d}", f"class {k:02d}") for k in range(40)))
    chart = signal_chart(drawing(many, channels=6 + 3))
    assert "and 3 more channels, not drawn" in chart
    assert chart.count('class="signal"') == 6
    assert ">others</text>" in chart
    rows = set(re.findall(r'<rect class="right" x="[\d.]+" y="([\d.]+)"', chart))
    assert len(rows) == 12


def test_signals_without_values_or_labels_can_be_drawn() -> None:
    segments = (Segment(0.0, 1.0, None, "a"), Segment(1.0, 2.0, None, "b"))
    assert signal_chart(drawing(segments)).count('class="truth"') == 0
    nothing = DrawnRecording("x", ("u",), np.zeros(0), np.zeros((0, 1)), ())
    assert signal_chart(nothing).startswith("<svg")
    lost = replace(drawing(()), signals=np.full((9, 2), np.nan))
    assert "nan" not in signal_chart(lost).lower()
    numbers = (Segment(0.0, 1.0, 2.0, 2.5), Segment(1.0, 2.0, None, 3.0))
    assert signal_chart(drawing(numbers)).count("<polyline") == 2 + 2
