"""Some of one client's signals with what a model said of them, and their picture.

Signals are raw and begin at time 0; of more points than a picture can show the least and the
largest of each segment are kept.

In the picture every channel has a lane of its own, since their units differ. Below them every class
has a row: a broad pale bar where it is true, a narrow one where it was predicted, so that a mistake
is seen by its place and not by its color alone. Numbers are two lines.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from catchment import Array
from catchment.data import Prepared, Recording
from catchment.readout import Detector, Predictor, output_names
from catchment.report import (
    LETTER,
    WIDTH,
    Axis,
    Box,
    end_named,
    key,
    letters,
    number,
    shortened,
    svg,
    text,
)

MOST_POINTS = 600  # per channel
MOST_SPANS = 300
MOST_CHANNELS = 12
MOST_LANES = 6
MOST_CLASSES = 12
CLIENT_NAME = 14  # letters of a name
LANE = 34
SMALL = 11 / 13  # of the size of letters
CLASS_ROW = 20
PANEL = 110
RIGHT = WIDTH - 12
OTHERS = "others"

Said = str | float


class Segment(NamedTuple):
    """From one time to another: the truth where it is known, and what was predicted.

    >>> Segment(0.0, 2.5, "walk", "run", 0.6).is_wrong
    True
    """

    start: float
    end: float
    truth: Said | None
    predicted: Said
    probability: float | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether it is another class than the true one; of numbers nobody can say that."""
        return isinstance(self.truth, str) and self.truth != self.predicted


@dataclass(frozen=True, eq=False)
class DrawnRecording:
    """Signals (T, I) of one client at times (T,), and segments with truth and prediction.

    Parameters
    ----------
    channels
        I names.
    signals
        Raw values; a row of NaN parts two recordings.
    output
        What the predicted number is called, where it is one.
    unit
        What time is counted in: "second" or "step".
    scores, threshold
        Of a detector: times and scores (n, 2), and the score above which there is an alarm.

    >>> segments = (Segment(0.0, 1.0, "a", "b"),)
    >>> one = DrawnRecording("ann", ("x",), np.arange(2.0), np.zeros((2, 1)), segments)
    >>> DrawnRecording.from_dict(one.to_dict()).segments
    (Segment(start=0.0, end=1.0, truth='a', predicted='b', probability=None),)
    """

    client: str
    channels: tuple[str, ...]
    times: Array
    signals: Array
    segments: tuple[Segment, ...]
    output: str = ""
    unit: str = "step"
    scores: Array = field(default_factory=lambda: np.empty((0, 2)))
    threshold: float | None = None

    @property
    def names_classes(self) -> bool:
        """Whether it is classes that were predicted."""
        return any(isinstance(segment.predicted, str) for segment in self.segments)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it: numbers of seven digits, None for missing ones."""
        named = {"segments": "spans"}  # as files of the first release have them
        told = {
            named.get(one.name, one.name): _plain(getattr(self, one.name)) for one in fields(self)
        }
        return told if self.threshold is not None else {**told, "scores": []}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> DrawnRecording:
        """Return what `to_dict` made a dictionary of."""
        channels = tuple(map(str, found["channels"]))
        return cls(
            str(found["client"]),
            channels,
            np.array(found["times"], dtype=np.float64),
            np.array(found["signals"], dtype=np.float64).reshape(-1, len(channels)),
            tuple(Segment(float(start), float(end), *rest) for start, end, *rest in found["spans"]),
            str(found.get("output", "")),
            str(found.get("unit", "step")),
            np.array(found.get("scores", []), dtype=np.float64).reshape(-1, 2),
            found.get("threshold"),
        )


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    match value:
        case np.ndarray():
            return _plain(value.tolist())
        case list() | tuple():
            return [_plain(one) for one in value]
        case float():
            return float(f"{value:.7g}") if math.isfinite(value) else None
    return value


def draw(model: Predictor, recording: Recording, client: str = "") -> DrawnRecording:
    """Return a raw recording with what a model says of it; of several numbers, the first.

    Parameters
    ----------
    client
        Whose it is, and whose part of the model is used.

    >>> from catchment import EchoState, fit
    >>> waves = [np.sin(np.arange(60) / (3 + k % 2)) for k in range(10)]
    >>> data = [Recording.labeled(u, k % 2, ("fast", "slow")) for k, u in enumerate(waves)]
    >>> drawn = draw(fit(EchoState(30), data), data[0], "ann")
    >>> [(segment.start, segment.end, segment.truth) for segment in drawn.segments]
    [(0.0, 60.0, 'fast')]
    """
    unit, times = "step", np.arange(float(recording.n_steps))
    if recording.times is not None:
        unit, times = "second", recording.times - recording.times[0]
    segments, points = _said(model, recording, client, unit)
    signals, segments = recording.u, segments[:MOST_SPANS]
    if segments:
        kept = times <= segments[-1].end
        times, signals = times[kept], signals[kept]
    times, signals = thinned(times, signals[:, :MOST_CHANNELS])
    names = recording.channels or model.channels
    names = names or tuple(f"channel {k + 1}" for k in range(recording.n_inputs))
    named = "" if model.classes is not None else output_names(model)[0]
    drawn = DrawnRecording(
        client, names[:MOST_CHANNELS], times, signals, tuple(segments), named, unit
    )
    if not isinstance(model, Detector):
        return drawn
    found = np.array(points).reshape(-1, 2)
    scores = np.column_stack(thinned(found[:, 0], found[:, 1:]))
    return replace(drawn, scores=scores, threshold=model.threshold)


def thinned(times: Array, signals: Array, most: int = MOST_POINTS) -> tuple[Array, Array]:
    """Return at most about this many times (T,) and signals (T, I) that look as all of them do.

    Of each segment the least and the largest value of every channel stay, in their order.

    >>> times, signals = thinned(np.arange(10_000.0), np.eye(10_000)[:, [77]], 100)
    >>> len(times) <= 100, signals.max()
    (True, np.float64(1.0))
    """
    if len(times) <= most:
        return times, signals
    edges = np.linspace(0, len(times), most // 2 + 1).astype(int)
    rows = []
    for start, stop in pairwise(edges):
        part = signals[start:stop]
        # A segment with a break in it is a break: the line must not lead over it.
        broken = np.isnan(part).all(axis=1).any()
        lost = np.full(part.shape[1], np.nan)
        low = lost if broken else np.min(np.nan_to_num(part, nan=np.inf), axis=0)
        high = lost if broken else np.max(np.nan_to_num(part, nan=-np.inf), axis=0)
        low, high = (np.where(np.isfinite(one), one, np.nan) for one in (low, high))
        first = np.nan_to_num(part[-1] - part[0]) >= 0
        rows += [np.where(first, low, high), np.where(first, high, low)]
    middles = (edges[:-1] + edges[1:]) // 2
    return times[np.stack([edges[:-1], middles], axis=1).ravel()], np.array(rows)


def _said(
    model: Predictor, raw: Recording, client: str, unit: str
) -> tuple[list[Segment], list[tuple[float, float]]]:
    """Return what the model says of a recording, which begins at 0.

    Beside it, of a detector, are its scores, each with the end of its row.
    """
    # Prepared twice: once with its targets, once with its places. Both cut the same pieces.
    pieces, wholes = model.preprocessing.inputs([raw]), model.preprocessing.apply([raw])
    found: list[Segment] = []
    scores: list[tuple[float, float]] = []
    first = 0.0 if unit == "step" or raw.times is None else float(raw.times[0])
    for piece, whole, rows in zip(pieces, wholes, model.outputs_of(wholes, client), strict=True):
        places, truths = _places(piece, len(rows), model, unit), _truths(whole, model, len(rows))
        for (start, end), row, y in zip(places, rows, truths, strict=True):
            _add(found, Segment(start - first, end - first, *_said_of(model, row, y)))
            if isinstance(model, Detector):
                scores.append((end - first, model.judged(row)[0]))
    return found, scores


def _places(piece: Prepared, n_rows: int, model: Predictor, unit: str) -> list[tuple[float, float]]:
    """Return from when to when each row of a piece is, as its raw recording counts time."""
    times = piece.recording.times
    if unit == "step" or times is None:
        times = piece.start + np.arange(float(piece.recording.n_steps))
    interval = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
    ends = np.append(times[1:], times[-1] + interval)
    if not model.per_step:
        return [(float(times[0]), float(ends[-1]))] * n_rows
    first = len(times) - n_rows
    return [(float(a), float(b)) for a, b in zip(times[first:], ends[first:], strict=True)]


def _truths(whole: Recording, model: Predictor, n_rows: int) -> Sequence[Array | None]:
    """Return the target (K,) of each row, None where there is none."""
    if whole.y is None:
        return [None] * n_rows
    y = (whole if model.classes is None else whole.among(model.classes)).y
    assert y is not None
    rows = y[len(y) - n_rows :] if y.ndim == 2 else [y] * n_rows
    return [None if np.isnan(row).any() else row for row in rows]


def _said_of(
    model: Predictor, row: Array, y: Array | None
) -> tuple[Said | None, Said, float | None]:
    """Return the truth, the prediction and its probability."""
    if model.classes is None:
        return None if y is None else float(y[0]), float(row[0]), None
    best = int(row.argmax())
    truth = None if y is None else model.classes[int(y.argmax())]
    return truth, model.classes[best], float(model.probabilities(row[None])[0, best])


def _add(found: list[Segment], segment: Segment) -> None:
    """Add a segment; one that overlaps the next ends there, and one that goes on is one."""
    if found and found[-1].end > segment.start:
        found[-1] = found[-1]._replace(end=segment.start)
    last = found[-1] if found else segment
    alike = (last.truth, last.predicted) == (segment.truth, segment.predicted)
    follows = math.isclose(last.end, segment.start, abs_tol=1e-9)
    if found and alike and follows and isinstance(segment.predicted, str):
        lengths = (last.end - last.start, segment.end - segment.start)
        mean = np.average([last.probability or 0, segment.probability or 0], weights=lengths)
        found[-1] = last._replace(end=segment.end, probability=float(mean))
    else:
        found.append(segment)


def signal_chart(one: DrawnRecording) -> str:
    """Return a chart of a client's signals with true and predicted classes, or numbers, below.

    >>> segments = (Segment(0.0, 5.0, "walk", "walk", 0.9), Segment(5.0, 9.0, "walk", "run", 0.6))
    >>> one = DrawnRecording("ann", ("x",), np.arange(10.0), np.zeros((10, 1)), segments)
    >>> signal_chart(one).count('class="wrong"')
    1
    """
    times, signals = thinned(one.times, one.signals)
    lanes = one.channels[:MOST_LANES]
    classes = _rows(one.segments) if one.names_classes else []
    # Room on the left for all that is written there.
    names = [shortened(name, CLIENT_NAME) for name in [*lanes, *(classes or ["-0.0001"])]]
    ends_of = [_ends(values) for values in signals.T[: len(lanes)]]
    reaches = [" to ".join(number(float(f"{end:.2g}")) for end in both) for both in ends_of]
    widths = [*map(letters, names), *(SMALL * letters(reach) for reach in reaches), 4.0]
    ends = [*one.times[[0, -1]]] if len(one.times) else []
    ends += [end for segment in one.segments for end in (segment.start, segment.end)]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    axis, left = Axis(low, max(high, low + 1e-9)), 12 + LETTER * max(widths)
    time = Box(axis, Axis(0, 1), left, RIGHT, 6, 6)
    parts: list[str] = []
    for name, values, both, reach in zip(lanes, signals.T, ends_of, reaches, strict=False):
        lane = replace(time, y=Axis(*both), top=time.top + 4, floor=time.top + LANE - 4)
        parts += [lane.level("grid", time.top + LANE), *lane.line("signal", times, values)]
        parts.append(end_named(time.left, time.top + LANE / 2 - 2, name, CLIENT_NAME))
        under = time.top + LANE / 2 + 11
        parts.append(text(time.left - 8, under, reach, "end", "muted small"))
        time = replace(time, top=time.top + LANE)
    if len(one.channels) > MOST_LANES:
        more = f"and {len(one.channels) - MOST_LANES} more channels, not drawn"
        parts.append(text(time.left, time.top + 15, more, kind="muted small"))
        time = replace(time, top=time.top + 20)
    if len(one.scores):
        time = replace(time, top=time.top + 4 + 22)
        parts += _scores(time, one)
        time = replace(time, top=time.top + PANEL)
    if one.segments:
        time = replace(time, top=time.top + 4 + 22)
        parts += _classes(time, one, classes) if classes else _numbers(time, one)
        time = replace(time, top=time.top + (CLASS_ROW * len(classes) or PANEL))
    end = replace(time, floor=time.top)
    parts.append(end.columns(end.floor, end.floor + 4, f"{one.unit}s", number))
    label = f"Signals of {one.client} and what was predicted"
    return svg(parts, end.floor + 38, label, _told(one))


def _ends(values: Array) -> tuple[float, float]:
    """Return the least and the largest value, apart from each other."""
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _classes(place: Box, one: DrawnRecording, classes: Sequence[str]) -> list[str]:
    """Return a row for each class with bars where it is true and where it was predicted."""
    kinds = (("truth", "true"), ("right", "predicted"), ("wrong", "wrong"))
    parts = key(place.left, place.top - 11, kinds)
    rows = {name: place.top + k * CLASS_ROW for k, name in enumerate(classes)}
    for name, top in rows.items():
        parts.append(place.level("grid", top + CLASS_ROW))
        parts.append(end_named(place.left, top + CLASS_ROW / 2 + 4, name, CLIENT_NAME))
    for segment in one.segments:
        start, end = place.across(segment.start), place.across(segment.end)
        wide = f'x="{start:.1f}" y="{{:.1f}}" width="{max(end - start, 0.8):.1f}"'
        inside = f"<title>{escape(_sentence(segment, one.unit))}</title>"
        kind = "wrong" if segment.is_wrong else "right"
        bars = (("truth", segment.truth, 2, CLASS_ROW - 4),
                (kind, segment.predicted, CLASS_ROW / 2 - 3, 6))  # fmt: skip
        for bar, said, below, high in bars:
            if said is not None:
                where = wide.format(rows.get(str(said), rows.get(OTHERS, 0.0)) + below)
                parts.append(f'<rect class="{bar}" {where} height="{high:.1f}">{inside}</rect>')
    return parts


def _numbers(place: Box, one: DrawnRecording) -> list[str]:
    """Return the true and the predicted number over time."""
    middles = np.array([(segment.start + segment.end) / 2 for segment in one.segments])
    said = np.array(
        [(segment.truth, segment.predicted) for segment in one.segments], dtype=np.float64
    )
    box = replace(place, y=Axis.around(said.ravel()), floor=place.top + PANEL)
    parts = key(box.left, box.top - 11, (("s0", "true"), ("s1", "predicted")))
    parts += box.levels(box.y.ticks(3))
    return parts + box.line("s0", middles, said[:, 0]) + box.line("s1", middles, said[:, 1])


def _scores(place: Box, one: DrawnRecording) -> list[str]:
    """Return a detector's scores over time on a logarithmic scale, and its threshold as a line."""
    threshold = max(one.threshold or 1.0, 1e-3)
    values = np.maximum(one.scores[:, 1], 1e-3)
    axis = Axis.around(np.append(values, threshold), log=True)
    box = replace(place, y=axis, floor=place.top + PANEL)
    parts = key(box.left, box.top - 11, (("s0", "score"), ("mark", "threshold")))
    parts += [*box.levels(axis.ticks()), *box.line("s0", one.scores[:, 0], values)]
    return [*parts, box.level("mark", box.up(threshold))]


def _rows(segments: Sequence[Segment]) -> list[str]:
    """Return the classes that occur, the rarest together if there are very many."""
    seen = Counter(
        str(said)
        for segment in segments
        for said in (segment.truth, segment.predicted)
        if said is not None
    )
    if len(seen) <= MOST_CLASSES:
        return sorted(seen)
    return [*sorted(name for name, _ in seen.most_common(MOST_CLASSES - 1)), OTHERS]


def _told(one: DrawnRecording) -> str:
    """Return what the chart shows, for those who do not see it."""
    length = float(one.times[-1] - one.times[0]) if len(one.times) else 0.0
    about = f"{len(one.channels)} channels over {number(length)} {one.unit}s."
    if not one.names_classes:
        return about
    known = [segment for segment in one.segments if segment.truth is not None]
    wrong = [_sentence(segment, one.unit) for segment in known if segment.is_wrong]
    listed = "".join(f" {sentence}." for sentence in wrong[:12])
    return f"{about} {len(wrong)} of {len(known)} segments with a label are wrong.{listed}"


def _sentence(segment: Segment, unit: str) -> str:
    sure = "" if segment.probability is None else f" ({100 * segment.probability:.0f} %)"
    truth = "" if segment.truth is None else f"true {segment.truth}, "
    when = f"{unit}s {number(segment.start)} to {number(segment.end)}"
    return f"{when}: {truth}predicted {segment.predicted}{sure}"
