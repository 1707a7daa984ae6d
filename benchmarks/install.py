"""How much each extra adds to an installation; printed as benchmarks/results/install.json has it.

    python -m benchmarks.install > benchmarks/results/install.json

Sizes are those of the files that the packages of this environment list, in decimal megabytes. The
extras aeon and sktime ask for other versions, and cannot be in the same one.
"""

from __future__ import annotations

import json
import platform
import re
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
SMALL = ("sklearn", "dp", "parquet", "reservoirpy")
EXTRAS = (*SMALL, "lab", "edge", "fleet", "gpu", "research")


def needed(name: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """Return the packages that an installation of one needs, itself included."""
    found: set[str] = set()
    waiting = [(name, extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        package, asked = one
        found.add(normal(package))
        for text in required(package):
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*asked, "")):
                waiting.append((normal(requirement.name), frozenset(requirement.extras)))
    return found


def required(package: str) -> list[str]:
    """Return what a package asks for; ours as pyproject.toml says, not as it was installed."""
    ours = ROOT / "packages" / package / "pyproject.toml"
    if not ours.is_file():
        return metadata.requires(package) or []
    project = tomllib.loads(ours.read_text(encoding="utf-8"))["project"]
    extras = project.get("optional-dependencies", {}).items()
    return [
        *project["dependencies"],
        *(f"{text}; extra == '{extra}'" for extra, texts in extras for text in texts),
    ]


def normal(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def size(package: str) -> float:
    """Return the megabytes of an installed package's files."""
    files = [Path(str(path.locate())) for path in metadata.files(package) or []]
    return sum(path.stat().st_size for path in files if path.is_file()) / 1e6


def main() -> None:
    """Print the sizes as JSON."""
    core = needed("catchment")
    rows = {"": {"packages": len(core), "megabytes": round(sum(map(size, core)))}}
    for extra in EXTRAS:
        more = needed("catchment", frozenset({extra})) - core
        rows[extra] = {"packages": len(more), "megabytes": round(sum(map(size, more)))}
    sizes = {name: round(size(name), 1) for name in core}
    largest = sorted(sizes.items(), key=lambda one: -one[1])
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    told = {"machine": machine, "extras": rows, "core": {k: v for k, v in largest if v >= 1}}
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
