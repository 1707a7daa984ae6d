"""The page as a file: built anew it has the same bytes, and it asks nobody for anything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.report.pages import Checked
from tools.playground.build import HERE, PAGE, compiled, hashed, missing, page

DOCS = PAGE.parents[2]


@pytest.fixture(scope="module")
def text() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_page_built_anew_is_the_one_that_is_kept(text: str, tmp_path: Path) -> None:
    same = page(compiled(tmp_path)) == text
    assert same, "the sources of the page have changed: make playground builds it"


def test_what_needs_no_compiler_is_in_the_page_as_it_is(text: str) -> None:
    for name in ("core.js", "draw.js", "page.js", "page.css"):
        assert (HERE / name).read_text(encoding="utf-8") in text, f"make playground: {name} changed"


def test_the_page_is_small_and_whole(text: str) -> None:
    assert len(text.encode()) < 120_000
    assert "@" not in re.sub(r"<script>.*</script>|@media", "", text, flags=re.DOTALL)


def test_a_browser_is_told_to_run_only_this_and_to_ask_nobody(text: str) -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    for tag in ("script", "style"):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert f"{tag}-src 'sha256-{hashed(inside)}'" in policy
    assert not re.search(r"https?://|\bfetch\(|XMLHttpRequest|WebSocket|sendBeacon", text)


def test_links_lead_to_pages_of_the_documentation(text: str) -> None:
    links = [link for link in Checked(text).links if not link.startswith("data:")]
    assert len(links) >= 2
    for link in links:
        # The page lies in a folder of its own beside those of the documentation.
        page_of = (DOCS / link.removeprefix("../")).with_suffix(".md")
        assert link.startswith("../")
        assert page_of.exists(), link
