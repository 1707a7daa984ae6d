"""`python -m tools.lock`: every file that a node installs, by its SHA-256.

What pip would install is asked of pip itself, in the pinned versions, and written to
`requirements/hashes.txt`; `make locked` installs from it with --require-hashes. Wheels of compiled
packages are for one kind of machine: the file says for which, and is made anew on another.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from catchment.wire import replace_file

LIBRARY = ("packages/catchment", "packages/catchment-fleet")
BUILDS = "hatchling"  # what the library itself is built with
CONSTRAINTS, HASHES = Path("requirements/constraints.txt"), Path("requirements/hashes.txt")
HEAD = """\
# Made by `python -m tools.lock`, for Python {python} on {system} {machine}: what a node installs
# besides this library, each file by its SHA-256. `make locked` installs from here.
"""


def wanted(library: Iterable[str] = LIBRARY) -> Mapping[str, Any]:
    """Return pip's report of what it would install of this library, in the pinned versions."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--dry-run", "--ignore-installed", "--quiet", "--report", str(report)]
        command = [sys.executable, "-m", "pip", "install", *options, "-c", str(CONSTRAINTS)]
        subprocess.run([*command, *library, BUILDS], check=True, stderr=subprocess.DEVNULL)
        found: dict[str, Any] = json.loads(report.read_text())
    return found


def locked(report: Mapping[str, Any]) -> str:
    """Return a file of requirements with hashes, from pip's report; the library itself is left out.

    >>> files = [{"metadata": {"name": "A_b", "version": "1"}, "download_info": {
    ...     "archive_info": {"hashes": {"sha256": "0f"}}}}]
    >>> about = {"python_version": "3.11", "sys_platform": "linux", "platform_machine": "x86_64"}
    >>> print(locked({"install": files, "environment": about}).splitlines()[-1])
    a-b==1 --hash=sha256:0f
    """
    about = report["environment"]
    head = HEAD.format(
        python=about["python_version"],
        system=about["sys_platform"],
        machine=about["platform_machine"],
    )
    return head + "".join(f"{line}\n" for line in sorted(_lines(report["install"])))


def _lines(files: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for file in files:
        name = str(file["metadata"]["name"]).lower().replace("_", "-").replace(".", "-")
        if name in ("catchment", "catchment-fleet"):
            continue
        try:
            sha256 = file["download_info"]["archive_info"]["hashes"]["sha256"]
        except KeyError as error:
            raise ValueError(f"the registry gives no SHA-256 of {name}; use another") from error
        yield f"{name}=={file['metadata']['version']} --hash=sha256:{sha256}"


if __name__ == "__main__":
    replace_file(HASHES, locked(wanted()).encode())
