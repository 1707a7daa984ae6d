"""The page in a real browser: its numbers are Python's, by pointer and keys, with no request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.playground.compare import check, run_python, same
from tests.watch.browser import Tab, needs_browser, opened
from tools.playground.build import PAGE

pytestmark = [needs_browser, pytest.mark.slow]
MAIN = "document.getElementById('main')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with opened("about:blank", tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest.fixture
def tab(browser: Tab) -> Iterator[Tab]:
    browser.errors.clear()
    browser.shape(1200, 900)
    yield browser
    assert browser.errors == []
    # A page that loads nothing has no entries: no script, picture, font or message of any kind.
    assert browser.look("performance.getEntriesByType('resource').length") == 0


def show(tab: Tab, fragment: str = "#") -> None:
    """Open the page by its file, with settings."""
    tab.send("Page.navigate", url="about:blank")
    tab.send("Page.navigate", url=PAGE.as_uri() + fragment)
    tab.wait_for(f"{MAIN} && {MAIN}.dataset.ready")


def now(tab: Tab) -> dict[str, Any]:
    """Return all numbers of the page as it stands."""
    told = tab.look("JSON.stringify(engine.told(state.settings, state.series, state.version))")
    found: dict[str, Any] = json.loads(told)
    return found


def python(tab: Tab) -> dict[str, Any]:
    """Run the lines that the page offers as it stands."""
    return run_python(tab.look("document.getElementById('python').textContent"))


def settle(tab: Tab) -> None:
    tab.wait_for("!waiting && !memoryTimer")


@pytest.mark.parametrize(
    "fragment",
    [
        "#seed=1&units=50&horizon=150&numbers",
        "#signal=sine&topology=ring&units=40&leak=0.7&ridge=0.01&out=2,3&numbers",
    ],
)
def test_the_numbers_of_the_page_are_pythons(tab: Tab, fragment: str) -> None:
    show(tab, fragment)
    told = json.loads(tab.wait_for(f"{MAIN}.dataset.numbers"))
    names = python(tab)
    check(told, names)
    assert f"{told['memory']['total']:.2f}" in tab.text("#capacity")
    assert f"error {told['error']:.2g} " in tab.text("#error")


def test_a_turn_of_a_knob_by_key_changes_forecast_memory_and_address(tab: Tab) -> None:
    show(tab, "#units=30")
    before, shown = now(tab), tab.text("#capacity")
    tab.look("document.getElementById('k-radius').focus()")
    for _ in range(5):
        for kind in ("keyDown", "keyUp"):
            tab.send("Input.dispatchKeyEvent", type=kind, key="ArrowLeft", code="ArrowLeft",
                     windowsVirtualKeyCode=37)  # fmt: skip
    tab.wait_for("state.settings.radius === 0.9")
    settle(tab)
    assert tab.text("#o-radius") == "0.90"
    tab.wait_for("location.hash === '#units=30&radius=0.9'")
    after = now(tab)
    assert after["forecast"] != before["forecast"]
    assert tab.text("#capacity") != shown
    check(after, python(tab))


def test_a_client_is_taken_out_and_put_back(tab: Tab) -> None:
    show(tab, "#units=30")
    before = now(tab)
    tab.look("document.querySelector('[data-out=\"3\"]').click()")
    tab.wait_for("document.getElementById('figure-sum').innerText.includes('− client 3')")
    out = now(tab)
    check(out, python(tab))
    assert out["total"] == before["total"]
    assert out["shown"] != before["shown"]
    assert tab.text("#subtracted").count("× 10") == 1
    tab.look("document.querySelector('[data-out=\"3\"]').click()")
    tab.wait_for("!document.getElementById('figure-sum').innerText.includes('−')")
    assert now(tab)["shown"] == before["shown"]
    tab.look("document.getElementById('one-by-one').click()")
    tab.wait_for("state.settings.out.length === 3")
    tab.wait_for("state.settings.out.length === 0")
    settle(tab)
    assert now(tab)["shown"] == before["shown"]


def test_a_signal_drawn_by_the_pointer_goes_into_the_python_lines(tab: Tab) -> None:
    show(tab, "#units=30&ridge=0.01&horizon=60")
    before = now(tab)["series"]
    tab.look("document.getElementById('draw').click()")
    place = "JSON.stringify(document.getElementById('signal').getBoundingClientRect())"
    box = json.loads(tab.look(place))
    y = box["y"] + 30
    for k, kind in enumerate(("mousePressed", "mouseMoved", "mouseMoved", "mouseReleased")):
        x = box["x"] + 0.3 * box["width"] + 40 * min(k, 2)
        tab.send("Input.dispatchMouseEvent", type=kind, x=x, y=y + 10 * k, button="left",
                 buttons=1, clickCount=1)  # fmt: skip
    tab.wait_for("state.own")
    settle(tab)
    told = now(tab)
    changed = np.flatnonzero(np.array(told["series"]) != np.array(before))
    assert 60 < len(changed) < 200
    check(told, python(tab))


def test_a_file_is_loaded_and_a_bad_one_is_named(tab: Tab, tmp_path: Path) -> None:
    show(tab, "#units=30&ridge=0.01")
    t = np.arange(900)
    rows = zip(t, 20 + 3 * np.sin(t / 9), 1e6 * np.cos(t / 5) ** 3, strict=True)
    lines = ["time;temperature;load", *(f"{a};{b!r};{c!r}" for a, b, c in rows), "900;;"]
    good, bad = tmp_path / "good.csv", tmp_path / "bad <b>.csv"
    good.write_text("\n".join(lines).replace("np.float64(", "").replace(")", ""))
    bad.write_text("a,b\n1,x\n")
    document = tab.send("DOM.getDocument")["root"]["nodeId"]
    node = tab.send("DOM.querySelector", nodeId=document, selector="#file")["nodeId"]
    tab.send("DOM.setFileInputFiles", nodeId=node, files=[str(good)])
    tab.wait_for("state.own && !document.getElementById('column-label').hidden")
    tab.look("""(() => { const chosen = document.getElementById('column'); chosen.value = 'load';
        chosen.dispatchEvent(new Event('change')); })()""")
    settle(tab)
    told = now(tab)
    assert len(told["series"]) == 900
    assert "without a number, left out: 1." in tab.text("#signal-says")
    check(told, python(tab))
    tab.send("DOM.setFileInputFiles", nodeId=node, files=[str(bad)])
    tab.wait_for("!document.getElementById('trouble').hidden")
    assert tab.text("#trouble").startswith("bad <b>.csv has no column")
    same(now(tab)["forecast"], told["forecast"], "the signal before", 1e-15)


def test_a_constant_past_is_told_in_words(tab: Tab) -> None:
    show(tab, "#units=30")
    tab.look("useSeries(new Array(400).fill(2), true)")
    tab.wait_for("!document.getElementById('trouble').hidden")
    assert "constant" in tab.text("#trouble")
    tab.look("preset('sine')")
    tab.wait_for("document.getElementById('trouble').hidden")


def test_python_is_copied(tab: Tab) -> None:
    show(tab)
    tab.look("document.getElementById('copy').click()")
    tab.wait_for("document.getElementById('copied').textContent === 'copied'")


def test_it_fits_a_phone_in_light_and_dark_and_every_control_has_a_name(tab: Tab) -> None:
    show(tab)
    pages = {}
    for dark in (False, True):
        tab.shape(390, 844, dark=dark)
        tab.wait_for("innerWidth === 390")
        assert tab.look("document.documentElement.scrollWidth") <= 390
        pages[dark] = tab.look("getComputedStyle(document.body).backgroundColor")
    assert pages[False] != pages[True]
    unnamed = """[...document.querySelectorAll('input, select, button, canvas')].filter((one) =>
        !(one.labels && one.labels.length) && !one.textContent.trim()
        && !one.getAttribute('aria-label')).map((one) => one.outerHTML)"""
    assert tab.look(unnamed) == []
