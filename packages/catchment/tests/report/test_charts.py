"""Charts: axes that hold their values and end where values do, rows, lines and letters."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from catchment.report import Axis, Line, dot_chart, letters, line_chart, shortened


def test_rounds_are_counted_in_whole_numbers() -> None:
    for n in (2, 3, 7, 40):
        ticks = Axis.around(np.arange(1.0, n + 1), whole=True).ticks()
        assert ticks
        assert all(tick == round(tick) and 1 <= tick <= n for tick in ticks)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("values", [[1.0, 2.0], [3.0, 3.0], [1e-9, 1e9], [1.0], [0.2, np.nan]])
def test_axes_hold_their_values(values: list[float], log: bool) -> None:
    axis = Axis.around(np.array(values), log=log)
    known = [v for v in values if np.isfinite(v)]
    assert all(0 <= axis.place(v) <= 1 for v in known)
    ticks = axis.ticks()
    assert ticks == sorted(ticks)
    assert 1 <= len(ticks) <= 12
    assert all(-1e-9 <= axis.place(tick) <= 1 + 1e-9 for tick in ticks)


def test_lines_break_where_values_are_missing() -> None:
    x = np.arange(5.0)
    y = np.array([1.0, 2.0, np.nan, 3.0, 4.0])
    assert line_chart([Line(x, y, "s0")], label="a line").count("<polyline") == 2
    assert line_chart([Line(x, y - 2, "s0")], label="l", log_y=True).count("<polyline") == 1


def test_long_names_are_cut_in_the_chart_only() -> None:
    chart = dot_chart(["x" * 60], [0.5], label="l", x_label="score", marked="x" * 60)
    assert "x" * 14 + "…" in chart
    words = re.sub(r"<(title|desc)>[^<]*</", "</", chart)
    assert "x" * 16 not in words
    assert f"<title>{'x' * 60}</title>" in chart  # whole for who points at it
    assert 'class="s1"' in chart


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
@example([5e-324])
def test_an_axis_of_shares_ends_with_them(values: list[float]) -> None:
    axis = Axis.around(np.array(values), limits=(0.0, 1.0))
    assert 0 <= axis.low < axis.high <= 1
    assert all(-1e-9 <= axis.place(value) <= 1 + 1e-9 for value in values)
    if max(values) >= 0.9:
        assert axis.high == 1
    ticks = axis.ticks(4)
    assert 1 <= len(ticks) <= 9
    assert ticks[0] >= axis.low - 1e-9
    assert ticks[-1] <= axis.high + 1e-9


@pytest.mark.parametrize("value", [0.0, 0.2, 1.0])
def test_ticks_are_sensible_where_all_are_alike(value: float) -> None:
    ticks = Axis.around(np.full(3, value), limits=(0.0, 1.0)).ticks(4)
    assert len(ticks) >= 2
    assert min(ticks) >= 0
    assert max(ticks) <= 1
    assert any(math.isclose(tick, value) for tick in ticks)


def test_an_error_is_never_negative() -> None:
    chart = dot_chart(["a", "b"], [0.0, 1.0], label="l", x_label="NRMSE", limits=(0.0, math.inf))
    assert ">-" not in chart


def test_no_end_of_the_axis_is_beyond_all() -> None:
    chart = dot_chart(
        ["a", "b"],
        [1.0, 1.0],
        label="l",
        x_label="accuracy",
        tick=lambda value: f"{100 * value:.3g} %",
        limits=(0.0, 1.0),
    )
    shares = [float(found) for found in re.findall(r">([\d.]+) %<", chart)]
    assert max(shares) == 100


def test_letters_of_every_script_have_room() -> None:
    assert letters("ab") == 2
    assert letters("\u6797\u6728") > 3
    assert letters("WM") > letters("ab") > letters("e\u0301")
    assert shortened("\u6797" * 20, 9) == "\u6797" * 4 + "\u2026"
    assert letters(shortened("W" * 20, 9)) <= 9
    assert shortened("abc", 3) == "abc"


def test_many_are_marks_above_some_rows() -> None:
    chart = dot_chart(["a"], [0.1], label="l", x_label="s", every=[0.1, 0.2, math.nan, 0.9])
    assert chart.count('class="rug"') == 3
    assert "all 4" in chart


def test_a_chart_tells_those_who_do_not_see_it() -> None:
    chart = line_chart([Line(np.arange(3.0), np.array([1.0, 5.0, 2.0]), "s0", "loss")], label="l")
    assert "<desc>l. loss: from 1 to 2, least 1, most 5.</desc>" in chart
    rows = dot_chart(["a", "b"], [0.25, math.nan], label="scores", x_label="s")
    assert "<desc>scores: a 0.25, b not defined</desc>" in rows
