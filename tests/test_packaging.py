"""The wheels: each package and nothing else, the same bytes from wherever it is built."""

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
from typing import Any

import pytest

import catchment
from tools import matrix

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
PROJECTS: dict[str, dict[str, Any]] = {
    folder.name: tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for folder in PACKAGES
}
CORE = PROJECTS["catchment"]
# A file of each that is no code and must not be left behind.
DATA = {
    "catchment": "catchment/report/report.css",
    "catchment-edge": "catchment_edge/c/",
    "catchment-lab": "catchment_lab/watch/",
}


def built(package: Path, clone: Path, *, umask: int, second: int) -> Path:
    """Return the wheel of a copy of the sources, of files with a date and rights of their own."""
    name = package.name.replace("-", "_")
    ignore = shutil.ignore_patterns("__pycache__", "tests", "reproductions")
    shutil.copytree(package, clone, ignore=ignore, symlinks=False)
    shutil.copy(ROOT / ".gitignore", clone / ".gitignore")
    for path in [clone, *clone.rglob("*")]:
        path.chmod((0o777 if path.is_dir() else 0o666) & ~umask)
        os.utime(path, (second, second))
    cache = clone / "src" / name / "__pycache__"
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
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheels")
    return {
        one.name: (
            built(one, folder / "one" / one.name, umask=0o022, second=1_500_000_000),
            built(one, folder / "another" / "place" / one.name, umask=0o077, second=1_700_000_000),
        )
        for one in PACKAGES
    }


def test_two_builds_are_one_file(wheels: dict[str, tuple[Path, Path]]) -> None:
    for name, pair in wheels.items():
        one, other = (hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in pair)
        assert one == other, name


def test_a_wheel_holds_its_package_alone(wheels: dict[str, tuple[Path, Path]]) -> None:
    for folder in PACKAGES:
        package = folder.name.replace("-", "_")
        with zipfile.ZipFile(wheels[folder.name][0]) as archive:
            names = archive.namelist()
            (metadata,) = (name for name in names if name.endswith("/METADATA"))
            about = email.message_from_bytes(archive.read(metadata))
        tops = {name.split("/")[0] for name in names}
        assert tops == {package, f"{package}-{catchment.__version__}.dist-info"}
        assert not [name for name in names if "__pycache__" in name]
        assert not [name for name in names if Path(name).name.startswith(("test_", "conftest"))]
        source = folder / "src"
        kept = {
            path.relative_to(source).as_posix()
            for path in source.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert {name for name in names if name.startswith(f"{package}/")} == kept
        assert f"{package}/py.typed" in kept
        assert not DATA.get(folder.name) or any(n.startswith(DATA[folder.name]) for n in kept)
        assert any(name.endswith("/licenses/LICENSE") for name in names)
        license = "Apache-2.0 AND (BSD-2-Clause OR CC0-1.0)" if "edge" in package else "Apache-2.0"
        assert about["License-Expression"] == license
        assert about["Description-Content-Type"] == "text/markdown"
        urls = {one.split(", ")[0] for one in about.get_all("Project-URL", [])}
        assert urls == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}


def test_there_is_one_version_and_packages_ask_for_it() -> None:
    assert {one["version"] for one in PROJECTS.values()} == {catchment.__version__}
    assert {one["requires-python"] for one in PROJECTS.values()} == {CORE["requires-python"]}
    asked = [
        need
        for project in PROJECTS.values()
        for requirements in (
            project["dependencies"],
            *project.get("optional-dependencies", {}).values(),
        )
        for need in requirements
        if need.startswith("catchment")
    ]
    pins = {need.partition("==")[2] for need in asked if not need.startswith("catchment[dp,")}
    assert pins == {catchment.__version__}
    beside = set(PROJECTS) - {"catchment"}
    extras = {f"catchment-{extra}" for extra in CORE["optional-dependencies"]}
    assert beside <= extras
    (every,) = CORE["optional-dependencies"]["all"]
    assert {name.removeprefix("catchment-") for name in beside} <= set(re.findall(r"\w+", every))


def test_every_upper_bound_of_a_requirement_says_why() -> None:
    bounded = []
    for project in ROOT.glob("packages/*/pyproject.toml"):
        for line in project.read_text(encoding="utf-8").splitlines():
            requirement, _, reason = line.partition(" # ")
            if (
                re.search(r'"[\w\[\]-]+(>=[\d.]+,)?(<|==)\d', requirement)
                and "catchment" not in line
            ):
                bounded += re.findall(r'"([\w\[\]-]+)[<>=]', requirement)
                assert len(reason) > 20, line
    assert bounded == matrix.bounded()  # what `make newest` takes the bounds from
    assert not any("<" in need for need in CORE["dependencies"])


def test_the_lock_of_uv_knows_the_packages_and_what_they_ask_for() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    known = {one["name"]: one for one in lock["package"]}
    assert lock["requires-python"] == CORE["requires-python"]
    assert set(lock["manifest"]["members"]) == set(PROJECTS)
    for name, project in PROJECTS.items():
        asked = {re.split(r"[\[<>=]", need)[0] for need in project["dependencies"]}
        assert {one["name"] for one in known[name]["dependencies"]} == asked
        assert known[name]["version"] == catchment.__version__


def test_addresses_and_versions_are_said_once() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    home = CORE["urls"]["Homepage"]
    assert all(project["urls"] == CORE["urls"] for project in PROJECTS.values())
    assert all(url.startswith(home) for url in CORE["urls"].values())
    assert re.search(r"^url: (.*)$", citation, re.MULTILINE)[1] == home  # type: ignore[index]
    code = re.search(r"^repository-code: (.*)$", citation, re.MULTILINE)[1]  # type: ignore[index]
    assert code == CORE["urls"]["Source"]
    version = re.search(r"^version: (.*)$", citation, re.MULTILINE)[1]  # type: ignore[index]
    assert version == catchment.__version__
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[([0-9.]+)\]", log, re.MULTILINE)
    assert not released or released[0] == catchment.__version__


def test_every_classified_python_is_one_that_is_tested() -> None:
    classified = re.findall(r"Python :: (3\.[0-9]+)", "\n".join(CORE["classifiers"]))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^MATRIX \?= (.*)$", makefile, re.MULTILINE)[1].split() == classified  # type: ignore[index]
    assert CORE["requires-python"] == f">={classified[0]}"
