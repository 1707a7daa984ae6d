"""Reading the arrays of a compact file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import IntegrityError


def read_arrays(path: Path, keys: Iterable[str]) -> Mapping[str, NDArray[Any]]:
    """Return the named arrays of an npz file; IntegrityError if it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return MappingProxyType({key: archive[key] for key in keys})
    except KeyError as error:
        raise IntegrityError(f"{path} lacks {error}; get a fresh copy") from error
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise IntegrityError(f"{path} is damaged ({error}); get a fresh copy") from error


def names_of(value: NDArray[Any]) -> tuple[str, ...]:
    """Return an array of names as a tuple."""
    return tuple(str(item) for item in value)
