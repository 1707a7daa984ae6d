"""Folders of synthetic people, good ones and one for every mistake that newcomers made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

HEADER = "t,ax,ay,activity"
RATE = 20
TEMPO = {"sitting": 0.2, "walking": 1.5, "running": 2.8}
Rows = list[list[str]]


def rows_of(person: int, *, rate: int = RATE, seconds: int = 4, rounds: int = 2) -> Rows:
    """Return the cells of one person: time, two channels, and what is being done."""
    rng = np.random.default_rng(person)
    strength, rows, t = rng.uniform(0.8, 1.2), [], 0.0
    for activity in list(TEMPO) * rounds:
        tempo = TEMPO[activity] * rng.uniform(0.9, 1.1)
        for _ in range(rate * seconds):
            phase = 2 * np.pi * tempo * t
            move = strength * np.array([np.sin(phase), np.cos(phase)]) * (1 + tempo)
            values = move + rng.normal(0, 0.3, 2)
            rows.append([f"{t:.3f}", *(f"{value:.3f}" for value in values), activity])
            t += 1 / rate
    return rows


def write(path: Path, rows: Rows, *, header: str = HEADER, mark: str = ",") -> None:
    """Write one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [header.replace(",", mark), *(mark.join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def good_people(folder: Path, n: int = 5) -> None:
    """Write people without a fault."""
    for person in range(n):
        write(folder / f"p{person}.csv", rows_of(person))


def _with_cell(row: int, column: int, text: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        rows = rows_of(50 + row)
        rows[row][column] = text
        write(path, rows)

    return make


def _with_labels(text: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        rows = rows_of(60)
        for row in rows[80:120]:
            row[3] = text
        write(path, rows)

    return make


def _decimal_commas(path: Path, mark: str) -> None:
    write(path, [[cell.replace(".", ",") for cell in row] for row in rows_of(61)], mark=mark)


def _hollow(path: Path) -> None:
    write(path, [[row[0], row[1], "", row[3]] for row in rows_of(62)])


def _shuffled(path: Path) -> None:
    rows = rows_of(63)
    rows[10], rows[30] = rows[30], rows[10]
    write(path, rows)


def _repeated(path: Path) -> None:
    rows = rows_of(64)
    rows[7][0] = rows[6][0]
    write(path, rows)


FAULTS: dict[str, Callable[[Path], None]] = {
    "semicolons": lambda path: _decimal_commas(path, ";"),
    "commas": lambda path: _decimal_commas(path, ","),
    "text": _with_cell(12, 1, "err"),
    "nan": _with_cell(13, 1, "NaN"),
    "infinite": _with_cell(14, 2, "inf"),
    "slip": _with_labels("wlaking"),
    "unlabeled": _with_labels(""),
    "repeated": _repeated,
    "spaces": lambda path: write(path, rows_of(65), header="t, ax,ay , activity"),
    "empty": lambda path: path.touch(),
    "hollow": _hollow,
    "slow": lambda path: write(path, rows_of(66, rate=10)),
    "three": lambda path: write(path, rows_of(67)[:3]),
    "shuffled": _shuffled,
    "sits": lambda path: write(path, [row for row in rows_of(68) if row[3] == "sitting"]),
    "other": lambda path: write(path, rows_of(69), header="t,ax,ay,Activty"),
    "copy": lambda path: write(path, rows_of(1)),
    "units": lambda path: write(
        path,
        [
            [row[0], *(f"{1000 * float(cell):.1f}" for cell in row[1:3]), row[3]]
            for row in rows_of(70)
        ],
    ),
}
# Files that cannot be used, and a word of the reason; of all others the summary warns or they work.
UNUSABLE = {
    "commas": "fields and the header",
    "text": "column 'ax' is not numeric: it has 'err' in row 13",
    "infinite": "column 'ay' is infinite at row 14",
    "repeated": "occurs twice",
    "empty": "is empty",
    "other": "rename 'Activty' to 'activity'",
}


def faulty_people(folder: Path) -> None:
    """Write good people, and one for every fault."""
    good_people(folder)
    for name, make in FAULTS.items():
        make(folder / f"{name}.csv")
