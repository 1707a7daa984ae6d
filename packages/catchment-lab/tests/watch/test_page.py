"""The page as a real browser shows it: live, in light and dark, on a phone, with rude clients."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catchment_lab.watch import watching
from tests.watch.browser import needs_browser, opened
from tests.watch.runs import RUDE, run_in, running

STATE = "document.getElementById('main') && document.getElementById('main').dataset.state"


def trained(count: int) -> str:
    return f"(document.querySelector('#tile-rounds b') || {{}}).innerText === '{count} of 4'"


@needs_browser
@pytest.mark.slow
def test_a_browser_follows_a_run_from_before_its_start_to_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with watching(folder) as server, opened(server.url, tmp_path) as tab:
        tab.wait_for(
            f"{STATE} === 'waiting' && document.getElementById('main').dataset.live === 'yes'"
        )
        assert "No run has begun" in tab.text("#says")
        with running(folder, rude="ann <b>bold</b>") as gate:
            tab.wait_for(f"{STATE} === 'running'")
            tab.wait_for("document.querySelector('#tile-clients b').innerText === '3 of 5'")
            assert tab.text("#title") == "Steps <b>averaged</b>"
            gate.open(2)
            tab.wait_for(trained(2))
            assert "ann <b>bold</b>" in tab.text("#refusals")
            assert RUDE in tab.text("#refusals")
            assert "round 3 of 4" in tab.text("#stages")
            assert tab.look("document.querySelectorAll('#charts svg').length") >= 1
        tab.wait_for(f"{STATE} === 'finished'")
        assert tab.text("#tile-rounds b") == "4 of 4"
        assert "accuracy" in tab.text("#tile-score")
        assert tab.look("document.querySelectorAll('main img, main script, main b b').length") == 0
        assert tab.errors == []


@needs_browser
@pytest.mark.slow
def test_a_finished_run_fits_a_phone_and_both_schemes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run_in(folder, lambda: None, rounds=3, rude="x" * 200, noisy=True)
    with watching(folder) as server, opened(server.url, tmp_path) as tab:
        tab.wait_for(f"{STATE} === 'finished' && document.querySelectorAll('.tile').length > 0")
        assert tab.text("#tile-epsilon b") == "2"
        assert "3 of 3 releases" in tab.text("#tile-epsilon")
        pages = {}
        for dark in (False, True):
            tab.shape(390, 844, dark=dark)
            assert tab.look("document.documentElement.scrollWidth") <= 390
            pages[dark] = tab.look("getComputedStyle(document.body).backgroundColor")
        assert pages[False] != pages[True]
        assert tab.errors == []
    said = json.dumps(tab.errors)
    assert "Content Security Policy" not in said


@needs_browser
@pytest.mark.slow
def test_at_1280_pixels_no_table_is_cut(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run_in(folder, lambda: None, rounds=2)
    with watching(folder) as server, opened(server.url, tmp_path) as tab:
        tab.wait_for(
            f"{STATE} === 'finished' && document.querySelectorAll('#rounds tr').length > 0"
        )
        tab.shape(1280, 900)
        long = "held-out error 0.1151, ridge 541.6, rows 288, weight norm 6.788"
        tab.look(f"(document.querySelector('#rounds td.after').textContent = '{long}')")
        cut = "[...document.querySelectorAll('.scroll')].filter(x => x.scrollWidth > x.clientWidth)"
        assert tab.look(f"{cut}.length") == 0


@needs_browser
@pytest.mark.slow
def test_a_page_that_lost_its_server_says_so(tmp_path: Path) -> None:
    run_in(tmp_path / "run", lambda: None, rounds=2)
    with watching(tmp_path / "run") as server:
        pages = opened(server.url, tmp_path)
        tab = pages.__enter__()
        tab.wait_for(f"{STATE} === 'finished'")
    try:
        tab.wait_for("!document.getElementById('lost').hidden")
        assert tab.text("#tile-rounds b") == "2 of 2"
    finally:
        pages.__exit__(None, None, None)
