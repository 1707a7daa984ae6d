"""The tables of docs/concepts/integers-measured.md, from results/fixed_point*.json.

    python -m benchmarks.fixed_point_tables                    # writes them into the page

A table whose results are not there stays as it is. A test holds the page to the results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "concepts" / "integers-measured.md"

Results = Any  # of json.loads


def accuracy_table(results: Mapping[str, Results]) -> str:
    """Return the mean error of every task in float64 and in fixed point, as Markdown."""
    tasks = results["tasks"]
    columns = list(next(iter(tasks.values())))
    rows = [
        [task, *(f"{np.mean(found[column]):.4g}" for column in columns)]
        for task, found in tasks.items()
    ]
    return markdown(["task", *columns], rows)


def speed_table(results: Mapping[str, Results]) -> str:
    """Return the CPU time a step of every job and the bytes of an upload, as Markdown."""
    rows = [
        [
            job,
            f"{found['float64, us a step']:.2f}",
            f"{found['grid, us a step']:.2f}",
            f"{found['ratio']:.2f}",
            f"{found['float64, bytes'] / 1e3:.0f} kB",
            f"{found['grid, bytes'] / 1e3:.0f} kB",
        ]
        for job, found in results["jobs"].items()
    ]
    head = [
        "job",
        "float64, µs a step",
        "fixed point",
        "ratio",
        "upload in float64",
        "in fixed point",
    ]
    return markdown(head, rows)


def gpu_digests_table(lines: Sequence[Results]) -> str:
    """Return the digest of each map's rows and statistics, and who found it, as Markdown."""
    rows = []
    for line in lines:
        if "compare" in line:
            found = line["compare"]
            digests = [f"`{found[what].split()[0]}`" for what in ("rows", "statistics")]
            rows.append([found["case"], *digests])
    return markdown(["map", "feature rows", "statistics"], rows)


def _first(found: Results, *names: str) -> float:
    """Return the first of some figures that was measured."""
    return float(next(found[name] for name in names if name in found))


def gpu_states_table(lines: Sequence[Results]) -> str:
    """Return how many million client-steps a second a GPU does, as Markdown."""
    speed, tanh = "million client-steps/s", "float64 tanh"
    rows = []
    for line in lines:
        if "time_states" in line:
            found = line["time_states"]
            rows.append(
                [
                    f"{found['units']}, {found['density']:.0%}",
                    f"{found['lanes']}",
                    f"{_first(found, f'graph, {speed}', f'fused, {speed}'):.1f}",
                    f"{_first(found, f'{tanh} as a graph, {speed}', f'{tanh}, {speed}'):.1f}",
                ]
            )
    head = ["units, connected", "sequences side by side", "in fixed point", "float64, plain tanh"]
    return markdown(head, rows)


TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "accuracy": ("fixed_point.json", accuracy_table),
    "speed": ("fixed_point_speed.json", speed_table),
    "gpu digests": ("fixed_point_gpu.json", gpu_digests_table),
    "gpu states": ("fixed_point_gpu.json", gpu_states_table),
}


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table.

    >>> print(markdown(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    written = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([written[0], "|" + "---|" * len(head), *written[1:]])


def measured(name: str) -> str | None:
    """Return the table of this name, None if its results are not there."""
    file, table = TABLES[name]
    path = RESULTS / file
    return table(json.loads(path.read_text("utf-8"))) if path.exists() else None


def filled(page: str) -> str:
    """Return the page with every table that was measured in its place."""
    for name in TABLES:
        table = measured(name)
        if table is not None:
            place = rf"(?<=<!-- table: {name} -->\n\n)(?:\|.*\n)+"
            page, n = re.subn(place, table.replace("\\", r"\\") + "\n", page)
            if n != 1:
                raise ValueError(f"the page has {n} places for the table of {name}; it needs one")
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
