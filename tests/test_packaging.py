"""The wheel: the library and nothing else, the same bytes from wherever it is built."""

from __future__ import annotations

import email
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import catchment

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def built(clone: Path, *, umask: int, second: int) -> Path:
    """Return the wheel of a copy of the sources, of files with a date and rights of their own."""
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        clone.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "catchment", clone / "src" / "catchment", ignore=ignore)
    for path in [clone, *clone.rglob("*")]:
        path.chmod((0o777 if path.is_dir() else 0o666) & ~umask)
        os.utime(path, (second, second))
    cache = clone / "src" / "catchment" / "__pycache__"
    cache.mkdir()
    (cache / f"left-{second}.nbi").write_bytes(b"compiled")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "out"],
        cwd=clone,
        check=True,
        capture_output=True,
        env={k: v for k, v in os.environ.items() if k not in ("SOURCE_DATE_EPOCH", "PYTHONPATH")},
    )
    (wheel,) = (clone / "out").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheels")
    one = built(folder / "one", umask=0o022, second=1_500_000_000)
    return one, built(folder / "another" / "place", umask=0o077, second=1_700_000_000)


def test_two_builds_are_one_file(wheels: tuple[Path, Path]) -> None:
    one, other = (hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels)
    assert one == other


def test_the_wheel_holds_the_library_alone(wheels: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(wheels[0]) as archive:
        names = archive.namelist()
        about = email.message_from_bytes(
            archive.read(next(name for name in names if name.endswith("/METADATA")))
        )
    tops = {name.split("/")[0] for name in names}
    assert tops == {"catchment", f"catchment-{catchment.__version__}.dist-info"}
    assert not [name for name in names if "__pycache__" in name]
    assert not [name for name in names if Path(name).name.startswith(("test_", "conftest"))]
    assert {"catchment/py.typed", "catchment/report/page.css"} <= set(names)
    sources = {
        f"catchment/{path.relative_to(ROOT / 'packages/catchment/src/catchment').as_posix()}"
        for path in _code()
    }
    assert {name for name in names if name.endswith(".py")} == sources
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert about["License-Expression"] == "Apache-2.0"
    assert about["Description-Content-Type"] == "text/markdown"
    urls = {one.split(", ")[0] for one in about.get_all("Project-URL", [])}
    assert urls == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}


def _code() -> list[Path]:
    return [*(ROOT / "src" / "catchment").rglob("*.py")]


def test_addresses_and_versions_are_said_once() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    home = PROJECT["urls"]["Homepage"]
    assert all(url.startswith(home) for url in PROJECT["urls"].values())
    assert re.search(r"^url: (.*)$", citation, re.MULTILINE)[1] == home  # type: ignore[index]
    code = re.search(r"^repository-code: (.*)$", citation, re.MULTILINE)[1]  # type: ignore[index]
    assert code == PROJECT["urls"]["Source"]
    version = re.search(r"^version: (.*)$", citation, re.MULTILINE)[1]  # type: ignore[index]
    assert version == catchment.__version__
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[([0-9.]+)\]", log, re.MULTILINE)
    assert not released or released[0] == catchment.__version__


def test_every_classified_python_is_one_that_is_tested() -> None:
    classified = re.findall(r"Python :: (3\.[0-9]+)", "\n".join(PROJECT["classifiers"]))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^MATRIX \?= (.*)$", makefile, re.MULTILINE)[1].split() == classified  # type: ignore[index]
    assert PROJECT["requires-python"] == f">={classified[0]}"
