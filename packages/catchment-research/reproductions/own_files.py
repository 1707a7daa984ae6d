"""Whether the publishers' own files are here, which a paper's settings are run on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from catchment.errors import MissingDataError
from reproductions.data.catalogue import SOURCES
from reproductions.places import data_directories, find


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
