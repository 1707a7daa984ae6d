"""What became of every fault, kept in a file that runs add to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict


class Cell(TypedDict):
    """One fault on record."""

    verdict: str
    by: str  # the test that noticed
    seconds: float
    change: str
    equivalent: str
    digest: str  # of the changed files and of their tests


@dataclass(eq=False)
class Record:
    """Cells by kind ("named" or "automatic") and name."""

    path: Path
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Record:
        return cls(path, json.loads(path.read_text()) if path.exists() else {})

    def knows(self, kind: str, name: str, digest: str) -> bool:
        cell = self.cells.get(kind, {}).get(name)
        return cell is not None and cell["digest"] == digest

    def keep(self, kind: str, name: str, cell: Cell) -> None:
        """Write a cell to the disk, so that a run that is cut short loses nothing."""
        self.cells.setdefault(kind, {})[name] = cell
        ordered = {k: dict(sorted(self.cells[k].items())) for k in sorted(self.cells)}
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(ordered, indent=1) + "\n")
        new.replace(self.path)
        self.path.with_suffix(".md").write_text(self.table())

    def table(self) -> str:
        """Return the record as Markdown: counts, who lives, and who noticed the named ones."""
        lines = ["# Faults put in on purpose, and which test noticed", ""]
        lines += [
            "Made by `make mutants`. *Equivalent*: nobody can notice, for the reason given. "
            "*Timeout*: the tests never end, which is noticed, too.",
            "",
            "| kind | killed | alive | equivalent | timeout |",
            "|---|---|---|---|---|",
        ]
        for kind, cells in sorted(self.cells.items()):
            alike = [c for c in cells.values() if c["equivalent"] and c["verdict"] == "alive"]
            count = {
                verdict: sum(c["verdict"] == verdict for c in cells.values())
                for verdict in ("killed", "alive", "timeout")
            }
            lines.append(
                f"| {kind} | {count['killed']} | {count['alive'] - len(alike)} | {len(alike)} "
                f"| {count['timeout']} |"
            )
        lines += ["", "| named fault | verdict | noticed by |", "|---|---|---|"]
        for name, cell in sorted(self.cells.get("named", {}).items()):
            by = cell["by"].split(" - ")[0] or cell["equivalent"]
            verdict = cell["verdict"] if cell["verdict"] != "alive" else "**alive**"
            lines.append(f"| {name} | {verdict} | {by} |")
        living = {
            name: cell
            for name, cell in sorted(self.cells.get("automatic", {}).items())
            if cell["verdict"] != "killed"
        }
        if living:
            lines += ["", "| automatic fault, not noticed | change | why nobody can |"]
            lines += ["|---|---|---|"]
            lines += [
                f"| {name} | {cell['change'].replace('|', chr(92) + '|')} "
                f"| {cell['equivalent'] or cell['verdict']} |"
                for name, cell in living.items()
            ]
        return "\n".join(lines) + "\n"
