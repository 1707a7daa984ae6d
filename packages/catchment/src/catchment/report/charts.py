"""Charts as SVG text: of lines, and of one dot for each name.

They take their colors from the page, light or dark. They are 400 units wide with letters of 13, so
that they are readable on a phone, where they fill the width, and beside each other on a desk.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np

from catchment.arrays import Array

WIDTH = 400
HEIGHT = 240  # of lines
LETTER = 7.9  # units of a usual letter, of the widest fonts that pages use
ROW = 22
NAME = 16  # letters of a name
ANYWHERE = (-math.inf, math.inf)


@dataclass(frozen=True, eq=False)
class Axis:
    """A range of values and the ticks on it."""

    low: float
    high: float
    log: bool = False
    whole: bool = False  # whether ticks are integers, such as those of rounds

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

        No value can lie beyond the limits, so it ends there at the latest; shares are from 0 to 1.

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


@dataclass(frozen=True, eq=False)
class Line:
    """One line: its points (n,) each, the class that colors it, and its name in the legend."""

    x: Array
    y: Array
    kind: str
    name: str = ""


@dataclass(frozen=True, eq=False)
class Box:
    """A part of a chart: where its two axes begin and end, and what is drawn between them."""

    x: Axis
    y: Axis
    left: float
    right: float
    top: float
    floor: float

    def across(self, x: float) -> float:
        return self.left + self.x.place(x) * (self.right - self.left)

    def up(self, y: float) -> float:
        return self.floor - self.y.place(y) * (self.floor - self.top)

    def line(self, kind: str, x: Array, y: Array) -> list[str]:
        """Return a line; a point that is nowhere breaks it."""
        found: list[list[str]] = [[]]
        for a, b in zip(map(self.across, x), map(self.up, y), strict=True):
            if math.isfinite(a) and math.isfinite(b):
                found[-1].append(f"{a:.1f},{b:.1f}")
            elif found[-1]:
                found.append([])
        return [f'<polyline class="{kind}" points="{" ".join(one)}"/>' for one in found if one]

    def level(self, kind: str, y: float) -> str:
        """Return a line from left to right at a place on the page."""
        return straight(kind, self.left, y, self.right, y)

    def levels(self, ticks: Sequence[float]) -> list[str]:
        """Return lines from left to right, each with its number."""
        parts = []
        for tick in ticks:
            number_ = text(self.left - 6, self.up(tick) + 4, number(tick), "end", "muted")
            parts += [self.level("grid", self.up(tick)), number_]
        return parts

    def columns(self, top: float, end: float, title: str, write: Callable[[float], str]) -> str:
        """Return lines between two heights with a number below each, and a title below all."""
        parts = []
        for tick in spaced(self.x, self.right - self.left, write, 4 if write is not number else 5):
            x = self.across(tick)
            parts += [straight("grid", x, top, x, end)]
            parts += [text(x, self.floor + 16, write(tick), "middle", "muted")]
        middle = (self.left + self.right) / 2
        return "".join([*parts, text(middle, self.floor + 34, title, "middle", "muted")])

    def mark(self, x: float, words: str) -> list[str]:
        """Return a vertical line with words above it, moved so that they stay in the chart."""
        half, at = LETTER * letters(words) / 2, self.across(x)
        place = min(max(at, half), WIDTH - half)
        above = text(place, self.top - 5, words, "middle")
        return [straight("mark", at, self.top, at, self.floor), above]


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
) -> str:
    """Return a chart of lines.

    Parameters
    ----------
    lines
        Drawn in this order.
    label
        What the chart shows, for those who do not see it.
    whole_x
        Whether x counts something, so that only integers are written below.
    limits
        Between which all values of y must lie, as shares lie between 0 and 1.
    marks
        Values of x with a vertical line and a word each, which stands above the lines.

    >>> x = np.arange(5.0)
    >>> line_chart([Line(x, x**2, "s0")], label="squares").startswith("<svg")
    True
    """
    legend = [(line.kind, line.name) for line in lines if line.name]
    x = Axis.around(np.concatenate([line.x for line in lines]), log=log_x, whole=whole_x)
    y = Axis.around(np.concatenate([line.y for line in lines]), log=log_y, limits=limits)
    left = 28 + round(LETTER * max(len(number(tick)) for tick in [0.0, *y.ticks()]))
    top = 10 + 16 * bool(legend) + 16 * bool(marks)
    box = Box(x, y, left, WIDTH - 18, top, HEIGHT - 42)
    parts = [*box.levels(y.ticks()), box.columns(top, box.floor, x_label, number)]
    told = []
    for line in lines:
        parts += box.line(line.kind, line.x, line.y)
        known = line.y[np.isfinite(line.y)]
        if len(known) and line.kind != "faint":
            first, last, low, high = map(number, (*known[[0, -1]], known.min(), known.max()))
            name = f"{line.name}: " if line.name else ""
            told.append(f"{name}from {first} to {last}, least {low}, most {high}")
    for value, word in marks:
        parts += box.mark(value, word)
    turned = text(12, HEIGHT / 2, y_label, "middle", "muted")
    parts += [*key(left, 10, legend), f'<g transform="rotate(-90 12 {HEIGHT / 2})">{turned}</g>']
    return svg(parts, HEIGHT, label, f"{label}. {'; '.join(told)}.")


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

    Names and numbers stand beside the axis, so that no line goes through them.

    Parameters
    ----------
    marked
        Name of the row that is drawn in the second color.
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
    alone = [] if whole is None else [whole]
    # A dot's place is read from where its line begins.
    start = [limits[0]] if math.isfinite(limits[0]) else []
    axis = Axis.around(np.array([*values, *every, *alone, *start]), limits=limits)
    said = [write(value) if math.isfinite(value) else "not defined" for value in values]
    above = f"all {len(every):,}" if len(every) else ""
    cut = [shortened(name, NAME) for name in names]
    left = 16 + round(LETTER * max(map(letters, [*cut, above, "-"])))
    right = WIDTH - 20 - round(LETTER * max(map(len, [*said, "-"])))
    first = 20 + ROW * bool(above)
    box = Box(axis, Axis(0, 1), left, right, 20, first + ROW * len(names))
    parts = [box.columns(box.top, box.floor, x_label, tick)]
    for value in alone:
        parts += box.mark(value, f"{whole_name} {write(value)}") if math.isfinite(value) else []
    if above:
        y = box.top + ROW / 2
        parts.append(text(left - 8, y + 4, above, "end", "muted"))
        places = sorted(box.across(value) for value in every if math.isfinite(value))
        parts += [straight("rug", x, y - 7, x, y + 7) for x in places]
    for k, (name, value) in enumerate(zip(names, values, strict=True)):
        y = first + ROW * (k + 0.5)
        parts += [end_named(left, y + 4, name, NAME), text(WIDTH - 4, y + 4, said[k], "end")]
        if math.isfinite(value):
            kind, x = "s1" if name == marked else "s0", box.across(value)
            parts.append(straight("stem", left, y, x, y))
            parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y}" r="4.5"/>')
    listed = ", ".join(map(" ".join, zip(names, said, strict=True)))
    return svg(parts, box.floor + 38, label, f"{label}: {listed}")


def key(left: float, y: float, kinds: Sequence[tuple[str, str]]) -> list[str]:
    """Return what bars or lines of some kinds mean."""
    parts, x = [], left
    for kind, word in kinds:
        if kind in ("truth", "right", "wrong"):
            thick = 12 if kind == "truth" else 6
            box = f'x="{x:.1f}" y="{y - thick / 2:.1f}" width="16" height="{thick}"'
            parts.append(f'<rect class="{kind} key" {box}/>')
        else:
            parts.append(straight(kind, x, y, x + 16, y))
        parts.append(text(x + 21, y + 4, word))
        x += 36 + LETTER * letters(word)
    return parts


def end_named(right: float, y: float, name: str, most: int) -> str:
    """Return a name that ends at the left edge, cut where it is long; pointed at, it is whole."""
    cut = shortened(name, most)
    return text(right - 8, y, cut, "end", title="" if cut == name else name)


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
    """Return a straight line of a kind, which colors it."""
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
