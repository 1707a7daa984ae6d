"""Where public data sets lie on this machine, and whether they are what they should be.

A set is looked for in a folder of its own name, in these directories: the one the caller names, and
only there; or else `$CATCHMENT_DATA`, `../shared/data` beside the current directory, and the
user's cache. Nothing is downloaded.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from catchment.data.archive import Folder, find_folder
from catchment.data.catalogue import CATALOGUE, Source
from catchment.errors import IntegrityError, MissingDataError

ENVIRONMENT = "CATCHMENT_DATA"


@dataclass(frozen=True)
class Place:
    """Where a data set was found; `original` is None where it is in our compact form."""

    source: Source
    directory: Path
    original: Folder | None = None

    @property
    def form(self) -> str:
        """`compact` or `original`."""
        return "compact" if self.original is None else "original"

    @property
    def folder(self) -> Folder:
        """The files that will be read."""
        if self.original is not None:
            return self.original
        return Folder(self.directory, tuple(name for name, _ in self.source.files))

    @property
    def n_bytes(self) -> int:
        """Size on disk of the files that will be read."""
        folder = self.folder
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
    if name not in CATALOGUE:
        close = difflib.get_close_matches(name, CATALOGUE, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"choose from {', '.join(CATALOGUE)}"
        raise ValueError(f"no data set is called {name!r}; {remedy}")
    return CATALOGUE[name]


def cache_directory() -> Path:
    """Return the directory for this user's copies of data sets.

    >>> cache_directory().name
    'catchment'
    """
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "catchment"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "catchment"
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "catchment"
    return Path.home() / ".cache" / "catchment"


def data_directories(directory: Path | str | None = None) -> tuple[Path, ...]:
    """Return the directories that are searched, first the one that wins.

    >>> [path.name for path in data_directories("my/data")]
    ['data']
    """
    if directory is not None:
        return (Path(directory).expanduser(),)
    shared = Path.cwd().parent / "shared" / "data"
    named = os.environ.get(ENVIRONMENT)
    return (
        *([Path(named).expanduser()] if named else []),
        *([shared] if shared.is_dir() else []),
        cache_directory(),
    )


def find(name: str, *, directory: Path | str | None = None) -> Place | None:
    """Return where the data set lies, or None.

    Where a directory holds both forms, the original wins: it is never less than the compact one.

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
        for place in (root / entry.name, root / entry.folder):
            if (found := _look(entry, place)) is not None:
                return found
    return None


def _look(entry: Source, place: Path) -> Place | None:
    if place.is_dir():
        if (original := find_folder(place, entry.patterns)) is not None:
            return Place(entry, place, original)
        if entry.files and all((place / file).is_file() for file, _ in entry.files):
            return Place(entry, place)
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
    entry, roots = source(name), data_directories(directory)
    compact = " and ".join(file for file, _ in entry.files)
    files = f"{entry.original}, or {compact}," if compact else f"{entry.original}"
    raise MissingDataError(
        f"{name} ({entry.description}) is not in {', '.join(map(str, roots))}; "
        f"get it from {entry.home} and put {files} "
        f"into {roots[0] / name}, or name another data directory with --data or "
        f"${ENVIRONMENT}"
    )


def verify(place: Place) -> None:
    """Raise IntegrityError if a file of the compact form is not the one in the catalogue.

    The checksums of publishers' own files are not known here; those are checked as they are read.
    """
    if place.original is not None:
        return
    for file, expected in place.source.files:
        found = checksum(place.directory / file)
        if found != expected:
            raise IntegrityError(
                f"{place.directory / file} has SHA-256 {found[:16]}..., expected "
                f"{expected[:16]}...; get a fresh copy"
            )


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
