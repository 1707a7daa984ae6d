"""`python -m tools.matrix [--newest] 3.11 3.12 -- -n 1`: the tests of the core on several Pythons.

Every interpreter gets an environment of its own, .venv-3.12 and so on, with the library, the
small extras and the newest packages that the requirements allow: no pins. Tests that need torch
skip themselves. With --newest the upper bounds of the requirements are taken away, too, to see
which of them is still needed. What stands after -- goes to pytest.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

ROOMS = ("readout", "features", "data", "sklearn", "federation")
TESTS = tuple(f"packages/catchment/tests/{name}" for name in ROOMS)
# Besides the library: what runs the tests, and whom they compare with.
EXTRAS = "dp,parquet,sklearn"
TOOLS = ["pytest", "pytest-xdist", "hypothesis", "networkx", "pandas", "polars", "onnx"]
TOOLS += ["jsonschema"]


def places(version: str, home: Path | None = None) -> Iterator[str]:
    """Yield where an interpreter of a version may be: on the search path, or kept by pyenv."""
    found = shutil.which(f"python{version}")
    if found is not None:
        yield found
    kept = (Path.home() if home is None else home) / ".pyenv" / "versions"
    for folder in sorted(kept.glob(f"{version}.*"), key=_patch, reverse=True):
        yield str(folder / "bin" / "python")


def _patch(folder: Path) -> int:
    last = folder.name.rpartition(".")[2]
    return int(last) if last.isdecimal() else -1


def starts(python: str, version: str) -> bool:
    """Return whether an interpreter starts and is of a version: a version manager may pretend.

    >>> starts(sys.executable, "2.7")
    False
    """
    code = f"import sys; sys.exit(sys.version_info[:2] != {tuple(map(int, version.split('.')))})"
    try:
        return subprocess.run([python, "-c", code], capture_output=True).returncode == 0
    except OSError:
        return False


def interpreter(version: str, candidates: Iterable[str]) -> str | None:
    """Return the first interpreter of a version that really starts, if there is any."""
    return next((python for python in candidates if starts(python, version)), None)


def bounded(project: Path = Path("packages/catchment/pyproject.toml")) -> list[str]:
    """Return the names of what the core needs below some version.

    >>> all(name.isidentifier() for name in bounded())
    True
    """
    needs = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
    return [re.split("[<>=]", need)[0] for need in needs if "<" in need]


def passes(version: str, python: str, options: Sequence[str], *, newest: bool = False) -> bool:
    """Return whether the tests pass on an interpreter; its environment is made if not there."""
    folder = Path(f".venv-{version}")
    own = str(folder / "bin" / "python")
    if not Path(own).is_file():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    install = [own, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--upgrade"]
    subprocess.run([*install, "-e", f"packages/catchment[{EXTRAS}]", *TOOLS], check=True)
    if newest and bounded():
        subprocess.run([*install, *bounded()], check=True)
    command = [own, "-m", "pytest", "-q", "-m", "not long and not slow", *TESTS, *options]
    return subprocess.run(command).returncode == 0


def main(words: Sequence[str], test: Callable[[str, str, Sequence[str]], bool] = passes) -> int:
    """Test on every version named that is here; return 1 if any failed or none is here."""
    at = words.index("--") if "--" in words else len(words)
    results = {}
    for version in words[:at]:
        python = interpreter(version, places(version))
        print(f"Python {version}: {python or 'not on this machine'}", flush=True)
        if python is not None:
            results[version] = test(version, python, words[at + 1 :])
    for version, passed in results.items():
        print(f"Python {version}: {'passed' if passed else 'FAILED'}")
    return 0 if results and all(results.values()) else 1


if __name__ == "__main__":
    words = sys.argv[1:]
    newest = "--newest" in words
    sys.exit(main([one for one in words if one != "--newest"], partial(passes, newest=newest)))
