"""Charts of lines over time, rounds or ridges, and of one dot for each name.

The parts of charts as SVG text: they take their colours from the page, light or dark.

Charts are 400 units wide with letters of 13, so that they are readable on a phone, where they fill
the width, and beside each other on a desk.

One client's signals over time, and below them what was true and what a model said.

Every channel has a lane of its own, since their units differ. Every class has a row: a broad pale
bar where it is true, a narrow one where it was predicted, so that a mistake is seen by its place
and not by its colour alone. Numbers are two lines.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np

from catchment.arrays import Array
from catchment.federation.runs.drawn import DrawnRecording, Span, thinned

WIDTH = 400
LETTER = 7.9  # units of a usual letter, of the widest fonts that pages use


@dataclass(frozen=True, eq=False)
class Axis:
    """A range of values and the ticks on it."""

    low: float
    high: float
    log: bool = False
    whole: bool = False  # whether ticks are whole numbers, such as those of rounds

    @classmethod
    def around(
        cls,
        values: Array,
        *,
        log: bool = False,
        whole: bool = False,
        limits: tuple[float, float] = (-math.inf, math.inf),
    ) -> Axis:
        """Return an axis that holds all finite values, with a little room at both ends.

        Parameters
        ----------
        limits
            No value can lie beyond, so the axis ends there at the latest; shares are from 0 to 1.

        >>> Axis.around(np.array([0.0, 10.0])).ticks()
        [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
        >>> Axis.around(np.array([1.0, 1.0]), limits=(0.0, 1.0)).high
        1.0
        """
        known = values[np.isfinite(values)]
        if log:
            known = np.log10(known[known > 0])
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        alike = 0.5 if log or abs(low) < 1e-12 else 0.1 * abs(low)
        room = 0.5 if whole else 0.04 * (high - low) or alike
        if log:
            return cls(low - room, high + room, log, whole)
        low, most = max(low - room, limits[0]), limits[1]
        # A limit that is near is shown: how far it is says how good a value is.
        near = most - high < max(high - low, 0.1 * (most - limits[0]))
        high = most if math.isfinite(most) and near else min(high + room, most)
        return cls(low, high, log, whole)

    def place(self, value: float) -> float:
        """Return where a value lies, 0 at the low end and 1 at the high one; NaN if nowhere."""
        if self.log:
            value = math.log10(value) if value > 0 else math.nan
        return (value - self.low) / (self.high - self.low)

    def ticks(self, n: int = 5) -> list[float]:
        """Return about n round values on the axis."""
        if self.log:
            first, last = math.ceil(self.low), math.floor(self.high)
            if last - first >= 1:
                every = max(1, -(-(last - first) // n))
                return [10.0**k for k in range(first, last + 1, every)]
            return [10.0**v for v in Axis(self.low, self.high).ticks(n)]
        rough = (self.high - self.low) / n
        unit = 10.0 ** math.floor(math.log10(rough))
        step = min((m * unit for m in (1, 2, 5, 10)), key=lambda s: abs(s - rough))
        step = max(step, 1.0) if self.whole else step
        # An end that is a tick but for rounding is one.
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [k * step + 0.0 for k in range(first, last + 1)]


def spaced(axis: Axis, room: float, write: Callable[[float], str], n: int = 5) -> list[float]:
    """Return as many ticks, up to about n, as have room beside each other when written.

    >>> spaced(Axis(0.0, 1.0), 120, "{:.1f}".format)
    [0.0, 0.5, 1.0]
    """
    for fewer in range(n, 1, -1):
        ticks = axis.ticks(fewer)
        places = [room * axis.place(tick) for tick in ticks]
        widths = [LETTER * letters(write(tick)) + 6 for tick in ticks]
        pairs = zip(pairwise(places), pairwise(widths), strict=True)
        if all(b - a >= (p + q) / 2 for (a, b), (p, q) in pairs):
            return ticks
    return axis.ticks(1)


def svg(parts: Sequence[str], height: float, label: str, told: str = "") -> str:
    """Return a chart of its parts; those who do not see it are told its label and some more.

    >>> svg([], 10, "a chart", "nothing is on it")[-57:]
    '<title>a chart</title><desc>nothing is on it</desc></svg>'
    """
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-label="{escape(label)}"><title>{escape(label)}</title>'
        f"<desc>{escape(told or label)}</desc>{''.join(parts)}</svg>"
    )


def straight(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a straight line of a kind, which colours it."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text(
    x: float, y: float, words: str, anchor: str = "start", kind: str = "", title: str = ""
) -> str:
    """Return words at a place; the title is shown to who points at them.

    >>> text(1, 2, "a & b")
    '<text x="1.0" y="2.0" text-anchor="start">a &amp; b</text>'
    """
    marked = f' class="{kind}"' if kind else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    whole = f"<title>{escape(title)}</title>" if title else ""
    return f"<text{marked} {place}>{whole}{escape(words)}</text>"


def stretches(points: Sequence[tuple[float, float]]) -> list[str]:
    """Return the points of each unbroken stretch; a point that is nowhere breaks a line."""
    found: list[list[str]] = [[]]
    for x, y in points:
        if math.isfinite(x) and math.isfinite(y):
            found[-1].append(f"{x:.1f},{y:.1f}")
        elif found[-1]:
            found.append([])
    return [" ".join(stretch) for stretch in found if stretch]


def letters(words: str) -> float:
    """Return how many usual letters wide words are, rather too many than too few.

    >>> letters("ab"), letters("\u6797"), letters("e\u0301"), letters("M")
    (2.0, 1.8, 1.0, 1.6)
    """
    return round(sum(map(_width, words)), 3)


def _width(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.8
    if letter in "mwMW@%&\u2026\u2014":
        return 1.6
    return 1.2 if letter.isupper() or letter in "<>=+~#_" else 1.0


def shortened(name: str, most: int) -> str:
    """Return a name that is at most so many letters wide, cut at its end.

    >>> shortened("a long name", 8)
    'a long…'
    """
    if letters(name) <= most:
        return name
    n = len(name)
    while n and letters(f"{name[:n]}…") > most:
        n -= 1
    return f"{name[:n]}…"


def number(value: float) -> str:
    """Return a tick's number, short.

    >>> number(0.0), number(1e-9), number(2500.0)
    ('0', '1e-9', '2500')
    """
    text = f"{value:.4g}"
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if mark else text


ROW = 22
NAME = 16  # letters of a name
ANYWHERE = (-math.inf, math.inf)


@dataclass(frozen=True, eq=False)
class Line:
    """One line: its points (n,) each, the class that colours it, and its name in the legend."""

    x: Array
    y: Array
    kind: str
    name: str = ""


@dataclass(frozen=True, eq=False)
class _Frame:
    """The two axes of a chart of lines, and where on the page they are."""

    x: Axis
    y: Axis
    top: int
    height: int
    right: int = 18
    bottom: int = 42

    @property
    def left(self) -> int:
        longest = max((len(number(tick)) for tick in self.y.ticks()), default=1)
        return 28 + round(LETTER * longest)

    @property
    def floor(self) -> int:
        return self.height - self.bottom

    def across(self, x: float) -> float:
        return self.left + self.x.place(x) * (WIDTH - self.left - self.right)

    def up(self, y: float) -> float:
        return self.floor - self.y.place(y) * (self.floor - self.top)

    def grid(self) -> list[str]:
        parts = []
        for tick in self.y.ticks():
            y = self.up(tick)
            parts.append(straight("grid", self.left, y, WIDTH - self.right, y))
            parts.append(text(self.left - 6, y + 4, number(tick), "end", "muted"))
        for tick in spaced(self.x, WIDTH - self.left - self.right, number):
            x = self.across(tick)
            parts.append(straight("grid", x, self.top, x, self.floor))
            parts.append(text(x, self.floor + 15, number(tick), "middle", "muted"))
        return parts

    def titles(self, x_label: str, y_label: str) -> list[str]:
        middle = (self.left + WIDTH - self.right) / 2
        turned = f'<g transform="rotate(-90 12 {self.height / 2})">'
        across = text(12, self.height / 2, y_label, "middle", "muted")
        return [text(middle, self.height - 6, x_label, "middle", "muted"), f"{turned}{across}</g>"]


def line_chart(
    lines: Sequence[Line],
    *,
    label: str,
    x_label: str = "",
    y_label: str = "",
    log_x: bool = False,
    whole_x: bool = False,
    log_y: bool = False,
    limits: tuple[float, float] = ANYWHERE,
    marks: Sequence[tuple[float, str]] = (),
    height: int = 240,
) -> str:
    """Return a chart of lines.

    Parameters
    ----------
    lines
        Drawn in this order.
    label
        What the chart shows, for those who do not see it.
    whole_x
        Whether x counts something, so that only whole numbers are written below.
    limits
        Between which all values of y must lie, as shares lie between 0 and 1.
    marks
        Values of x with a vertical line and a word each, which stands above the lines.

    >>> x = np.arange(5.0)
    >>> line_chart([Line(x, x**2, "s0")], label="squares").startswith("<svg")
    True
    """
    legend = [line for line in lines if line.name]
    top = 10 + 16 * bool(legend) + 16 * bool(marks)
    frame = _Frame(
        Axis.around(np.concatenate([line.x for line in lines]), log=log_x, whole=whole_x),
        Axis.around(np.concatenate([line.y for line in lines]), log=log_y, limits=limits),
        top,
        height,
    )
    parts = frame.grid()
    for line in lines:
        points = [(frame.across(x), frame.up(y)) for x, y in zip(line.x, line.y, strict=True)]
        parts += [f'<polyline class="{line.kind}" points="{p}"/>' for p in stretches(points)]
    for value, word in marks:
        x = frame.across(value)
        parts.append(straight("mark", x, top, x, frame.floor))
        parts.append(_within(x, top - 5, word))
    parts += _legend(legend, frame.left)
    parts += frame.titles(x_label, y_label)
    return svg(parts, height, label, _told(label, lines))


def dot_chart(
    names: Sequence[str],
    values: Sequence[float],
    *,
    label: str,
    x_label: str,
    marked: str = "",
    whole: float | None = None,
    whole_name: str = "all",
    every: Sequence[float] = (),
    write: Callable[[float], str] = "{:.3g}".format,
    tick: Callable[[float], str] = "{:.3g}".format,
    limits: tuple[float, float] = ANYWHERE,
) -> str:
    """Return a row per name with a dot at its value, which is written at the end of the row.

    Parameters
    ----------
    marked
        Name of the row that is drawn in the second colour.
    whole, whole_name
        A value drawn as a line through all rows, and what it is called.
    every
        Values of many, of whom only some have a row: a small mark each, above the rows.
    write, tick
        How a value is written in its row, and on the axis.
    limits
        Between which all values must lie, as shares lie between 0 and 1.

    >>> dot_chart(["a", "b"], [0.2, 0.9], label="scores", x_label="score").count("<circle")
    2
    """
    rows = _Rows(
        Axis.around(
            np.array([*values, *every, *([] if whole is None else [whole])]), limits=limits
        ),
        [shortened(name, NAME) for name in names],
        [write(value) if math.isfinite(value) else "not defined" for value in values],
        f"all {len(every):,}" if len(every) else "",
    )
    parts = rows.grid(tick)
    if whole is not None and math.isfinite(whole):
        x = rows.across(whole)
        parts.append(straight("mark", x, rows.top, x, rows.floor))
        parts.append(_within(x, rows.top - 6, f"{whole_name} {write(whole)}"))
    parts += rows.rug(every)
    for k, (name, value) in enumerate(zip(names, values, strict=True)):
        parts += rows.row(k, name, value, "s1" if name == marked else "s0")
    middle = (rows.left + WIDTH - rows.right) / 2
    parts.append(text(middle, rows.floor + 33, x_label, "middle", "muted"))
    listed = ", ".join(f"{name} {said}" for name, said in zip(names, rows.said, strict=True))
    return svg(parts, rows.floor + 38, label, f"{label}: {listed}")


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a chart of dots: their names, what is written at their ends, and their places.

    Names and numbers stand beside the axis, so that no line goes through them.
    """

    axis: Axis
    names: Sequence[str]
    said: Sequence[str]
    above: str  # what the row of marks is called; "" if there is none
    top: int = 20

    @property
    def left(self) -> int:
        return 16 + round(LETTER * max(map(letters, [*self.names, self.above, "-"])))

    @property
    def right(self) -> int:
        return 20 + round(LETTER * max(map(len, [*self.said, "-"])))

    @property
    def first(self) -> int:
        return self.top + ROW * bool(self.above)

    @property
    def floor(self) -> int:
        return self.first + ROW * len(self.names)

    def across(self, value: float) -> float:
        return self.left + self.axis.place(value) * (WIDTH - self.left - self.right)

    def grid(self, tick: Callable[[float], str]) -> list[str]:
        parts = []
        for value in spaced(self.axis, WIDTH - self.left - self.right, tick, 4):
            x = self.across(value)
            parts.append(straight("grid", x, self.top, x, self.floor))
            parts.append(text(x, self.floor + 16, tick(value), "middle", "muted"))
        return parts

    def row(self, k: int, name: str, value: float, kind: str) -> list[str]:
        y, shown = self.first + ROW * (k + 0.5), self.names[k]
        parts = [
            text(self.left - 8, y + 4, shown, "end", title=name if name != shown else ""),
            text(WIDTH - 4, y + 4, self.said[k], "end"),
        ]
        if math.isfinite(value):
            x = self.across(value)
            parts.append(straight("stem", self.left, y, x, y))
            parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y}" r="4.5"/>')
        return parts

    def rug(self, values: Sequence[float]) -> list[str]:
        """Return a row with a small mark at every value; nothing without values."""
        if not len(values):
            return []
        y = self.top + ROW / 2
        places = sorted(self.across(value) for value in values if math.isfinite(value))
        marks = [straight("rug", x, y - 7, x, y + 7) for x in places]
        return [text(self.left - 8, y + 4, self.above, "end", "muted"), *marks]


def _within(x: float, y: float, words: str) -> str:
    """Return words in the middle over a place, moved so that they do not leave the chart."""
    half = LETTER * letters(words) / 2
    return text(min(max(x, half), WIDTH - half), y, words, "middle")


def _legend(lines: Sequence[Line], left: int) -> list[str]:
    parts, x = [], float(left)
    for line in lines:
        parts += [straight(line.kind, x, 10, x + 16, 10), text(x + 21, 14, line.name)]
        x += 36 + LETTER * letters(line.name)
    return parts


def _told(label: str, lines: Sequence[Line]) -> str:
    """Return what a chart of lines shows, for those who do not see it."""

    def about() -> Iterator[str]:
        for line in lines:
            known = line.y[np.isfinite(line.y)]
            if len(known) and line.kind != "faint":
                ends = f"{number(float(known[0]))} to {number(float(known[-1]))}"
                low, high = number(float(known.min())), number(float(known.max()))
                name = f"{line.name}: " if line.name else ""
                yield f"{name}from {ends}, least {low}, most {high}"

    return f"{label}. {'; '.join(about())}."


MOST_LANES = 6
MOST_CLASSES = 12
CLIENT_NAME = 14  # letters of a name
LANE = 34
SMALL = 11 / 13  # of the size of letters
CLASS_ROW = 20
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
    return svg(
        parts, height + 38, f"Signals of {one.client} and what was predicted", _told_of_signals(one)
    )


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
    rows = {name: y + k * CLASS_ROW for k, name in enumerate(_rows(one.spans))}
    for name, start in rows.items():
        parts.append(
            straight("grid", place.left, start + CLASS_ROW, WIDTH - RIGHT, start + CLASS_ROW)
        )
        parts.append(_named(place.left, start + CLASS_ROW / 2 + 4, name))
    for span in one.spans:
        said = f"<title>{escape(_sentence(span, one.unit))}</title>"
        if span.truth is not None:
            start = rows[_row(span.truth, rows)]
            parts.append(_bar("truth", place, span, start + 2, CLASS_ROW - 4, said))
        start = rows[_row(span.predicted, rows)]
        kind = "wrong" if span.is_wrong else "right"
        parts.append(_bar(kind, place, span, start + CLASS_ROW / 2 - 3, 6, said))
    return parts, y + CLASS_ROW * len(rows)


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


def _told_of_signals(one: DrawnRecording) -> str:
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
    return shortened(name, CLIENT_NAME)


def _float(value: str | float | None) -> float:
    return math.nan if value is None else float(value)
