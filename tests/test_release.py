"""A release: what is built, what is said of it, and an installation from its own index."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import catchment
from tools.release import CORE, PACKAGES, documentation

ROOT = Path(__file__).resolve().parents[1]
NAMES = [package.name for package in PACKAGES]
ROWS = "".join(f"{t},{(t * 7) % 11},{(t * 5) % 13}\n" for t in range(300))


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("release") / "dist"
    subprocess.run([sys.executable, "-m", "tools.release", "--out", out], cwd=ROOT, check=True)
    return out


def test_hashes_and_provenance_name_every_file(release: Path) -> None:
    files = {path.name: path for path in release.iterdir() if path.suffix in (".whl", ".gz")}
    assert len(files) == 2 * len(NAMES)
    expected = {n: hashlib.sha256(path.read_bytes()).hexdigest() for n, path in files.items()}
    lines = (release / "SHA256SUMS").read_text().splitlines()
    assert lines == [f"{expected[name]}  {name}" for name in sorted(expected)]
    told = json.loads((release / "provenance.intoto.json").read_text())
    assert {one["name"]: one["digest"]["sha256"] for one in told["subject"]} == expected
    (source,) = told["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert re.fullmatch("[0-9a-f]{40}", source["digest"]["gitCommit"])


def test_the_bill_of_materials_is_closed_and_has_what_is_declared(release: Path) -> None:
    told = json.loads((release / "sbom.cdx.json").read_text())
    refs = {one["bom-ref"] for one in told["components"]}
    names = {one["name"] for one in told["components"]}
    declared = {re.split("[<>=!~ ;[]", one)[0] for one in CORE["dependencies"]}
    assert declared | set(NAMES) <= names
    assert {one["ref"] for one in told["dependencies"]} == refs
    assert {ref for one in told["dependencies"] for ref in one["dependsOn"]} <= refs


def test_a_release_is_never_written_over(release: Path) -> None:
    again = [sys.executable, "-m", "tools.release", "--out", str(release)]
    done = subprocess.run(again, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "is not empty" in done.stderr


def test_documentation_is_kept_by_version_newest_first(tmp_path: Path) -> None:
    pages = tmp_path / "html"
    pages.mkdir()
    (pages / "index.html").write_text("pages")
    (tmp_path / "docs" / "0.1.9").mkdir(parents=True)
    documentation(pages, tmp_path / "docs")
    numbers = json.loads((tmp_path / "docs" / "versions.json").read_text())
    assert numbers == [catchment.__version__, "0.1.9"]
    assert (tmp_path / "docs" / catchment.__version__ / "index.html").read_text() == "pages"


def test_the_recipe_for_conda_asks_for_what_the_wheel_asks_for() -> None:
    recipe = (ROOT / "deploy/conda/recipe.yaml").read_text(encoding="utf-8")
    assert f'version: "{catchment.__version__}"' in recipe
    run = recipe[recipe.index("  run:") : recipe.index("tests:")]
    asked = {line.strip("- ").replace(" ", "") for line in run.splitlines()[1:] if line.strip()}
    assert asked == {f"python{CORE['requires-python']}", *CORE["dependencies"]}


class Environment:
    """A fresh environment whose pip knows the release's index; other packages are this one's."""

    def __init__(self, folder: Path, release: Path) -> None:
        self.folder, self.fresh = folder, folder / "fresh"
        self.index = ("--index-url", (release / "simple").as_uri())
        subprocess.run([sys.executable, "-m", "venv", self.fresh], check=True)
        (here,) = {path for path in sys.path if path.endswith("site-packages")}
        (there,) = self.fresh.glob("lib/python3*/site-packages")
        others = folder / "others"  # without what is installed here of these packages
        others.mkdir()
        for path in Path(here).iterdir():
            if "catchment" not in path.name and path.suffix != ".pth":
                (others / path.name).symlink_to(path)
        (there / "others.pth").write_text(f"{others}\n")

    def ran(self, program: str, *words: str | Path) -> str:
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            [self.fresh / "bin" / program, *words],
            cwd=self.folder,
            env=env,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(self, *words: str | Path) -> None:
        self.ran("python", "-m", "pip", "install", "-q", *words)


def test_the_packages_are_installed_from_the_index_of_a_release(
    release: Path, tmp_path: Path
) -> None:
    there = Environment(tmp_path, release)
    pinned = [f"{name}=={catchment.__version__}" for name in NAMES]
    there.install("--no-deps", "--no-compile", *there.index, *pinned)
    listed = there.ran("catchment", "--help")
    assert all(f" {command} " in listed for command in ("export", "flower", "audit"))


@pytest.mark.long
def test_the_core_alone_learns_from_files_where_it_was_just_installed(
    release: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in ("ann", "bob", "cyd"):
        (data / f"{name}.csv").write_text(f"t,load,price\n{ROWS}")
    there = Environment(tmp_path, release)
    there.install("--no-deps", *there.index, f"catchment=={catchment.__version__}")
    there.ran("catchment", "fit", data, "--target", "price", "--out", tmp_path / "run")


@pytest.mark.long
def test_extras_are_resolved_to_the_packages_of_the_release(release: Path, tmp_path: Path) -> None:
    """What the packages need from elsewhere is resolved by pip where it has an index."""
    there = Environment(tmp_path, release)
    for extra in ("edge", "fleet", "gpu", "lab", "research", "all"):
        report = tmp_path / f"{extra}.json"
        known = ("--find-links", release, "--dry-run", "--report", report)
        there.install(*known, f"catchment[{extra}]=={catchment.__version__}")
        chosen = {one["metadata"]["name"] for one in json.loads(report.read_text())["install"]}
        beside = set(NAMES) if extra == "all" else {"catchment", f"catchment-{extra}"}
        assert {name for name in chosen if name.startswith("catchment")} == beside
