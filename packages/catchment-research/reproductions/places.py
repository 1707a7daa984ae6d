"""Where reproductions find data sets and language models: also beside the clone.

They look where the library looks, and then in `../shared` beside this repository. Data sets may lie
there as their publishers' files, which a paper's settings are run on, packed by `catchment data
pack`, or in the compact form that `reproductions.data.compact` reads and makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from catchment import data as directories
from catchment.errors import MissingDataError
from catchment_lab import datasets as loaders
from catchment_lab.datasets import (
    Dataset,
    Folder,
    Source,
    Window,
    check_name,
    find_folder,
    sources,
)
from catchment_research.prompt import find_model as find_library_model
from reproductions.data.catalogue import COMPACT, SOURCES

BESIDE = Path(__file__).resolve().parents[4] / "shared"


@dataclass(frozen=True)
class Place:
    """Where a data set was found; `original` is None where it is in the compact form."""

    source: Source
    directory: Path
    original: Folder | None = None
    packed: Path | None = None

    @property
    def form(self) -> str:
        """`packed`, `original` or `compact`: what will be read."""
        if self.packed is not None:
            return "packed"
        return "compact" if self.original is None else "original"

    @property
    def folder(self) -> Folder:
        """The files that will be read."""
        if self.original is not None:
            return self.original
        return Folder(self.directory, tuple(file for file, _ in COMPACT[self.source.name].files))

    @property
    def n_bytes(self) -> int:
        """Size on disk of what will be read."""
        return sources.size_of(self.folder) if self.packed is None else self.packed.stat().st_size


def data_directories(directory: Path | str | None = None) -> tuple[Path, ...]:
    """Return the directories that are searched, first the one that wins.

    >>> [path.name for path in data_directories("my/data")]
    ['data']
    """
    known = directories.data_directories(directory)
    beside = BESIDE / "data"
    return (*known, beside) if directory is None and beside.is_dir() else known


def find(name: str, *, directory: Path | str | None = None) -> Place | None:
    """Return where a data set lies in any form, or None.

    Parameters
    ----------
    name
        A public set of the library, or one of `reproductions.data.catalogue`.
    directory
        Look only here, instead of the usual directories.

    >>> find("mnist_writers", directory="no/such/place") is None
    True
    """
    check_name(name, SOURCES)
    entry = SOURCES[name]
    for root in data_directories(directory):
        packed = sources.packed_path(root, name)
        known = packed if packed.is_file() else None
        folder = root / name
        original = find_folder(folder, entry.patterns) if folder.is_dir() else None
        if known is not None or original is not None:
            return Place(entry, folder, original, known)
        for compact in (folder, root / COMPACT[name].folder if name in COMPACT else folder):
            if is_compact(name, compact):
                return Place(entry, compact)
    return None


def is_compact(name: str, folder: Path) -> bool:
    """Return whether a folder holds all compact files of a set."""
    return name in COMPACT and all((folder / file).is_file() for file, _ in COMPACT[name].files)


def locate(name: str, *, directory: Path | str | None = None) -> Place:
    """Return where a data set lies; if nowhere, MissingDataError says where to get and put it.

    >>> locate("cifar10", directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: cifar10 (color images, 32 x 32) is not in ...
    """
    place = find(name, directory=directory)
    if place is None:
        raise sources.missing(SOURCES[name], data_directories(directory))
    return place


def load(
    name: str,
    *,
    directory: Path | str | None = None,
    window: Window = "usual",
    step: int | None = None,
) -> Dataset:
    """Return a public set of time series in whatever form it is here.

    Parameters
    ----------
    name
        As for `catchment_lab.datasets.load`.
    directory
        Data directory; the usual ones if not given.
    window, step
        As for `catchment_lab.datasets.load`.
    """
    from reproductions.data import compact, wesad

    place = locate(name, directory=directory)
    if place.form == "compact":
        return compact.read(name, place.directory, window=window, step=step)
    if name == "wesad":
        return loaders.cut(wesad.read(place.folder), window, step)
    # The place's parent is a data directory, which the library then searches by itself.
    return loaders.load(name, directory=place.directory.parent, window=window, step=step)


def packed_directory(*names: str, directory: Path | None = None, out: Path | None = None) -> Path:
    """Return a data directory in which the library itself finds sets that are here in any form.

    A set in the compact form is packed there once; the library then reads it by name.

    Parameters
    ----------
    names
        Sets of time series; one that is not here is left out.
    directory
        Where to look; the usual directories if not given.
    out
        The data directory; `.data` in this repository if not given.
    """
    from reproductions.data import compact

    out = Path(__file__).resolve().parents[3] / ".data" if out is None else out
    for name in names:
        place = find(name, directory=directory)
        if place is None or sources.find(name, directory=out) is not None:
            continue
        if place.form == "compact":
            loaders.pack(compact.read_whole(name, place.directory), out)
        else:
            loaders.pack(loaders.load_whole(name, directory=place.directory.parent), out)
    return out


def model_directories(directory: Path | str | None = None) -> tuple[Path, ...]:
    """Return the directories that are searched for language models, first the one that wins.

    >>> [path.name for path in model_directories("my/models")]
    ['models']
    """
    known = directories.model_directories(directory)
    beside = BESIDE / "models"
    return (*known, beside) if directory is None and beside.is_dir() else known


def find_model(name: str, *, directory: Path | str | None = None) -> Path | None:
    """Return the folder of a language model, or None.

    >>> find_model("stories260k", directory="no/such/place") is None
    True
    """
    found = (find_library_model(name, directory=root) for root in model_directories(directory))
    return next((folder for folder in found if folder is not None), None)


def is_published(name: str, directory: Path | None = None) -> bool:
    """Return whether a set is here as its publisher's files, or packed from them.

    >>> is_published("wesad", Path("no/such/place"))
    False
    """
    place = find(name, directory=directory)
    return place is not None and place.form != "compact"


def refuse_stand_ins(names: Sequence[str], directory: Path | None = None) -> None:
    """Raise MissingDataError that says which of the publishers' files are missing, if any are."""
    lacking = [name for name in names if not is_published(name, directory)]
    if lacking:
        where = " or ".join(str(path) for path in data_directories(directory))
        files = "; ".join(f"{n}: {SOURCES[n].files} ({SOURCES[n].home})" for n in lacking)
        raise MissingDataError(
            f"--paper reads the publishers' own files, and these are not here: {files}. Put each "
            f"set into a folder of its name in {where}, or add --stand-in to run the paper's "
            "settings on what is here"
        )
