"""The public data sets this library can read, and where they lie on this machine.

A set is looked for in a folder of its own name, in these directories: the one the caller names, and
only there; or else `$CATCHMENT_DATA` and the user's cache. Nothing is downloaded.

Published files are read where they lie: in a directory, in a zip or tar, or in a zip inside a zip.
Nothing is unpacked to disk, so an archive cannot write outside its place.
"""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import tarfile
import tomllib
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO, Literal, cast

import numpy as np

from catchment import Array
from catchment.data import ENVIRONMENT, data_directories
from catchment.errors import IntegrityError, MissingDataError, nearest

_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
_MAX_DEPTH = 6
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zlib.error,
    EOFError,
    NotImplementedError,
)


@dataclass(frozen=True)
class Folder:
    """Names of files, and the way to open them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = (Path(place) / "a.txt").write_text("1 2")
    ...     folder = next(folders(Path(place)))
    ...     folder.names, folder.read("a.txt")
    (('a.txt',), b'1 2')
    """

    path: Path
    names: tuple[str, ...]
    archives: tuple[str, ...] = ()
    prefix: str = ""

    def __str__(self) -> str:
        return "/".join([str(self.path), *self.archives[1:]])

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Yield a file as a binary stream, uncompressed if its name ends in .gz."""
        if name not in self.names:
            raise IntegrityError(f"{self} has no {self.prefix}{name}; get the whole set")
        try:
            with contextlib.ExitStack() as stack:
                stream = _open(stack, self.path, self.archives, self.prefix + name)
                if name.endswith(".gz"):
                    stream = cast(IO[bytes], stack.enter_context(gzip.GzipFile(fileobj=stream)))
                yield stream
        except _DAMAGE as error:
            raise IntegrityError(
                f"{self}/{self.prefix}{name} is damaged ({error}); get a fresh copy"
            ) from error

    def read(self, name: str) -> bytes:
        """Return the contents of a file."""
        with self.open(name) as stream:
            return stream.read()

    def matching(self, pattern: str) -> tuple[str, ...]:
        """Return the names whose last parts match a pattern such as `S*/S*.pkl`, in any case."""
        return tuple(name for name in self.names if _matches(name, pattern))


def folders(root: Path) -> Iterator[Folder]:
    """Yield the directory, then each archive in it, then each zip inside those.

    Parameters
    ----------
    root
        Directory; hidden files and what lies deeper than six levels are passed over.
    """
    names = tuple(sorted(_walk(root)))
    yield Folder(root, names)
    for name in names:
        if name.lower().endswith(_ARCHIVES):
            yield from _inside(Folder(root / name, (), (name,)))


def find_folder(root: Path, patterns: Sequence[str]) -> Folder | None:
    """Return the folder under root, or in an archive there, that holds a file of such a name.

    The folder's names are relative to where the pattern begins: for `S*/S*.pkl` found in
    `WESAD.zip` as `WESAD/S2/S2.pkl`, the file is called `S2/S2.pkl`.
    """
    for folder in folders(root):
        for pattern in patterns:
            for name in folder.matching(pattern):
                return _below(folder, PurePosixPath(name).parts[: -len(_parts(pattern))])
    return None


def _below(folder: Folder, parents: tuple[str, ...]) -> Folder:
    prefix = "".join(f"{part}/" for part in parents)
    names = (name for name in folder.names if name.startswith(prefix))
    return replace(
        folder,
        names=tuple(name.removeprefix(prefix) for name in names),
        prefix=folder.prefix + prefix,
    )


def _parts(path: str) -> tuple[str, ...]:
    return PurePosixPath(path.lower()).parts


def _matches(name: str, pattern: str) -> bool:
    parts, wanted = _parts(name), _parts(pattern)
    return len(parts) >= len(wanted) and all(
        fnmatchcase(part, want) for part, want in zip(parts[-len(wanted) :], wanted, strict=True)
    )


def _walk(root: Path) -> Iterator[str]:
    for directory, below, files in os.walk(root):
        here = Path(directory).relative_to(root)
        below[:] = [d for d in below if not d.startswith((".", "__MACOSX"))]
        if len(here.parts) >= _MAX_DEPTH:
            below.clear()
        yield from ((here / file).as_posix() for file in files if not file.startswith("."))


def _inside(folder: Folder) -> Iterator[Folder]:
    """Yield an archive with its members listed, then the zips among them."""
    try:
        with contextlib.ExitStack() as stack:
            archive = _archive(stack, folder.path, folder.archives)
            members = _members(archive)
    except _DAMAGE as error:
        raise IntegrityError(f"{folder} is damaged ({error}); get a fresh copy") from error
    yield replace(folder, names=members)
    if len(folder.archives) == 1:
        for name in members:
            if name.lower().endswith(".zip"):
                yield from _inside(replace(folder, archives=(*folder.archives, name)))


def _members(archive: zipfile.ZipFile | tarfile.TarFile) -> tuple[str, ...]:
    if isinstance(archive, zipfile.ZipFile):
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
    else:
        names = [member.name.removeprefix("./") for member in archive if member.isfile()]
    return tuple(
        sorted(
            name
            for name in names
            if not name.startswith("__MACOSX") and not PurePosixPath(name).name.startswith(".")
        )
    )


def _archive(
    stack: contextlib.ExitStack, path: Path, archives: tuple[str, ...]
) -> zipfile.ZipFile | tarfile.TarFile:
    if not archives[0].lower().endswith(".zip"):
        mode: Literal["r:", "r:gz"] = "r:" if path.suffix.lower() == ".tar" else "r:gz"
        return stack.enter_context(tarfile.open(path, mode))
    archive = stack.enter_context(zipfile.ZipFile(path))
    for name in archives[1:]:
        inner = stack.enter_context(archive.open(name))
        archive = stack.enter_context(zipfile.ZipFile(inner))
    return archive


def _open(
    stack: contextlib.ExitStack, path: Path, archives: tuple[str, ...], name: str
) -> IO[bytes]:
    if not archives:
        return stack.enter_context((path / name).open("rb"))
    archive = _archive(stack, path, archives)
    if isinstance(archive, zipfile.ZipFile):
        if archive.getinfo(name).flag_bits & 1:
            raise zipfile.BadZipFile("encrypted")
        return stack.enter_context(archive.open(name))
    try:
        stream = archive.extractfile(name)
    except KeyError:
        stream = archive.extractfile(f"./{name}")
    if stream is None:
        raise tarfile.TarError("not a regular file")
    return stack.enter_context(stream)


def read_numbers(folder: Folder, name: str) -> Array:
    """Return the rows (n, columns) of a text file of numbers between white space."""
    with folder.open(name) as stream:
        return parse_numbers(stream, f"{folder}/{name}")


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
    ValueError: no data set is called 'fssd'; did you mean 'fsdd'?
    """
    check_name(name, CATALOGUE)
    return CATALOGUE[name]


def check_name(name: str, known: Collection[str]) -> None:
    """Raise ValueError, with the nearest name or all of them, if a data set is not known."""
    if name not in known:
        raise ValueError(f"no data set is called {name!r}; {nearest(name, known)}")


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
