"""Results as JSON, with what is needed to read them: versions, machine, how they were made."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("numpy", "scipy", "numba", "reservoirpy", "esnfed")


def write(name: str, results: dict[str, object], *, folder: Path = RESULTS) -> Path:
    """Write results/NAME.json and return its path."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    text = json.dumps({"machine": machine(), **results}, indent=1, sort_keys=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def machine() -> dict[str, object]:
    """Return processor, cores and versions; nothing that names the computer."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        **{name: found for name in PACKAGES if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"
