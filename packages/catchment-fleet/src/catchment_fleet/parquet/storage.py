"""Where the files of a lake are: local folders, or what pyarrow opens by its URI.

A file's folders may name columns, as `client=ann/part-0.parquet` does: all rows of the file have
the value "ann" in column "client" then, unless the file has a column of that name.
"""

from __future__ import annotations

import fnmatch
import glob
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow
import pyarrow.fs
import pyarrow.parquet

from catchment.data import is_uri

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Storage:
    """What opens the files of a lake; it may be sent to another process.

    Parameters
    ----------
    uri
        Address of the lake if it is not a local folder, such as "s3://bucket/prefix".
    filesystem
        A pyarrow filesystem that somebody made, in the place of the one that the URI names.
    """

    uri: str = ""
    filesystem: Any = None

    def open(self, path: str, coded: Sequence[str] = ()) -> pyarrow.parquet.ParquetFile:
        """Return an open Parquet file; ValueError if it is none.

        Parameters
        ----------
        coded
            Columns that are read as numbers of a dictionary, where they are text.
        """
        folders = columns_of_folders(path)
        own = [name for name in coded if name not in folders]
        try:
            if self.filesystem is None and not self.uri:
                return pyarrow.parquet.ParquetFile(path, read_dictionary=own)
            source = self._files().open_input_file(path)
            return pyarrow.parquet.ParquetFile(source, read_dictionary=own, pre_buffer=True)
        except KeyError:  # the file has spaces around the name of a column
            return self.open(path)
        except pyarrow.ArrowInvalid as error:
            raise ValueError(
                f"{name_of(path)} is not a Parquet file ({error}); take it out of the lake or "
                "write it anew"
            ) from error

    def _files(self) -> pyarrow.fs.FileSystem:
        return self.filesystem if self.filesystem is not None else _filesystem(self.uri)[0]


@lru_cache(maxsize=16)
def _filesystem(uri: str) -> tuple[Any, str]:
    """Return the filesystem of a URI, and the path within it."""
    try:
        found: tuple[Any, str] = pyarrow.fs.FileSystem.from_uri(uri)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(
            f"{uri} cannot be opened ({error}); write s3://bucket/folder, gs://bucket/folder or "
            "file:///folder"
        ) from error
    return found


def name_of(path: str) -> str:
    """Return a file's own name."""
    return path.rpartition("/")[2]


def find_parquet(
    files: str | Path | Sequence[str | Path], filesystem: Any = None
) -> tuple[Storage, list[str]]:
    """Return what opens the Parquet files of a folder, a pattern or a URI, and these files, sorted.

    Those of subfolders are found where a folder has none itself. Files and folders whose names
    begin with "." or "_" are passed over.
    """
    patterns = [files] if isinstance(files, str | Path) else list(files)
    far = [str(pattern) for pattern in patterns if filesystem is not None or is_uri(pattern)]
    if not far:
        found = {path for pattern in patterns for path in _matched_here(str(pattern))}
        return Storage(), _sorted(found)
    if len(far) < len(patterns):
        raise ValueError(f"{far[0]} and local files are no one lake; name one of them")
    place = Storage("" if filesystem is not None else far[0], filesystem)
    paths = far if filesystem is not None else [_filesystem(uri)[1] for uri in far]
    heads = {pattern.partition("://")[2].partition("/")[0] for pattern in far}
    if filesystem is None and len(heads) > 1:
        raise ValueError(f"{far[0]} and {far[-1]} are in two buckets; name one of them")
    chosen = place._files()
    matched = {name for path in paths for name in _matched_there(chosen, path)}
    if not matched:
        raise FileNotFoundError(_nothing(far[0]))
    return place, _sorted(matched)


def _sorted(paths: Iterable[str]) -> list[str]:
    # As `find_files` sorts them: folder by folder, not letter by letter.
    return [str(path) for path in sorted(map(Path, paths))]


def _matched_here(pattern: str) -> list[str]:
    path = Path(pattern)
    if path.is_file():
        return [str(path)]
    if path.is_dir():
        found = _direct_or_below(_walked(path), len(path.parts) + 1)
    else:
        matches = glob.glob(pattern, recursive=True)  # noqa: PTH207
        found = [match for match in matches if _is_parquet(match) and Path(match).is_file()]
    if not found:
        raise FileNotFoundError(_nothing(pattern))
    return found


def _walked(folder: Path) -> list[str]:
    return [
        str(file)
        for file in folder.rglob("*")
        if _is_parquet(str(file)) and _is_shown(file.relative_to(folder).parts) and file.is_file()
    ]


def _matched_there(files: pyarrow.fs.FileSystem, pattern: str) -> list[str]:
    folder = re.split(r"/[^/]*[*?\[]", pattern, maxsplit=1)[0].rstrip("/")
    info = files.get_file_info(folder)
    if info.is_file:
        return [folder]
    if info.type == pyarrow.fs.FileType.NotFound:
        return []
    selector = pyarrow.fs.FileSelector(folder, recursive=True)
    every = [one.path for one in files.get_file_info(selector) if one.is_file]
    depth = len(Path(folder).parts)
    shown = [p for p in every if _is_parquet(p) and _is_shown(Path(p).parts[depth:])]
    if folder != pattern.rstrip("/"):
        return [path for path in shown if fnmatch.fnmatchcase(path, pattern)]
    return _direct_or_below(shown, depth + 1)


def _direct_or_below(found: list[str], depth: int) -> list[str]:
    """Return the files that are in a folder itself; if none is, those of its subfolders."""
    return [path for path in found if len(Path(path).parts) == depth] or found


def _is_shown(parts: Sequence[str]) -> bool:
    return not any(part.startswith((".", "_")) for part in parts)


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(".parquet")


def _nothing(pattern: str) -> str:
    return (
        f"there is no Parquet file in {pattern}; pass a folder with .parquet files, a pattern such "
        "as 'lake/*.parquet', or a URI such as s3://bucket/folder"
    )


@lru_cache(maxsize=4096)
def columns_of_folders(path: str) -> dict[str, str | None]:
    """Return the columns that a file's folders name, with their values.

    >>> columns_of_folders("lake/client=ann/day=3/part-0.parquet")
    {'client': 'ann', 'day': '3'}
    """
    pairs = [part.partition("=") for part in path.split("/")[:-1] if "=" in part]
    return {name: None if text == _NO_VALUE else unquote(text) for name, _, text in pairs}
