"""Charts of lines over time, rounds or ridges, and of one dot for each name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from catchment.arrays import Array
from catchment.report.svg import LETTER, WIDTH, Axis, number, straight, stretches, svg, text

ROW = 22


@dataclass(frozen=True, eq=False)
class Line:
    """One line: its points (n,) each, the class that colours it, and its name in the legend."""

    x: Array
    y: Array
    kind: str
    name: str = ""


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
    longest = max((len(number(tick)) for tick in y_axis.ticks()), default=1)
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
            for points in stretches([at(x, y) for x, y in zip(line.x, line.y, strict=True)])
        ]
    for value, word in marks:
        x, _ = at(value, 10**y_axis.low if log_y else y_axis.low)
        late = x > WIDTH / 2
        parts.append(straight("mark", x, top, x, height - bottom))
        parts.append(text(x + (-5 if late else 5), top + 12, word, "end" if late else "start"))
    parts += _legend([line for line in lines if line.name], left)
    parts.append(text((left + WIDTH - right) / 2, height - 6, x_label, "middle", "muted"))
    turned = f'<g transform="rotate(-90 12 {height / 2})">'
    parts.append(f"{turned}{text(12, height / 2, y_label, 'middle', 'muted')}</g>")
    return svg(parts, height, label)


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
        parts.append(straight("grid", x, top, x, height - bottom))
        parts.append(text(x, height - bottom + 16, tick(value), "middle", "muted"))
    if whole is not None:
        x = across(whole)
        parts.append(straight("mark", x, top - 4, x, height - bottom))
        parts.append(text(x, top - 7, f"all {write(whole)}", "middle"))
    for k, (full, name, value) in enumerate(zip(names, shown, values, strict=True)):
        y = top + ROW * (k + 0.5)
        parts.append(text(left - 8, y + 4, name, "end"))
        if not math.isfinite(value):
            parts.append(text(left + 4, y + 4, "not defined", kind="muted"))
            continue
        kind, x = ("s1" if full == marked else "s0"), across(value)
        parts.append(straight("stem", left, y, x, y))
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y}" r="4.5"/>')
        parts.append(text(x + 9, y + 4, write(value)))
    parts.append(text((left + WIDTH - right) / 2, height - 5, x_label, "middle", "muted"))
    return svg(parts, height, label)


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
        parts.append(straight("grid", left, y, WIDTH - right, y))
        parts.append(text(left - 6, y + 4, number(tick), "end", "muted"))
    for tick in x_axis.ticks():
        x, _ = at(tick, y0)
        parts.append(straight("grid", x, top, x, height - bottom))
        parts.append(text(x, height - bottom + 15, number(tick), "middle", "muted"))
    return parts


def _legend(lines: Sequence[Line], left: int) -> list[str]:
    parts, x = [], float(left)
    for line in lines:
        parts += [straight(line.kind, x, 10, x + 16, 10), text(x + 21, 14, line.name)]
        x += 36 + LETTER * len(line.name)
    return parts
