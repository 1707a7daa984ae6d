"""Sets of images and texts that reproductions read, and the compact files of all sets.

A compact file is one small file (or a few) made from the publisher's files by
`python -m reproductions compact`. The SHA-256 that `catalogue.toml` gives is of the file with which
the figures in results/ were made: a file made anew holds the same recordings where its recipe says
so, but an npz archive may differ in bytes.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from catchment_lab.datasets import CATALOGUE, Source


@dataclass(frozen=True)
class Compact:
    """The compact form of a set: its folder, and its files with the SHA-256 of those used."""

    folder: str
    files: tuple[tuple[str, str], ...]


_TABLES = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
_COMPACT = _TABLES.pop("compact")
IMAGES, TEXTS, ENGINES, PEOPLE = (
    {name: Source(name=name, **told) for name, told in _TABLES[kind].items()}
    for kind in ("images", "texts", "engines", "people")
)
SOURCES = {**CATALOGUE, **PEOPLE, **IMAGES, **TEXTS, **ENGINES}
COMPACT = {
    name: Compact(told["folder"], tuple(told["files"].items())) for name, told in _COMPACT.items()
}
