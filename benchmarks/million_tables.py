"""The tables of docs/guides/scale-measured.md, from million.json.

    python -m benchmarks.million_tables                 # writes them into the page

A test holds the page to the results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.fixed_point_tables import RESULTS, ROOT, markdown

PAGE = ROOT / "docs" / "guides" / "scale-measured.md"
FILE = RESULTS / "million.json"
OURS = {"processes": "workers", "ray": "workers of Ray"}

Results = Mapping[str, Any]


def runs_table(results: Results) -> str:
    """Return seconds, rate, memory and SHA-256 of every run of the library, as Markdown."""
    found = [row for row in results["runs"] if row["engine"] in OURS]
    rows = []
    for row in sorted(found, key=_place):
        main, worker, every = (
            _spaced(row[f"peak MiB, {whose}"]) for whose in ("main", "largest worker", "together")
        )
        rows.append(
            [
                _spaced(row["clients"]),
                _machine(row),
                _by(row),
                f"{row['seconds']:.0f}",
                f"{row['CPU seconds, main']:.0f}" if "CPU seconds, main" in row else "-",
                _spaced(row["clients per second"]),
                f"{main}, {worker if row['workers'] > 1 else '-'}, {every}",
                f"`{row['sha256 of the sum'][:12]}`",
                f"`{row['sha256 of the model'][:12]}`",
            ]
        )
    head = ["clients", "machine", "by", "seconds", "CPU s, main", "clients a second", "peak MiB"]
    return markdown([*head, "sum", "model"], rows)


def others_table(results: Results) -> str:
    """Return CPU seconds and rates of other programs, as Markdown."""
    found = [row for row in results["runs"] if row["engine"] not in OURS]
    rows = [
        [row["engine"], _machine(row), f"{row['seconds']:.1f}", str(row["clients per second"])]
        for row in sorted(found, key=_place)
    ]
    return markdown(["program", "machine", "CPU seconds", "clients a second"], rows)


def task_table(results: Results) -> str:
    """Return what the runs have in common, as Markdown."""
    data: dict[str, Any] = {row["clients"]: row["data"] for row in results["runs"]}
    largest = data[max(data)]
    rows = [
        ["task", results["task"]],
        [
            "data",
            f"{_spaced(largest['clients'])} clients, {_spaced(largest['rows'])} rows in "
            f"{largest['files']} Parquet files, {largest['bytes'] / 1e9:.2f} GB",
        ],
        ["values", f"SHA-256 `{largest['sha256 of the values'][:12]}` wherever they are made"],
    ]
    return markdown(["what", "here"], rows)


TABLES: dict[str, Callable[[Results], str]] = {
    "task": task_table,
    "runs": runs_table,
    "others": others_table,
}


def _by(row: Results) -> str:
    if (row["engine"], row["workers"]) == ("processes", 1):
        return "one process"
    return f"{row['workers']} {OURS[row['engine']]}"


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _machine(row: Results) -> str:
    words = row["machine"]["processor"].replace("(R)", "").replace("(TM)", "").split()
    name = " ".join(word for word in words if word not in ("CPU", "Processor"))
    return f"{row['machine']['cores']} cores, {name}"


def _place(row: Results) -> tuple[Any, ...]:
    return (
        row["clients"],
        row["machine"]["cores"],
        _machine(row),
        row["engine"],
        row["workers"],
    )


def filled(page: str, results: Results) -> str:
    """Return the page with every table in its place."""
    for name, table in TABLES.items():
        place = rf"(?<=<!-- table: {name} -->\n\n)(?:\|.*\n)*"
        page, n = re.subn(place, table(results) + "\n", page)
        if n != 1:
            raise ValueError(f"the page has {n} places for the table of {name}; it needs one")
    return page


def main(page: Path = PAGE) -> None:
    results = json.loads(FILE.read_text("utf-8"))
    page.write_text(filled(page.read_text("utf-8"), results), "utf-8")


if __name__ == "__main__":
    main()
