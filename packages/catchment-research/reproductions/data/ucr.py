"""Classification problems of the UCR and UEA archives, from their `.ts` files.

A file has comments (`#`, `%`), a head of lines with `@`, and after `@data` one case a line:
channels separated by `:`, values by `,`, the class after the last `:`. `reference.csv` beside the
sets has accuracies that others published on the same splits.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from catchment import Array
from catchment.data import Recording
from catchment.errors import MissingDataError
from reproductions.places import data_directories

SETS = ("ArrowHead", "GunPoint", "ItalyPowerDemand", "ACSF1", "BasicMotions", "UnitTest")


@dataclass(frozen=True)
class Problem:
    """A problem as its publisher splits it: recordings with one-hot classes."""

    name: str
    train: tuple[Recording, ...]
    test: tuple[Recording, ...]
    classes: tuple[str, ...]


def read_ts(path: Path) -> tuple[list[Array], list[str], tuple[str, ...]]:
    """Return the cases (T, I) of a file, the class of each, and all classes that its head names."""
    cases: list[Array] = []
    labels: list[str] = []
    classes: tuple[str, ...] = ()
    data = False
    for line in _lines(path):
        if data:
            *channels, label = line.split(":")
            cases.append(_case(channels, path))
            labels.append(label.strip())
        elif line.lower().startswith("@classlabel"):
            classes = tuple(line.split()[2:])
        data = data or line.lower() == "@data"
    if not cases:
        raise ValueError(f"{path} has no cases after @data; get the file anew")
    unknown = sorted(set(labels) - set(classes))
    if unknown:
        raise ValueError(f"{path} has the class {unknown[0]!r}, which its @classLabel lacks")
    return cases, labels, classes


def load_problem(name: str, *, directory: Path | None = None) -> Problem:
    """Return a problem of the archive with its official split.

    Parameters
    ----------
    name
        The folder's name, such as GunPoint.
    directory
        Data directory, which has a folder `ucr`; the usual ones if not given.
    """
    folder = archive(directory) / name
    parts: list[tuple[Recording, ...]] = []
    classes: tuple[str, ...] = ()
    for part in ("TRAIN", "TEST"):
        path = folder / f"{name}_{part}.ts"
        if not path.is_file():
            raise MissingDataError(f"{path} is not there; put the archive's .ts files into it")
        cases, labels, known = read_ts(path)
        classes = classes or known
        if known != classes:
            raise ValueError(f"{path} names the classes {known}, the other part {classes}")
        eye = np.eye(len(classes))
        one_hot = (eye[classes.index(label)] for label in labels)
        parts.append(tuple(Recording(u, y) for u, y in zip(cases, one_hot, strict=True)))
    return Problem(name, parts[0], parts[1], classes)


def published(*, directory: Path | None = None) -> dict[tuple[str, str], float]:
    """Return published accuracies on the official splits, by problem and method."""
    with (archive(directory) / "reference.csv").open(newline="") as file:
        return {
            (row["dataset"], row["method"]): float(row["accuracy_default_split"])
            for row in csv.DictReader(file)
        }


def archive(directory: Path | None = None) -> Path:
    """Return the folder of the archive; MissingDataError if it is nowhere."""
    places = [root / "ucr" for root in data_directories(directory)]
    for place in places:
        if place.is_dir():
            return place
    raise MissingDataError(
        f"the UCR archive is not in {', '.join(map(str, places))}; put folders such as GunPoint "
        "with its .ts files there"
    )


def available(directory: Path | None = None) -> tuple[str, ...]:
    """Return the problems of the archive that are on this machine, none if it is not."""
    try:
        folder = archive(directory)
    except MissingDataError:
        return ()
    return tuple(name for name in SETS if (folder / name / f"{name}_TRAIN.ts").is_file())


def _lines(path: Path) -> Iterator[str]:
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text and not text.startswith(("#", "%")):
            yield text


def _case(channels: list[str], path: Path) -> Array:
    # A missing value is a question mark there.
    columns = [[float(v) if v.strip() != "?" else np.nan for v in c.split(",")] for c in channels]
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"{path} has a case whose channels differ in length; it cannot be read")
    return np.array(columns).T
