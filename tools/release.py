"""`python -m tools.release [--out dist]`: all that a release consists of, ready to be uploaded.

Wheels and source archives of the six packages, their SHA-256, an SBOM (CycloneDX) of what they
bring, a provenance statement (in-toto, SLSA) and a package index of the wheels, from which
`pip install --index-url file://.../dist/simple catchment` installs. The statement is not signed
here: the workflow that publishes has it signed by the build service's own identity.
"""

from __future__ import annotations

import argparse
import hashlib
import html
import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
CORE = tomllib.loads((ROOT / "packages/catchment/pyproject.toml").read_text("utf-8"))["project"]


def build(out: Path) -> list[Path]:
    """Return the wheels and source archives of every package, built into a folder."""
    for package in PACKAGES:
        command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
        subprocess.run(command, cwd=package, check=True, stdout=subprocess.DEVNULL)
    return sorted([*out.glob("*.whl"), *out.glob("*.tar.gz")])


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def needed(names: Iterable[str]) -> dict[str, list[str]]:
    """Return every installed package that some need, with what it needs itself, extras apart.

    >>> "numpy" in needed(["catchment"]) and "catchment" in needed(["catchment-lab"])
    True
    """
    found: dict[str, list[str]] = {}
    waiting: list[str] = [canonicalize_name(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            asked = [Requirement(one) for one in distribution(name).requires or ()]
        except PackageNotFoundError:  # of another platform
            continue
        wanted = (one for one in asked if one.marker is None or one.marker.evaluate({"extra": ""}))
        found[name] = sorted({canonicalize_name(one.name) for one in wanted})
        waiting += found[name]
    return dict(sorted(found.items()))


def sbom(dependencies: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return a CycloneDX bill of materials of installed packages."""

    def purl(name: str) -> str:
        return f"pkg:pypi/{name}@{distribution(name).version}"

    def component(name: str) -> dict[str, Any]:
        about = distribution(name).metadata
        license, *_ = about.get_all("License-Expression") or [None]
        told = {"type": "library", "name": name, "version": distribution(name).version}
        known = {"licenses": [{"expression": license}]} if license else {}
        return {**told, "bom-ref": purl(name), "purl": purl(name), **known}

    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component("catchment")},
        "components": [component(name) for name in dependencies],
        "dependencies": [
            {"ref": purl(name), "dependsOn": [purl(one) for one in needs if one in dependencies]}
            for name, needs in dependencies.items()
        ],
    }


def provenance(files: Iterable[Path], commit: str) -> dict[str, Any]:
    """Return an in-toto statement of which commit gave which files, by SLSA's words."""
    home = CORE["urls"]["Source"]
    source = {"uri": f"git+{home}", "digest": {"gitCommit": commit}}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": file.name, "digest": {"sha256": sha256(file)}} for file in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{home}/blob/main/tools/release.py",
                "externalParameters": {"version": CORE["version"]},
                "resolvedDependencies": [source],
            },
            "runDetails": {"builder": {"id": f"{home}/blob/main/Makefile#release"}},
        },
    }


def index(files: Iterable[Path], folder: Path) -> None:
    """Write a package index (PEP 503) of wheels and source archives, with their hashes."""
    by_name: dict[str, list[Path]] = {}
    for file in files:
        by_name.setdefault(canonicalize_name(file.name.split("-")[0]), []).append(file)
    for name, some in by_name.items():
        (folder / name).mkdir(parents=True)
        links = (
            f'<a href="{html.escape(file.name)}#sha256={sha256(file)}">{html.escape(file.name)}</a>'
            for file in some
        )
        (folder / name / "index.html").write_text("<br>\n".join(links), encoding="utf-8")
        for file in some:
            shutil.copy(file, folder / name)
    names = "<br>\n".join(f'<a href="{name}/">{name}</a>' for name in sorted(by_name))
    (folder / "index.html").write_text(names, encoding="utf-8")


def documentation(built: Path, folder: Path) -> None:
    """Add built pages as those of this version; `versions.json` lists all, the newest first."""
    shutil.copytree(built, folder / CORE["version"], dirs_exist_ok=True)
    numbers = sorted(
        (path.name for path in folder.iterdir() if path.is_dir()),
        key=lambda name: [int(part) for part in name.split(".")],
        reverse=True,
    )
    (folder / "versions.json").write_text(json.dumps(numbers) + "\n", encoding="utf-8")
    page = f'<meta charset="utf-8"><meta http-equiv="refresh" content="0; url={numbers[0]}/">'
    links = "".join(f'<li><a href="{one}/">{one}</a>' for one in numbers)
    (folder / "index.html").write_text(f"{page}<ul>{links}</ul>\n", encoding="utf-8")


def main() -> None:
    """Build, describe and index everything."""
    parser = argparse.ArgumentParser(description="Make a release, and upload nothing.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    out = parser.parse_args().out.resolve()
    if out.exists() and any(out.iterdir()):
        raise SystemExit(f"{out} is not empty; remove it, or name another folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    files = build(out)
    asked = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    texts = {
        "SHA256SUMS": "".join(f"{sha256(file)}  {file.name}\n" for file in files),
        "sbom.cdx.json": json.dumps(sbom(needed(one.name for one in PACKAGES)), indent=1),
        "provenance.intoto.json": json.dumps(provenance(files, commit.strip()), indent=1),
    }
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    index(files, out / "simple")
    pages = ROOT / "docs" / "_build" / "html"
    if pages.exists():
        documentation(pages, out / "docs")
    print((out / "SHA256SUMS").read_text(), end="")
    print(f"release {CORE['version']} in {out}; nothing was uploaded")


if __name__ == "__main__":
    main()
