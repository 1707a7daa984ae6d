"""The public data sets this library can read, and where they lie on this machine.

A set is looked for in a folder of its own name, in these directories: the one the caller names, and
only there; or else `$CATCHMENT_DATA` and the user's cache. Nothing is downloaded.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from catchment.data import ENVIRONMENT, data_directories
from catchment.errors import MissingDataError
from catchment_lab.datasets.archive import Folder, find_folder


@dataclass(frozen=True, kw_only=True)
class Source:
    """One public data set.

    >>> CATALOGUE["uci_har"].clients
    '30 subjects'
    """

    name: str
    description: str
    clients: str
    task: str
    home: str
    citation: str
    license: str
    files: str  # the publisher's files, in words
    patterns: Sequence[str]  # names by which they are known


_TABLES = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8"))
CATALOGUE = {name: Source(name=name, **told) for name, told in _TABLES.items()}


@dataclass(frozen=True)
class Place:
    """Where a data set was found: packed into one file, as its publisher's files, or both."""

    source: Source
    directory: Path
    original: Folder | None = None
    packed: Path | None = None

    @property
    def form(self) -> str:
        """`packed` or `original`: what will be read."""
        return "original" if self.packed is None else "packed"

    @property
    def n_bytes(self) -> int:
        """Size on disk of what will be read."""
        if self.packed is not None:
            return self.packed.stat().st_size
        return 0 if self.original is None else size_of(self.original)


def size_of(folder: Folder) -> int:
    """Return the size on disk of a folder's files, or of the archive they are in."""
    if folder.archives:
        return folder.path.stat().st_size
    root = folder.path / folder.prefix
    return sum((root / name).stat().st_size for name in folder.names)


def source(name: str) -> Source:
    """Return the catalogue's entry of that name.

    >>> source("fsdd").clients
    '6 speakers'
    >>> source("fssd")
    Traceback (most recent call last):
    ValueError: no data set is called 'fssd'; did you mean fsdd?
    """
    check_name(name, CATALOGUE)
    return CATALOGUE[name]


def check_name(name: str, known: Iterable[str]) -> None:
    """Raise ValueError, with the nearest name or all of them, if a data set is not known."""
    names = tuple(known)
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"choose from {', '.join(names)}"
        raise ValueError(f"no data set is called {name!r}; {remedy}")


def packed_path(directory: Path, name: str) -> Path:
    """Return where a data directory keeps a set that is packed into one file.

    >>> packed_path(Path("data"), "hhar").as_posix()
    'data/hhar/hhar.packed.npz'
    """
    return directory / name / f"{name}.packed.npz"


def find(name: str, *, directory: Path | str | None = None) -> Place | None:
    """Return where the data set lies, or None.

    Parameters
    ----------
    name
        A name of the catalogue.
    directory
        Look only here, instead of the usual directories.

    >>> find("uci_har", directory="no/such/place") is None
    True
    """
    entry = source(name)
    for root in data_directories(directory):
        folder = root / name
        if not folder.is_dir():
            continue
        packed = packed_path(root, name)
        known = packed if packed.is_file() else None
        original = find_folder(folder, entry.patterns)
        if known is not None or original is not None:
            return Place(entry, folder, original, known)
    return None


def locate(name: str, *, directory: Path | str | None = None) -> Place:
    """Return where the data set lies; if nowhere, MissingDataError says where to get and put it.

    >>> locate("sunspots", directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: sunspots (yearly sunspot numbers, ...) is not in ...
    """
    place = find(name, directory=directory)
    if place is not None:
        return place
    raise missing(source(name), data_directories(directory))


def missing(entry: Source, roots: tuple[Path, ...]) -> MissingDataError:
    """Return the error that says where a set was looked for, and where to get and put it."""
    return MissingDataError(
        f"{entry.name} ({entry.description}) is not in {', '.join(map(str, roots))}; "
        f"get it from {entry.home} and put {entry.files} "
        f"into {roots[0] / entry.name}, or name another data directory with --data or "
        f"${ENVIRONMENT}"
    )
