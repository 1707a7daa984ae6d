"""A headless Chromium, driven by its DevTools protocol."""

from __future__ import annotations

import base64
import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.report.pages import BROWSER
from tests.report.pages import needs_browser as needs_browser

PATIENCE = 90.0  # seconds: a machine under load starts a browser slowly


class Tab:
    """One page of the browser."""

    def __init__(self, socket: Any) -> None:
        self._socket, self._number = socket, 0
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the answer to a command; what the page complains of meanwhile is kept."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(timeout=PATIENCE))
            if answer.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.errors.append(json.dumps(answer["params"]))
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def look(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, expression: str) -> Any:
        """Return the value of an expression as soon as it is true."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            value = self.look(expression)
            if value:
                return value
            time.sleep(0.1)
        said = self.look("document.body ? document.body.innerText : ''")
        raise AssertionError(f"never so: {expression}; the page says {said}; {self.errors}")

    def text(self, selector: str) -> str:
        """Return what an element says; nothing if there is none."""
        one = f"document.querySelector({json.dumps(selector)})"
        return str(self.look(f"({one} || {{innerText: ''}}).innerText"))

    def shape(self, width: int, height: int, *, dark: bool = False) -> None:
        """Give the page a size, and a preference for light or dark."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def opened(url: str, place: Path) -> Iterator[Tab]:
    """Open a page in a browser of its own.

    Parameters
    ----------
    place
        Folder for the browser's own files.
    """
    client = pytest.importorskip("websockets.sync.client")
    assert BROWSER is not None
    profile = place / "profile"
    command = [
        BROWSER,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--no-first-run",
        "--remote-debugging-port=0",
        f"--user-data-dir={profile}",
        "about:blank",
    ]
    browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port = _port(profile / "DevToolsActivePort")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=PATIENCE) as told:
            page = next(one for one in json.load(told) if one["type"] == "page")
        address = page["webSocketDebuggerUrl"]
        with client.connect(address, max_size=None, open_timeout=PATIENCE) as socket:
            tab = Tab(socket)
            tab.send("Page.navigate", url=url)
            yield tab
    finally:
        browser.terminate()
        browser.wait(timeout=PATIENCE)


def _port(path: Path) -> int:
    """Return the port that the browser wrote down."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if path.is_file() and (lines := path.read_text().split()):
            return int(lines[0])
        time.sleep(0.05)
    raise AssertionError(f"the browser wrote no {path}")
