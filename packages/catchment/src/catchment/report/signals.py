"""One client's signals over time, and below them what was true and what a model said.

Every channel has a lane of its own, since their units differ. Every class has a row: a broad pale
bar where it is true, a narrow one where it was predicted, so that a mistake is seen by its place
and not by its colour alone. Numbers are two lines.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from catchment.arrays import Array
from catchment.federation.runs.drawn import DrawnRecording, Span, thinned
from catchment.report.svg import (
    LETTER,
    WIDTH,
    Axis,
    letters,
    number,
    shortened,
    spaced,
    straight,
    stretches,
    svg,
    text,
)

MOST_LANES = 6
MOST_CLASSES = 12
NAME = 14  # letters of a name
LANE = 34
SMALL = 11 / 13  # of the size of letters
ROW = 20
PANEL = 110
RIGHT = 12
OTHERS = "others"


@dataclass(frozen=True, eq=False)
class _Place:
    """Where the parts of a chart are: the left edge, and how time becomes a place."""

    left: float
    axis: Axis

    def x(self, time: float) -> float:
        return self.left + self.axis.place(time) * (WIDTH - RIGHT - self.left)


def signal_chart(one: DrawnRecording) -> str:
    """Return a chart of a client's signals with true and predicted classes, or numbers, below.

    >>> from catchment.federation.runs.drawn import Span
    >>> spans = (Span(0.0, 5.0, "walk", "walk", 0.9), Span(5.0, 9.0, "walk", "run", 0.6))
    >>> one = DrawnRecording("ann", ("x",), np.arange(10.0), np.zeros((10, 1)), spans)
    >>> signal_chart(one).count('class="wrong"')
    1
    """
    times, signals = thinned(one.times, one.signals)
    place = _place(one)
    parts, height = _lanes(place, one.channels, times, signals)
    if len(one.scores):
        more, height = _scores(place, one, height + 4)
        parts += more
    below = _classes if one.names_classes else _numbers
    if one.spans:
        more, height = below(place, one, height + 4)
        parts += more
    parts += _time(place, one.unit, height)
    return svg(parts, height + 38, f"Signals of {one.client} and what was predicted", _told(one))


def _place(one: DrawnRecording) -> _Place:
    """Return where things are, with room on the left for all that is written there."""
    names = [_cut(name) for name in one.channels[:MOST_LANES]]
    names += [_cut(name) for name in _rows(one.spans)] if one.names_classes else ["-0.0001"]
    reaches = [_reach(one.signals[:, k]) for k in range(min(MOST_LANES, len(one.channels)))]
    widths = [*map(letters, names), *(SMALL * letters(reach) for reach in reaches), 4.0]
    ends = [one.times[0], one.times[-1]] if len(one.times) else []
    ends += [end for span in one.spans for end in (span.start, span.end)]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    return _Place(12 + LETTER * max(widths), Axis(low, max(high, low + 1e-9)))


def _ends(values: Array) -> tuple[float, float]:
    """Return the least and the largest value, apart from each other."""
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _reach(values: Array) -> str:
    low, high = (number(float(f"{end:.2g}")) for end in _ends(values))
    return f"{low} to {high}"


def _lanes(
    place: _Place, channels: Sequence[str], times: Array, signals: Array
) -> tuple[list[str], float]:
    """Return a lane for each channel, and the height of them all."""
    parts, y = [], 6.0
    for k, name in enumerate(channels[:MOST_LANES]):
        values = signals[:, k]
        low, high = _ends(values)
        up = _scaled(low, high, y + LANE - 4, y + 4)
        parts.append(straight("grid", place.left, y + LANE, WIDTH - RIGHT, y + LANE))
        points = [(place.x(t), up(v)) for t, v in zip(times, values, strict=True)]
        parts += [f'<polyline class="signal" points="{run}"/>' for run in stretches(points)]
        parts.append(_named(place.left, y + LANE / 2 - 2, name))
        reach = _reach(values)
        parts.append(text(place.left - 8, y + LANE / 2 + 11, reach, "end", "muted small"))
        y += LANE
    if len(channels) > MOST_LANES:
        more = f"and {len(channels) - MOST_LANES} more channels, not drawn"
        parts.append(text(place.left, y + 15, more, kind="muted small"))
        y += 20
    return parts, y


def _classes(place: _Place, one: DrawnRecording, top: float) -> tuple[list[str], float]:
    """Return a row for each class with bars where it is true and where it was predicted."""
    parts = _key(place, top, (("truth", "true"), ("right", "predicted"), ("wrong", "wrong")))
    y = top + 22
    rows = {name: y + k * ROW for k, name in enumerate(_rows(one.spans))}
    for name, start in rows.items():
        parts.append(straight("grid", place.left, start + ROW, WIDTH - RIGHT, start + ROW))
        parts.append(_named(place.left, start + ROW / 2 + 4, name))
    for span in one.spans:
        said = f"<title>{escape(_sentence(span, one.unit))}</title>"
        if span.truth is not None:
            start = rows[_row(span.truth, rows)]
            parts.append(_bar("truth", place, span, start + 2, ROW - 4, said))
        start = rows[_row(span.predicted, rows)]
        kind = "wrong" if span.is_wrong else "right"
        parts.append(_bar(kind, place, span, start + ROW / 2 - 3, 6, said))
    return parts, y + ROW * len(rows)


def _numbers(place: _Place, one: DrawnRecording, top: float) -> tuple[list[str], float]:
    """Return the true and the predicted number over time."""
    parts = _key(place, top, (("s0", "true"), ("s1", "predicted")))
    y = top + 22
    middles = [(span.start + span.end) / 2 for span in one.spans]
    truth = np.array([_float(span.truth) for span in one.spans])
    predicted = np.array([_float(span.predicted) for span in one.spans])
    axis = Axis.around(np.concatenate([truth, predicted]))
    up = _scaled(axis.low, axis.high, y + PANEL, y)
    for tick in axis.ticks(3):
        parts.append(straight("grid", place.left, up(tick), WIDTH - RIGHT, up(tick)))
        parts.append(text(place.left - 6, up(tick) + 4, number(tick), "end", "muted"))
    for kind, values in (("s0", truth), ("s1", predicted)):
        points = [(place.x(t), up(v)) for t, v in zip(middles, values, strict=True)]
        parts += [f'<polyline class="{kind}" points="{run}"/>' for run in stretches(points)]
    return parts, y + PANEL


def _scores(place: _Place, one: DrawnRecording, top: float) -> tuple[list[str], float]:
    """Return a detector's scores over time on a logarithmic scale, and its threshold as a line."""
    parts = _key(place, top, (("s0", "score"), ("mark", "threshold")))
    y, threshold = top + 22, one.threshold or 1.0
    values = np.log10(np.maximum(one.scores[:, 1], 1e-3))
    axis = Axis.around(np.append(values[np.isfinite(values)], math.log10(max(threshold, 1e-3))))
    up = _scaled(axis.low, axis.high, y + PANEL, y)
    for tick in range(math.ceil(axis.low), math.floor(axis.high) + 1):
        parts.append(straight("grid", place.left, up(tick), WIDTH - RIGHT, up(tick)))
        parts.append(text(place.left - 6, up(tick) + 4, number(10.0**tick), "end", "muted"))
    points = [(place.x(t), up(v)) for t, v in zip(one.scores[:, 0], values, strict=True)]
    parts += [f'<polyline class="s0" points="{run}"/>' for run in stretches(points)]
    line = up(math.log10(max(threshold, 1e-3)))
    parts.append(straight("mark", place.left, line, WIDTH - RIGHT, line))
    return parts, y + PANEL


def _time(place: _Place, unit: str, y: float) -> list[str]:
    parts = []
    for tick in spaced(place.axis, WIDTH - RIGHT - place.left, number):
        parts.append(straight("grid", place.x(tick), y, place.x(tick), y + 4))
        parts.append(text(place.x(tick), y + 17, number(tick), "middle", "muted"))
    parts.append(text((place.left + WIDTH - RIGHT) / 2, y + 34, f"{unit}s", "middle", "muted"))
    return parts


def _key(place: _Place, top: float, kinds: Sequence[tuple[str, str]]) -> list[str]:
    """Return what the bars or lines mean."""
    parts, x = [], place.left
    for kind, word in kinds:
        if kind in ("s0", "s1", "mark"):
            parts.append(straight(kind, x, top + 11, x + 16, top + 11))
        else:
            thick = 12 if kind == "truth" else 6
            box = f'x="{x:.1f}" y="{top + 11 - thick / 2:.1f}" width="16" height="{thick}"'
            parts.append(f'<rect class="{kind} key" {box}/>')
        parts.append(text(x + 21, top + 15, word))
        x += 36 + LETTER * len(word)
    return parts


def _bar(kind: str, place: _Place, span: Span, y: float, height: float, inside: str) -> str:
    start, end = place.x(span.start), place.x(span.end)
    size = f'width="{max(end - start, 0.8):.1f}" height="{height:.1f}"'
    return f'<rect class="{kind}" x="{start:.1f}" y="{y:.1f}" {size}>{inside}</rect>'


def _named(right: float, y: float, name: str) -> str:
    """Return a name that ends at the left edge, cut where it is long; pointed at, it is whole."""
    cut = _cut(name)
    return text(right - 8, y, cut, "end", title="" if cut == name else name)


def _rows(spans: Sequence[Span]) -> list[str]:
    """Return the classes that occur, the rarest together if there are very many."""
    seen = Counter(
        str(said) for span in spans for said in (span.truth, span.predicted) if said is not None
    )
    if len(seen) <= MOST_CLASSES:
        return sorted(seen)
    return [*sorted(name for name, _ in seen.most_common(MOST_CLASSES - 1)), OTHERS]


def _row(said: str | float | None, rows: dict[str, float]) -> str:
    return str(said) if str(said) in rows else OTHERS


def _told(one: DrawnRecording) -> str:
    """Return what the chart shows, for those who do not see it."""
    about = f"{len(one.channels)} channels over {number(_length(one))} {one.unit}s."
    if not one.names_classes:
        return about
    known = [span for span in one.spans if span.truth is not None]
    wrong = [_sentence(span, one.unit) for span in known if span.is_wrong]
    listed = "".join(f" {sentence}." for sentence in wrong[:12])
    return f"{about} {len(wrong)} of {len(known)} stretches with a label are wrong.{listed}"


def _sentence(span: Span, unit: str) -> str:
    sure = "" if span.probability is None else f" ({100 * span.probability:.0f} %)"
    truth = "" if span.truth is None else f"true {span.truth}, "
    when = f"{unit}s {number(span.start)} to {number(span.end)}"
    return f"{when}: {truth}predicted {span.predicted}{sure}"


def _length(one: DrawnRecording) -> float:
    return float(one.times[-1] - one.times[0]) if len(one.times) else 0.0


def _scaled(low: float, high: float, bottom: float, top: float) -> Callable[[float], float]:
    return lambda value: bottom + (value - low) / (high - low) * (top - bottom)


def _cut(name: str) -> str:
    return shortened(name, NAME)


def _float(value: str | float | None) -> float:
    return math.nan if value is None else float(value)
