"""Reading the files of data sets, with one clear error for whatever is wrong in them."""

from __future__ import annotations

import warnings
from typing import IO

import numpy as np

from catchment import Array
from catchment.errors import IntegrityError
from catchment_lab.datasets.archive import Folder


def read_numbers(
    folder: Folder,
    name: str,
    *,
    delimiter: str | None = None,
    columns: tuple[int, ...] | None = None,
    skip: int = 0,
) -> Array:
    """Return the rows (n, columns) of a text file of numbers.

    Parameters
    ----------
    folder
        Where the file lies.
    name
        Its name there.
    delimiter
        Between the numbers of a row; white space if not given.
    columns
        Which columns; all if not given.
    skip
        Lines before the first row.
    """
    with folder.open(name) as stream:
        return parse_numbers(
            stream, f"{folder}/{name}", delimiter=delimiter, columns=columns, skip=skip
        )


def parse_numbers(
    stream: IO[bytes] | list[bytes],
    what: str,
    *,
    delimiter: str | None = None,
    columns: tuple[int, ...] | None = None,
    skip: int = 0,
) -> Array:
    """Return rows (n, columns) of numbers from lines of text; finite, and at least one.

    >>> parse_numbers([b"1 2", b"3 4"], "here")
    array([[1., 2.],
           [3., 4.]])
    """
    with warnings.catch_warnings():
        # numpy only warns of an empty file.
        warnings.simplefilter("ignore", UserWarning)
        try:
            rows = np.loadtxt(
                stream, delimiter=delimiter, usecols=columns, skiprows=skip, ndmin=2, comments=None
            )
        except (ValueError, IndexError, UnicodeDecodeError) as error:
            raise IntegrityError(f"{what} is not a table of numbers ({error})") from error
    if rows.size == 0:
        raise IntegrityError(f"{what} is empty; get a fresh copy")
    if not np.isfinite(rows).all():
        row = int(np.argwhere(~np.isfinite(rows))[0][0])
        raise IntegrityError(f"{what} is not finite at row {row}; get a fresh copy")
    return rows


def require(folder: Folder, pattern: str) -> tuple[str, ...]:
    """Return the names in a folder that match, at least one, in their order."""
    names = folder.matching(pattern)
    if not names:
        raise IntegrityError(f"{folder}/{folder.prefix} has no {pattern}; get the whole set")
    return names


def read_text(folder: Folder, name: str) -> str:
    """Return a text file in UTF-8, unzipped if its name ends in .gz."""
    try:
        return folder.read(name).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise IntegrityError(f"{folder}/{name} is not UTF-8 text ({error})") from error
