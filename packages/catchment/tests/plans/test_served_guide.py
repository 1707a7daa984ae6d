"""The guide to people who are badly served shows what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_docs import run_page


@pytest.mark.filterwarnings("ignore")
def test_the_guide_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("guides/badly-served.md")
    page = Path("p03.html").read_text(encoding="utf-8")
    assert "times the others&#x27; spread" in page
    assert page.count("<h3>Recording ") == 3
