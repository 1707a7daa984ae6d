"""Recorded figures beside those of a rerun, number by number.

    python -m reproductions incfed --sets wesad --folds 0 --out again
    python -m reproductions.again again

The second writes results/again.json and the table in docs/research/capabilities.md. A rerun may
have a part of the recorded cells; what it does not have is not compared.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from catchment.wire import replace_file
from reproductions.grids import grid
from reproductions.study import environment

ROOT = Path(__file__).resolve().parents[3]
KEPT = (ROOT / "results", ROOT / "benchmarks" / "results")
PAGE = ROOT / "docs" / "research" / "capabilities.md"
RESULT = ROOT / "results" / "again.json"
# Of the machine and the hour, or of how much was run.
ASIDE = {"seconds", "environment", "machine", "settings", "notes", "remarks", "traces", "subjects"}
# What a cell is of.
NAMES = (
    *("name", "data", "family", "learner", "method"),
    *("share", "seed", "repetition", "fold", "job"),
)
_BLOCK = re.compile(r"(<!-- again -->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Again:
    """How the numbers of a rerun compare with the recorded ones.

    Parameters
    ----------
    what
        The file's name and the parts that were run.
    numbers, equal
        How many numbers both have, and how many of them are the same.
    others
        By field: how many differ, and the largest difference.
    """

    what: str
    numbers: int
    equal: int
    others: dict[str, tuple[int, float]]


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield every number of a result with its place; cells are placed by what they are of.

    >>> dict(leaves({"cells": [{"method": "sum", "test": 0.5, "seconds": 3.0}]}))
    {('cells', '[["method", "sum"]]', 'test'): 0.5}
    """
    if isinstance(value, dict):
        draws = ["cells"] if value.get("tried") else []  # chosen from all draws, which are not here
        for key in value.keys() - ASIDE - {*draws, *NAMES}:
            yield from leaves(value[key], (*path, str(key)))
    elif isinstance(value, list):
        for k, one in enumerate(value):
            known = [key for key in NAMES if key in one] if isinstance(one, dict) else []
            named = json.dumps([[key, one[key]] for key in known], sort_keys=True)
            yield from leaves(one, (*path, named if known else str(k)))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


def compared(what: str, recorded: Any, rerun: Any) -> Again:
    """Return how a rerun compares with what is recorded."""
    before = dict(leaves(recorded))
    pairs = [(path, before[path], new) for path, new in leaves(rerun) if path in before]
    if not pairs:
        raise ValueError(f"{what} has no number in common with the recorded result")
    others: dict[str, tuple[int, float]] = {}
    for path, old, new in pairs:
        if old != new:
            field = next(part for part in reversed(path) if not part.isdigit())
            n, largest = others.get(field, (0, 0.0))
            others[field] = n + 1, max(largest, abs(new - old))
    return Again(what, len(pairs), sum(old == new for _, old, new in pairs), others)


def compare(files: Sequence[Path]) -> list[Again]:
    """Return how files of reruns compare with the recorded files of their names."""
    found = []
    for path in files:
        rerun = json.loads(path.read_text("utf-8"))
        kept = next(folder / path.name for folder in KEPT if (folder / path.name).is_file())
        what = " ".join([path.stem, *sorted({one["name"] for one in rerun.get("sets") or ()})])
        found.append(compared(what, json.loads(kept.read_text("utf-8")), rerun))
    return found


def table(content: Any) -> str:
    """Return the table of the page."""
    rows = [
        [
            one["what"],
            f"{one['numbers']:,}",
            f"{one['equal']:,}",
            "; ".join(
                f"{n:,} of {field}, by {largest:.0e} at most"
                for field, (n, largest) in sorted(one["others"].items())
            )
            or "none",
        ]
        for one in content["reruns"]
    ]
    told = content["environment"]
    where = f"Python {told['python']}, numpy {told['numpy']}, {told['cores']} cores"
    return f"{grid(['rerun', 'numbers', 'equal', 'others'], rows)}\n\n{where}, {told['date'][:10]}."


def written(page: str, content: Any) -> str:
    """Return the page with its table made again."""
    return _BLOCK.sub(lambda found: found[1] + table(content) + found[2], page)


if __name__ == "__main__":
    given = [path for name in sys.argv[1:] for path in sorted(Path(name).glob("*.json"))]
    made = {"environment": environment(), "reruns": [asdict(one) for one in compare(given)]}
    replace_file(RESULT, (json.dumps(made, indent=1) + "\n").encode())
    replace_file(PAGE, written(PAGE.read_text("utf-8"), json.loads(json.dumps(made))).encode())
