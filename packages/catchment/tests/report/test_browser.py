"""The report in a real browser: light, dark, on a phone, on paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catchment.federation.measure import Comparison, Row
from catchment.federation.runs import Run
from catchment.report import render
from tests.report.pages import browser, measured, needs_browser, pixels

# Every text of a chart against every line of it, in pixels. A line is the points along it.
_CROSSED = """d => { const found = [];
for (const svg of d.querySelectorAll("svg")) {
  const points = [];
  for (const one of svg.querySelectorAll("line, polyline")) {
    const m = one.getScreenCTM(), length = one.getTotalLength();
    for (let at = 0; at <= length; at += 3) {
      const p = one.getPointAtLength(at).matrixTransform(m); points.push([p.x, p.y]); } }
  for (const text of svg.querySelectorAll("text")) {
    const b = text.getBoundingClientRect();
    if (points.some(([x, y]) => x > b.left && x < b.right && y > b.top + 2 && y < b.bottom - 3))
      found.push(svg.getAttribute("aria-label") + ": " + text.textContent); } }
return found; }"""

# Texts of a chart that lie on each other, or that leave it.
_CROWDED = """d => { const found = [];
for (const svg of d.querySelectorAll("svg")) {
  const s = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll("text")].map(
    t => [t.textContent, t.getBoundingClientRect()]);
  boxes.forEach(([a, p], k) => {
    if (p.left < s.left - 1 || p.right > s.right + 1) found.push("out: " + a);
    for (const [b, q] of boxes.slice(k + 1))
      if (p.left < q.right - 1 && q.left < p.right - 1 && p.top + 3 < q.bottom - 3 &&
          q.top + 3 < p.bottom - 3) found.push(a + " / " + b); }); }
return found; }"""

_PHONE = """d => { const small = [...d.querySelectorAll(".chart text")].map(t =>
  parseFloat(getComputedStyle(t).fontSize) * t.closest("svg").clientWidth / 400);
const tables = [...d.querySelectorAll(".table")].map(t => { const box = t.querySelector(".scroll"),
  hint = t.querySelector(".more"), first = t.querySelector("tbody tr > :first-child");
  const before = first.getBoundingClientRect().left;
  const seen = getComputedStyle(hint).visibility == "visible" && hint.clientHeight > 8;
  box.scrollLeft = 60; const moved = first.getBoundingClientRect().left - before;
  const out = { over: box.scrollWidth - box.clientWidth, seen, moved,
    closed: !!t.closest("details:not([open])"), name: box.getAttribute("aria-label") };
  box.scrollLeft = 0; return out; });
return { wide: d.documentElement.scrollWidth, charts: d.querySelectorAll("svg").length,
  smallest: Math.min(...small), tiles: d.querySelectorAll(".tile").length, tables,
  font: getComputedStyle(d.querySelector(".sent p")).fontSize }; }"""

_NAMED = """d => [...d.querySelectorAll("svg")].map(s => [s.getAttribute("role"),
  s.querySelector("title").textContent.length, s.querySelector("desc").textContent.length])"""

SCRIPTS = {"crossed": _CROSSED, "crowded": _CROWDED, "phone": _PHONE, "named": _NAMED}


def strange(run: Run) -> Run:
    """Return a run with long names, names of other scripts, HTML in names, all alike."""
    names = ["x" * 70, "林さんの腕時計と心電図の記録", "<b>&amp;bold</b>", "عميل", "p 4"]
    some = next(iter(run.scores.values()))
    value = dict.fromkeys(some, 1.0)
    rows = tuple(Row(name, run.metric, 0.9, name, 0.8, 0.1, 10**9, note=name) for name in names)
    classes = tuple(f"{names[k % 5]} {k}" for k in range(len(run.classes)))
    return replace(
        run,
        facts={**run.facts, "title": "y" * 120},
        scores={"": value} | dict.fromkeys(names, value),
        comparison=Comparison(rows),
        classes=classes,
    )


@pytest.fixture(scope="module", params=[390, 1100])
def found(
    runs: list[Run],
    descent: Run,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> tuple[int, dict[str, Any]]:
    """Return a width, and what is measured of a page with all kinds of runs at that width."""
    page = render([*runs, descent, strange(runs[0])])
    place = tmp_path_factory.mktemp("page")
    return request.param, measured(page, SCRIPTS, place, width=request.param)


@needs_browser
def test_no_text_lies_on_a_line_or_on_another(found: tuple[int, dict[str, Any]]) -> None:
    _, said = found
    assert said["crossed"] == []
    assert said["crowded"] == []


@needs_browser
def test_it_fits_the_screen(found: tuple[int, dict[str, Any]]) -> None:
    width, said = found
    phone = said["phone"]
    assert phone["wide"] <= width  # nothing sticks out sideways
    assert phone["charts"] >= 8
    assert phone["smallest"] >= 9.5
    assert phone["font"] == "16px"
    assert phone["tiles"] == 24


@needs_browser
def test_tables_say_that_they_scroll_and_keep_their_first_column(
    found: tuple[int, dict[str, Any]],
) -> None:
    width, said = found
    tables = [one for one in said["phone"]["tables"] if not one["closed"]]
    over = [one for one in tables if one["over"] > 0]
    assert all(one["seen"] and abs(one["moved"]) < 1 for one in over)
    assert not [one for one in tables if one["over"] <= 0 and one["seen"]]
    if width == 390:
        assert "Compared with other strategies" in [one["name"] for one in over]


@needs_browser
def test_every_chart_has_a_title_and_a_description(found: tuple[int, dict[str, Any]]) -> None:
    _, said = found
    assert said["named"]
    assert all(role == "img" and title > 5 and told > 5 for role, title, told in said["named"])


@needs_browser
def test_it_follows_light_and_dark(runs: list[Run], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(render(runs[:1]), encoding="utf-8")
    shots = {}
    for name, scheme in (("light", "1"), ("dark", "0")):
        path = tmp_path / f"{name}.png"
        browser(
            f"--screenshot={path}",
            "--window-size=1000,1400",
            f"--blink-settings=preferredColorScheme={scheme}",
            page=page,
            place=tmp_path,
        )
        shots[name] = pixels(path)
    assert shots["light"].shape == shots["dark"].shape == (1400, 1000, 3)
    assert tuple(shots["light"][2, 2]) == (0xFF, 0xFF, 0xFF)
    assert tuple(shots["dark"][2, 2]) == (0x14, 0x18, 0x1D)
    # Both show charts: there is color, not only gray.
    for shot in shots.values():
        spread = shot.max(axis=2).astype(int) - shot.min(axis=2)
        assert (spread > 60).mean() > 0.001
