"""Charts of lines over time, rounds or ridges, and of one dot for each name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from catchment.arrays import Array
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
