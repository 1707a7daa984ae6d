"""Run the page's WebAssembly without a browser, under node."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.playground.build import HERE, PAGE


def missing() -> str:
    """Return why this cannot be done here, or nothing."""
    return "" if shutil.which("node") else "there is no node here; apt install nodejs"


def shipped() -> bytes:
    """Return the WebAssembly that the page holds."""
    found = re.search(r'^const WASM = "([^"]+)";$', PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ValueError(f"{PAGE} holds no WebAssembly; make playground builds it")
    return base64.b64decode(found[1])


def numbers(fragments: Sequence[str]) -> list[dict[str, Any]]:
    """Return what the page computes for each fragment, such as "#units=50&seed=1".

    Beside the numbers, `python` has the lines that give them in Python.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "play.wasm"
        path.write_bytes(shipped())
        command = ["node", str(HERE / "tell.cjs"), str(path)]
        told = json.dumps(list(fragments))
        done = subprocess.run(command, input=told, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
