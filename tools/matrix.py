"""`python -m tools.matrix [--newest] 3.11 3.12 -- -n 1`: the tests of the core on several Pythons.

Every interpreter gets an environment of its own, .venv-3.12 and so on, with the library, the
small extras and the newest packages that the requirements allow: no pins. Tests that need torch
skip themselves. With --newest come Flower and Ray, whose requirements have upper bounds: these are
taken away, and the tests of deployments and engines run too, to see which bound is still needed.
What stands after -- goes to pytest.
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
# What needs a package below some version, and the tests that show whether it still does.
BOUNDED = "packages/catchment-fleet"


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


def bounded() -> list[str]:
    """Return what is needed below some version, or in one alone, without the version.

    >>> "ray[data]" in bounded()
    True
    """
    text = Path(BOUNDED, "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    listed = [project["dependencies"], *project.get("optional-dependencies", {}).values()]
    found = (re.match(r"([^<>=]+)(==|.*<)", need) for needs in listed for need in needs)
    return [one[1] for one in found if one and not one[1].startswith("catchment")]


def passes(version: str, python: str, options: Sequence[str], *, newest: bool = False) -> bool:
    """Return whether the tests pass on an interpreter; its environment is made if not there."""
    folder = Path(f".venv-{version}")
    own = str(folder / "bin" / "python")
    if not Path(own).is_file():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    install = [own, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--upgrade"]
    subprocess.run([*install, "-e", f"packages/catchment[{EXTRAS}]", *TOOLS], check=True)
    tests = TESTS
    if newest:
        subprocess.run([*install, *bounded()], check=True)
        subprocess.run([*install, "--no-deps", "-e", BOUNDED], check=True)
        tests += (f"{BOUNDED}/tests/engine",)
    command = [own, "-m", "pytest", "-q", "-m", "not long and not slow", *tests, *options]
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
