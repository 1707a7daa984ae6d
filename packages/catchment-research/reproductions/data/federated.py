"""The sets of federated learning in their publishers' forms: EMNIST, FEMNIST and Stack Overflow.

EMNIST comes as idx files whose images are transposed. FEMNIST is EMNIST by writer: LEAF's JSON
files, one object with `users` and `user_data` each, or TensorFlow Federated's database. Such a
database (SQLite, packed by LZMA) has the tables client_metadata (client_id, split_name,
num_examples) and examples (split_name, client_id, serialized_example_proto), each example a
tf.train.Example: a map from names to lists of bytes, floats or integers.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import IntegrityError
from catchment_lab.datasets import Folder, require
from reproductions.data.images import read_idx
from reproductions.data.values import Bytes, Images, Text, Texts
from reproductions.places import Place, locate

_CHARACTERS = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_PIXELS = 28 * 28


def emnist(*, directory: Path | str | None = None) -> Images:
    """Return EMNIST by class, (n, 28, 28) gray, upright, without its writers.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.

    >>> emnist(directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: emnist (handwritten digits and letters, ...
    """
    folder = _original(locate("emnist", directory=directory))
    train, train_labels, test, test_labels = (
        read_idx(folder, f"emnist-byclass-{part}-{what}-idx{n_dims}-ubyte*", n_dims)
        for part in ("train", "test")
        for what, n_dims in (("images", 3), ("labels", 1))
    )
    return Images(
        name="emnist",
        train=np.ascontiguousarray(train.transpose(0, 2, 1)),
        train_labels=_classes(train_labels, str(folder)),
        test=np.ascontiguousarray(test.transpose(0, 2, 1)),
        test_labels=_classes(test_labels, str(folder)),
        classes=_CHARACTERS,
        notes=("original form, by class; the idx files do not name the writers",),
    )


def femnist(*, directory: Path | str | None = None, most_clients: int | None = None) -> Images:
    """Return federated EMNIST, (n, 28, 28) gray, dark on white; the writer is the client.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.
    most_clients
        Read at most this many writers.

    >>> femnist(directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: femnist (EMNIST by writer) ...
    """
    folder = _original(locate("femnist", directory=directory))
    if folder.matching("train/*.json"):
        train, test = (list(_leaf(folder, part, most_clients)) for part in ("train", "test"))
        note = "original form (LEAF)"
    else:
        with _database(folder, "emnist_*.sqlite*") as database:
            train, test = (
                list(_drawn(database, part, most_clients, str(folder)))
                for part in ("train", "test")
            )
        note = "original form (TensorFlow Federated)"
    if not train or not test:
        raise IntegrityError(f"{folder} has no writers for train or test; get a fresh copy")
    parts = {}
    for part, drawn in (("train", train), ("test", test)):
        parts[part] = np.concatenate([pixels for _, pixels, _ in drawn])
        parts[f"{part}_labels"] = np.concatenate([labels for _, _, labels in drawn])
    names = [
        tuple(writer for writer, _, labels in drawn for _ in range(len(labels)))
        for drawn in (train, test)
    ]
    return Images(
        name="femnist",
        **parts,
        classes=_CHARACTERS,
        train_clients=names[0],
        test_clients=names[1],
        notes=(note,),
    )


def stackoverflow(
    *,
    directory: Path | str | None = None,
    most_clients: int | None = 1000,
    most_texts: int | None = 256,
) -> Texts:
    """Return questions and answers of Stack Overflow; the user is the client.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.
    most_clients
        Read at most this many users of each part, by their numbers; all of 342,477 if None.
    most_texts
        And at most this many sentences of each.

    >>> stackoverflow(directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: stackoverflow (questions and answers by user) ...
    """
    folder = _original(locate("stackoverflow", directory=directory))
    with _database(folder, "stackoverflow*.sqlite*") as database:
        train, test = (
            tuple(
                Text(_only_text(example, "tokens", str(folder)), client=user)
                for user in _clients(database, part, most_clients)
                for example in _examples(database, part, user, most_texts, str(folder))
            )
            for part in ("train", "test")
        )
    if not train:
        raise IntegrityError(f"{folder} has no users to train on; get a fresh copy")
    shown = "all" if most_clients is None else f"the first {most_clients}"
    return Texts(
        name="stackoverflow", train=train, test=test, notes=(f"original form, {shown} users",)
    )


def _original(place: Place) -> Folder:
    if place.original is None:
        raise IntegrityError(f"{place.directory} has no {place.source.files}")
    return place.original


def _classes(labels: NDArray[Any], what: str) -> Bytes:
    if labels.size and not 0 <= int(labels.min()) <= int(labels.max()) < len(_CHARACTERS):
        raise IntegrityError(f"{what} has a label that is none of 62 classes; get a fresh copy")
    return labels.astype(np.uint8)


def _pixels(rows: NDArray[np.float64], what: str) -> Bytes:
    """Return numbers from 0 to 1 as bytes (n, 28, 28)."""
    if rows.ndim != 2 or rows.shape[1] != _PIXELS or not ((rows >= 0) & (rows <= 1)).all():
        raise IntegrityError(f"{what} has images of shape {rows.shape[1:]}, or not from 0 to 1")
    return np.rint(255 * rows).astype(np.uint8).reshape(-1, 28, 28)


def _leaf(folder: Folder, part: str, most: int | None) -> Iterator[tuple[str, Bytes, Bytes]]:
    """Yield writer, images and labels from LEAF's files of a part."""
    given = 0
    for name in sorted(require(folder, f"{part}/*.json")):
        what = f"{folder}/{name}"
        try:
            content = json.loads(folder.read(name))
            users = [(str(user), content["user_data"][user]) for user in content["users"]]
            for user, data in users:
                if given == most:
                    return
                given += 1
                rows = np.array(data["x"], dtype=np.float64)
                yield user, _pixels(rows, what), _classes(np.array(data["y"], dtype=int), what)
        except (ValueError, KeyError, TypeError) as error:
            raise IntegrityError(f"{what} is not one of LEAF's files ({error!r})") from error


@contextlib.contextmanager
def _database(folder: Folder, pattern: str) -> Iterator[sqlite3.Connection]:
    """Open a database that lies unpacked in a folder, or packed by LZMA."""
    # Unpacked before packed: sorted by name, and the packed one's is longer.
    (name, *_) = sorted(require(folder, pattern))
    if folder.archives:
        raise IntegrityError(f"{folder} is an archive; unpack {name} from it")
    path = folder.path / (folder.prefix + name)
    with contextlib.ExitStack() as stack:
        if path.suffix in (".lzma", ".xz"):
            packed, path = path, Path(stack.enter_context(tempfile.TemporaryDirectory())) / "it"
            try:
                with lzma.open(packed) as source, path.open("wb") as target:
                    shutil.copyfileobj(source, target)
            except (lzma.LZMAError, EOFError) as error:
                raise IntegrityError(f"{packed} is damaged ({error}); get a fresh copy") from error
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        stack.callback(database.close)
        try:
            yield database
        except sqlite3.DatabaseError as error:
            raise IntegrityError(
                f"{folder.path}/{name} is not a database of clients ({error})"
            ) from error


def _clients(database: sqlite3.Connection, part: str, most: int | None) -> list[str]:
    found = database.execute(
        "SELECT DISTINCT client_id FROM client_metadata WHERE split_name = ? "
        "ORDER BY client_id LIMIT ?",
        (part, -1 if most is None else most),
    )
    return [str(client) for (client,) in found]


def _examples(
    database: sqlite3.Connection, part: str, client: str, most: int | None, what: str
) -> Iterator[dict[str, Any]]:
    rows = database.execute(
        "SELECT serialized_example_proto FROM examples WHERE split_name = ? AND client_id = ? "
        "ORDER BY rowid LIMIT ?",
        (part, client, -1 if most is None else most),
    )
    for (message,) in rows:
        try:
            yield parse_example(message)
        except (ValueError, IndexError, struct.error, TypeError) as error:
            raise IntegrityError(f"{what}: an example of {client} is damaged ({error})") from error


def _drawn(
    database: sqlite3.Connection, part: str, most: int | None, what: str
) -> Iterator[tuple[str, Bytes, Bytes]]:
    for writer in _clients(database, part, most):
        found = list(_examples(database, part, writer, None, what))
        try:
            rows = np.array([one["pixels"] for one in found], dtype=np.float64)
            labels = np.array([one["label"][0] for one in found], dtype=np.int64)
        except (KeyError, IndexError, ValueError) as error:
            raise IntegrityError(f"{what}: {writer} has no pixels or label ({error!r})") from error
        if len(rows):
            yield writer, _pixels(rows, what), _classes(labels, what)


def _only_text(example: dict[str, Any], name: str, what: str) -> str:
    try:
        return bytes(example[name][0]).decode()
    except (KeyError, IndexError, UnicodeDecodeError) as error:
        raise IntegrityError(f"{what}: an example has no {name} ({error!r})") from error


def parse_example(message: bytes) -> dict[str, list[bytes] | list[float] | list[int]]:
    """Return the features of a serialized tf.train.Example by name.

    >>> parse_example(bytes.fromhex("0a0c0a0a0a01611205 1a030a0107".replace(" ", "")))
    {'a': [7]}
    """
    features: dict[str, list[bytes] | list[float] | list[int]] = {}
    for _, body in _fields(message):
        for _, entry in _fields(_bytes(body)):
            pair = dict(_fields(_bytes(entry)))
            features[_bytes(pair[1]).decode()] = _values(_bytes(pair.get(2, b"")))
    return features


def _values(feature: bytes) -> list[bytes] | list[float] | list[int]:
    for kind, body in _fields(feature):
        items = [item for _, item in _fields(_bytes(body))]
        if kind == 1:
            return [_bytes(item) for item in items]
        packed = b"".join(item for item in items if isinstance(item, bytes))
        if kind == 2:
            return [x for (x,) in struct.iter_unpack("<f", packed)]
        return [_signed(item) for item in items if isinstance(item, int)] or _numbers(packed)
    return []


def _numbers(packed: bytes) -> list[int]:
    found, at = [], 0
    while at < len(packed):
        number, at = _varint(packed, at)
        found.append(_signed(number))
    return found


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a protocol buffer: their number, and an integer or bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        match key & 7:
            case 0:
                value, at = _varint(message, at)
                yield key >> 3, value
            case 2:
                size, at = _varint(message, at)
                if at + size > len(message):
                    raise ValueError("a field is longer than its message")
                yield key >> 3, message[at : at + size]
                at += size
            case 5:
                yield key >> 3, message[at : at + 4]
                at += 4
            case kind:
                raise ValueError(f"a field has type {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number is longer than 64 bits")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes should be")
    return value
