"""Signals that a run's folder keeps to be drawn: their places, their truth, their size."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment import EchoState, Pipeline, Preprocessing, Recording, fit
from catchment.federation import read_run
from catchment.federation.measure import Scores
from catchment.federation.runs import (
    MOST_POINTS,
    MOST_RECORDINGS,
    DrawnRecording,
    Segment,
    draw,
    in_words,
    thinned,
)
from catchment.plans import best_and_worst, example_plan, parse_plan, run_plan

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


def small_plan(name: str, *changes: tuple[str, str]) -> str:
    text = example_plan(name)
    for old, new in (("users = 16", "users = 6"), ("units = 100", "units = 20"), *changes):
        text = text.replace(old, new)
    return text


def test_spans_say_what_the_model_says() -> None:
    data = waves(30)
    model = fit(EchoState(5), data)
    drawn = draw(model, data, "ann")
    assert len(drawn.segments) == MOST_RECORDINGS
    # A gap parts two recordings, and what is drawn is exactly one of them: find out which.
    for segment in drawn.segments:
        signal = drawn.signals[(drawn.times >= segment.start) & (drawn.times < segment.end)]
        (which,) = [k for k, one in enumerate(data) if np.array_equal(one.u, signal)]
        assert segment.predicted == model.predict(data[which])
        assert segment.truth == CLASSES[which % 2]
    assert all(0.5 <= (segment.probability or 0) <= 1 for segment in drawn.segments)
    assert all(b.start > a.end for a, b in pairwise(drawn.segments))


def test_up_to_half_of_what_is_drawn_are_mistakes() -> None:
    data = waves(40)
    model = fit(EchoState(5), data)
    for n_wrong, expected in ((0, 0), (3, 3), (30, 6), (40, 12)):
        flipped = [
            replace(one, y=one.y[::-1]) if k < n_wrong and one.y is not None else one
            for k, one in enumerate(data)
        ]
        drawn = draw(model, flipped, "ann")
        assert (len(drawn.segments), drawn.n_wrong) == (MOST_RECORDINGS, expected)


def test_time_is_in_seconds_from_zero_where_it_is_known() -> None:
    data = waves(4, timed=True)
    drawn = draw(fit(EchoState(5), data), data[:2], "ann")
    assert drawn.unit == "second"
    assert [(segment.start, segment.end) for segment in drawn.segments] == [
        (0.0, 20.0),
        (20.5, 40.5),
    ]
    assert drawn.times[0] == 0
    mixed = draw(fit(EchoState(5), data), [data[0], waves(1)[0]], "ann")
    assert mixed.unit == "step"


def test_windows_that_overlap_end_where_the_next_begins() -> None:
    labels = np.repeat(np.eye(2), 60, axis=0)
    u = np.sin(np.arange(120) / np.repeat([1.0, 8.0], 60))
    one = Recording(u, labels, classes=CLASSES)
    preprocessing = Preprocessing(window=20, step=5, label="majority", scale="none")
    model = fit(Pipeline(preprocessing, EchoState(20)), [one])
    segments = draw(model, [one]).segments
    assert segments[0].start == 0
    assert segments[-1].end == 120
    assert all(a.end == b.start for a, b in pairwise(segments))
    # What goes on as it was is one segment: truth changes once.
    assert 2 <= len(segments) <= 6


def test_numbers_are_those_of_the_model_and_the_targets() -> None:
    u = np.sin(np.arange(200.0) / 5)
    one = Recording(u, channels=("load",))
    model = fit(Pipeline(Preprocessing(horizon=3), EchoState(20, washout=10)), [one])
    drawn = draw(model, [one])
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
    drawn = draw(model, [unknown], "ann")
    assert drawn.segments[0].truth is None
    assert not drawn.segments[0].is_wrong
    back = DrawnRecording.from_dict(json.loads(json.dumps(drawn.to_dict(), allow_nan=False)))
    assert np.isnan(back.signals[7]).all()
    np.testing.assert_allclose(back.signals, drawn.signals, rtol=1e-4)
    with pytest.raises(ValueError, match="no recordings"):
        draw(model, [], "ann")


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


def test_a_run_keeps_the_best_and_the_worst(tmp_path: Path) -> None:
    run_plan(parse_plan(small_plan("wearables")), tmp_path / "run")
    run = read_run(tmp_path / "run")
    values = {name: score["accuracy"] for name, score in run.scores.items() if name}
    assert 1 <= len(run.drawn) <= 2
    assert values[run.drawn[0].client] == max(values.values())
    assert values[run.drawn[-1].client] == min(values.values())
    assert all(len(one.times) <= MOST_POINTS for one in run.drawn)
    told = in_words(run, [])
    assert f"of {run.drawn[-1].client}, a test client, with the truth, to be drawn" in told
    assert len(run.facts["drawn"]) < 200_000


def test_folds_draw_with_the_model_that_has_not_seen_the_client(tmp_path: Path) -> None:
    bare = ('baselines = ["', 'baselines = [] # ["')
    changes = (
        bare,
        ("test = 0.25", 'test = "folds"'),
        ("_user = 40", f"_user = {MOST_RECORDINGS}"),
    )
    run = run_plan(parse_plan(small_plan("wearables", *changes)), tmp_path / "run").run
    values = {name: score["accuracy"] for name, score in run.scores.items() if name}
    assert len(values) == 6
    assert min(values.values()) < 1
    assert run.drawn
    for one in run.drawn:
        # All of the client is drawn, so that what is drawn is as good as its score.
        assert len(one.segments) == MOST_RECORDINGS
        assert 1 - one.n_wrong / len(one.segments) == pytest.approx(values[one.client])


@pytest.mark.slow
def test_a_plan_that_hides_its_clients_keeps_no_signals(tmp_path: Path) -> None:
    fewer = (("units = 20", "units = 4"), ("users = 6", "users = 13"))
    plain = (
        ('ridge = "leave-one-client-out"', "ridge = 0.1"),
        ('baselines = ["', 'baselines = [] # ["'),
    )
    text = small_plan("wearables", *fewer, *plain)
    text += '\n[[protections]]\nname = "secure_aggregation"\n'
    run = run_plan(parse_plan(text), tmp_path / "run").run
    assert run.drawn == ()
    assert "raw signals" not in in_words(run, [])


def test_nobody_is_best_without_scores() -> None:
    assert best_and_worst(Scores()) == ()
