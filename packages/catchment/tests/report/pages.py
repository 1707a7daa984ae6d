"""What tests of pages share: a reader that checks them, and a browser that shows them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BROWSER = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="there is no chromium here; `make browser` installs it"
)
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Checked(HTMLParser):
    """Reads a page, sees that every tag is closed, and gathers what it refers to and says."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.links += [
            v or "" for k, v in attrs if k in ("href", "src", "srcset", "data", "action")
        ]
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def browser(*arguments: str, page: Path, place: Path) -> str:
    """Run the browser without a window on a page, and return what it prints."""
    assert BROWSER is not None
    command = [
        BROWSER,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--no-first-run",
        f"--user-data-dir={place / 'profile'}",
        *arguments,
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


def pixels(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    image = pytest.importorskip("PIL.Image")
    return np.asarray(image.open(path).convert("RGB"), dtype=np.uint8)


# Shows a page in a frame of some width, runs functions on its document, and writes down what they
# return. The page itself allows no script.
_FRAME = """<!doctype html><body style="margin:0"><iframe id="f"
style="width:{width}px;height:900px;border:0" srcdoc="{page}"></iframe><script>
onload = () => setTimeout(() => {{ const d = document.getElementById("f").contentDocument;
const found = {{}}, scripts = {{ {scripts} }};
for (const name in scripts) found[name] = scripts[name](d);
document.body.dataset.found = JSON.stringify(found); }}, 300);
</script></body>"""


def measured(page: str, scripts: Mapping[str, str], place: Path, *, width: int = 390) -> Any:
    """Return by name what functions of JavaScript say of a page's document at some width."""
    # Within a frame of our own the policy would forbid the frame's content to be styled.
    text = page.replace("Content-Security-Policy", "X-None")
    text = text.replace("&", "&amp;").replace('"', "&quot;")
    listed = ", ".join(f"{name}: {script}" for name, script in scripts.items())
    measuring = place / "measure.html"
    measuring.write_text(_FRAME.format(page=text, scripts=listed, width=width), encoding="utf-8")
    dom = browser("--dump-dom", "--virtual-time-budget=5000", page=measuring, place=place)
    told = re.search(r'data-found="([^"]*)"', dom)
    assert told is not None
    return json.loads(unescape(told[1]))
