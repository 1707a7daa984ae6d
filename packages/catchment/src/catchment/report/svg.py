"""The parts of charts as SVG text: they take their colours from the page, light or dark.

Charts are 400 units wide with letters of 13, so that they are readable on a phone, where they fill
the width, and beside each other on a desk.
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
