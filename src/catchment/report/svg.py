"""Charts as SVG text: they take their colours from the page, so one drawing suits light and dark.

Charts are 400 units wide with letters of 13, so that they are readable on a phone, where they fill
the width, and beside each other on a desk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from catchment.arrays import Array

WIDTH = 400
ROW = 22
LETTER = 7.2  # units per letter, about


@dataclass(frozen=True, eq=False)
class Line:
    """One line: its points (n,) each, the class that colours it, and its name in the legend."""

    x: Array
    y: Array
    kind: str
    name: str = ""


@dataclass(frozen=True, eq=False)
class Axis:
    """A range of values and the ticks on it."""

    low: float
    high: float
    log: bool = False
    whole: bool = False  # whether ticks are whole numbers, such as those of rounds

    @classmethod
    def around(cls, values: Array, *, log: bool = False, whole: bool = False) -> Axis:
        """Return an axis that holds all finite values, with a little room at both ends.

        >>> Axis.around(np.array([0.0, 10.0])).ticks()
        [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
        """
        known = values[np.isfinite(values)]
        if log:
            known = np.log10(known[known > 0])
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        room = 0.5 if whole else 0.04 * (high - low) or 0.5
        return cls(low - room, high + room, log, whole)

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
        first = math.ceil(self.low / step)
        return [k * step + 0.0 for k in range(first, math.floor(self.high / step) + 1)]


def line_chart(
    lines: Sequence[Line],
    *,
    label: str,
    x_label: str = "",
    y_label: str = "",
    log_x: bool = False,
    whole_x: bool = False,
    log_y: bool = False,
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
    marks
        Values of x with a vertical line and a word each.

    >>> x = np.arange(5.0)
    >>> line_chart([Line(x, x**2, "s0")], label="squares").startswith("<svg")
    True
    """
    x_axis = Axis.around(np.concatenate([line.x for line in lines]), log=log_x, whole=whole_x)
    y_axis = Axis.around(np.concatenate([line.y for line in lines]), log=log_y)
    longest = max((len(_number(tick)) for tick in y_axis.ticks()), default=1)
    left, right, top, bottom = 28 + round(LETTER * longest), 18, 24, 42

    def at(x: float, y: float) -> tuple[float, float]:
        across, up = x_axis.place(x), y_axis.place(y)
        return left + across * (WIDTH - left - right), height - bottom - up * (
            height - top - bottom
        )

    parts = _grid(x_axis, y_axis, at, height, (left, right, top, bottom))
    for line in lines:
        parts += [
            f'<polyline class="{line.kind}" points="{points}"/>'
            for points in _stretches([at(x, y) for x, y in zip(line.x, line.y, strict=True)])
        ]
    for value, word in marks:
        x, _ = at(value, 10**y_axis.low if log_y else y_axis.low)
        late = x > WIDTH / 2
        parts.append(_line("mark", x, top, x, height - bottom))
        parts.append(_text(x + (-5 if late else 5), top + 12, word, "end" if late else "start"))
    parts += _legend([line for line in lines if line.name], left)
    parts.append(_text((left + WIDTH - right) / 2, height - 6, x_label, "middle", "muted"))
    turned = f'<g transform="rotate(-90 12 {height / 2})">'
    parts.append(f"{turned}{_text(12, height / 2, y_label, 'middle', 'muted')}</g>")
    return _svg(parts, height, label)


def dot_chart(
    names: Sequence[str],
    values: Sequence[float],
    *,
    label: str,
    x_label: str,
    marked: str = "",
    whole: float | None = None,
    write: Callable[[float], str] = "{:.3g}".format,
    tick: Callable[[float], str] = "{:.3g}".format,
) -> str:
    """Return a row per name with a dot at its value.

    Parameters
    ----------
    marked
        Name of the row that is drawn in the second colour.
    whole
        A value drawn as a line through all rows.
    write, tick
        How a value is written beside its dot, and on the axis.

    >>> dot_chart(["a", "b"], [0.2, 0.9], label="scores", x_label="score").count("<circle")
    2
    """
    shown = [name if len(name) <= 16 else f"{name[:15]}…" for name in names]
    left = 16 + round(LETTER * max(map(len, shown), default=4))
    longest = max((len(write(value)) for value in values if math.isfinite(value)), default=1)
    right, top, bottom = 14 + round(LETTER * longest), 20, 38
    height = top + bottom + ROW * len(shown)
    every = np.array([*values, *([] if whole is None else [whole])])
    axis = Axis.around(every)

    def across(value: float) -> float:
        return left + axis.place(value) * (WIDTH - left - right)

    parts = []
    for value in axis.ticks(4):
        x = across(value)
        parts.append(_line("grid", x, top, x, height - bottom))
        parts.append(_text(x, height - bottom + 16, tick(value), "middle", "muted"))
    if whole is not None:
        x = across(whole)
        parts.append(_line("mark", x, top - 4, x, height - bottom))
        parts.append(_text(x, top - 7, f"all {write(whole)}", "middle"))
    for k, (full, name, value) in enumerate(zip(names, shown, values, strict=True)):
        y = top + ROW * (k + 0.5)
        parts.append(_text(left - 8, y + 4, name, "end"))
        if not math.isfinite(value):
            parts.append(_text(left + 4, y + 4, "not defined", kind="muted"))
            continue
        kind, x = ("s1" if full == marked else "s0"), across(value)
        parts.append(_line("stem", left, y, x, y))
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y}" r="4.5"/>')
        parts.append(_text(x + 9, y + 4, write(value)))
    parts.append(_text((left + WIDTH - right) / 2, height - 5, x_label, "middle", "muted"))
    return _svg(parts, height, label)


def _svg(parts: Sequence[str], height: float, label: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(label)}"><title>{escape(label)}</title>{"".join(parts)}</svg>'
    )


def _grid(
    x_axis: Axis,
    y_axis: Axis,
    at: Callable[[float, float], tuple[float, float]],
    height: int,
    margins: tuple[int, int, int, int],
) -> list[str]:
    left, right, top, bottom = margins
    parts = []
    x0 = 10**x_axis.low if x_axis.log else x_axis.low
    y0 = 10**y_axis.low if y_axis.log else y_axis.low
    for tick in y_axis.ticks():
        _, y = at(x0, tick)
        parts.append(_line("grid", left, y, WIDTH - right, y))
        parts.append(_text(left - 6, y + 4, _number(tick), "end", "muted"))
    for tick in x_axis.ticks():
        x, _ = at(tick, y0)
        parts.append(_line("grid", x, top, x, height - bottom))
        parts.append(_text(x, height - bottom + 15, _number(tick), "middle", "muted"))
    return parts


def _legend(lines: Sequence[Line], left: int) -> list[str]:
    parts, x = [], float(left)
    for line in lines:
        parts += [_line(line.kind, x, 10, x + 16, 10), _text(x + 21, 14, line.name)]
        x += 36 + LETTER * len(line.name)
    return parts


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    marked = f' class="{kind}"' if kind else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text{marked} {place}>{escape(text)}</text>"


def _stretches(points: Sequence[tuple[float, float]]) -> list[str]:
    """Return the points of each unbroken stretch; a point that is nowhere breaks a line."""
    stretches: list[list[str]] = [[]]
    for x, y in points:
        if math.isfinite(x) and math.isfinite(y):
            stretches[-1].append(f"{x:.1f},{y:.1f}")
        elif stretches[-1]:
            stretches.append([])
    return [" ".join(stretch) for stretch in stretches if stretch]


def _number(value: float) -> str:
    """Return a tick's number, short.

    >>> _number(0.0), _number(1e-9), _number(2500.0)
    ('0', '1e-9', '2500')
    """
    text = f"{value:.4g}"
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if mark else text
