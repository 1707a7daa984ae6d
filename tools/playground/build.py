"""Build the playground page: `python -m tools.playground.build` writes one HTML file.

The C is compiled by ziglang, a C compiler in a wheel: the same sources give the same bytes with
the same version of it. The page's policy names the hashes of its own script and style, so that a
browser runs nothing else and asks nobody for anything.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

from catchment.wire import replace_file

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "_extra" / "playground" / "index.html"
COMPILER = "0.13.0"  # of ziglang: another version may give other bytes
STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wno-unused-function")
PARTS = ("page.html", "page.css", "core.js", "draw.js", "page.js")
EXPORTS = (
    "at",
    "columns",
    "difference",
    "draw",
    "drive",
    "forecast",
    "memory",
    "readout",
    "scale",
    "solve",
    "starts",
    "sums",
    "tanh",
)


def missing() -> str:
    """Return why the page cannot be built here, or nothing."""
    if importlib.util.find_spec("ziglang") is None:
        return f"no ziglang here, a C compiler for WebAssembly; pip install ziglang=={COMPILER}"
    return ""


def gather(folder: Path) -> list[str]:
    """Copy the C sources into a folder and return the names of those to compile."""
    for source in (*HERE.glob("*.c"), *HERE.glob("*.h")):
        (folder / source.name).write_bytes(source.read_bytes())
    return sorted(source.name for source in HERE.glob("*.c"))


def compiled(folder: Path) -> bytes:
    """Return the WebAssembly of the C sources, built in an empty folder."""
    # By bare names, so that no path of this machine can get into the result.
    names = gather(folder)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "wasm32-freestanding", *STRICT]
    command += ["-O2", "-g0", "-nostdlib", "-ffp-contract=off", "-Wl,--no-entry", "-Wl,--strip-all"]
    command += [f"-Wl,--export=play_{name}" for name in EXPORTS]
    command += ["-o", "play.wasm", *names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return (folder / "play.wasm").read_bytes()


def page(wasm: bytes) -> str:
    """Return the page with everything in it."""
    parts = {name: (HERE / name).read_text(encoding="utf-8") for name in PARTS}
    body = "".join(parts[name] for name in ("core.js", "draw.js", "page.js"))
    script = f'\n"use strict";\nconst WASM = "{base64.b64encode(wasm).decode()}";\n{body}'
    style = f"\n{parts['page.css']}"
    text = parts["page.html"].replace("@STYLE_HASH@", hashed(style))
    text = text.replace("@SCRIPT_HASH@", hashed(script))
    size = round((len(text) + len(style) + len(script)) / 1000)
    text = text.replace("@SIZE@", str(size))
    return text.replace("@STYLE@", style).replace("@SCRIPT@", script)


def hashed(text: str) -> str:
    """Return the SHA-256 by which a page's policy names its own script or style.

    >>> hashed("a")
    'ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs='
    """
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def main() -> None:
    """Build the page and write it, whole or not at all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PAGE)
    out: Path = parser.parse_args().out
    if missing():
        sys.exit(missing())
    with tempfile.TemporaryDirectory() as folder:
        text = page(compiled(Path(folder)))
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_file(out, text.encode())
    sys.stdout.write(f"wrote {out}: {len(text.encode()) / 1000:.0f} kB\n")


if __name__ == "__main__":
    main()
