"""EMNIST, FEMNIST and Stack Overflow: tiny files as published."""

from __future__ import annotations

import gzip
import json
import lzma
import sqlite3
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from catchment.errors import IntegrityError
from reproductions.data.federated import emnist, femnist, parse_example, stackoverflow
from reproductions.data.load import load_images, load_texts

RNG = np.random.default_rng(1)
IMAGES = RNG.integers(0, 256, (3, 28, 28), dtype=np.uint8)


def idx(array: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def put_emnist(root: Path, labels: list[int]) -> None:
    root.mkdir()
    for part in ("train", "test"):
        for what, array in (
            ("images-idx3", IMAGES.transpose(0, 2, 1).copy()),
            ("labels-idx1", np.array(labels, dtype=np.uint8)),
        ):
            name = f"emnist-byclass-{part}-{what}-ubyte.gz"
            (root / name).write_bytes(gzip.compress(idx(array)))


def test_emnist_is_turned_upright(tmp_path: Path) -> None:
    put_emnist(tmp_path / "emnist", [0, 10, 61])
    images = load_images("emnist", directory=tmp_path)
    np.testing.assert_array_equal(images.train, IMAGES)
    np.testing.assert_array_equal(images.test, IMAGES)
    assert [images.classes[k] for k in images.train_labels] == ["0", "A", "z"]
    assert images.positions == {}


def test_emnist_with_a_class_too_many(tmp_path: Path) -> None:
    put_emnist(tmp_path / "emnist", [0, 10, 62])
    with pytest.raises(IntegrityError, match="none of 62 classes"):
        emnist(directory=tmp_path)


def put_leaf(root: Path, users: dict[str, list[int]], part: str, number: int) -> None:
    (root / part).mkdir(parents=True, exist_ok=True)
    flat = (IMAGES.reshape(3, -1) / 255).tolist()
    content = {
        "users": list(users),
        "num_samples": [len(y) for y in users.values()],
        "user_data": {user: {"x": flat[: len(y)], "y": y} for user, y in users.items()},
    }
    name = f"all_data_{number}_niid_0_keep_0_{part}_9.json"
    (root / part / name).write_text(json.dumps(content))


def test_femnist_of_leaf(tmp_path: Path) -> None:
    root = tmp_path / "femnist" / "data"
    put_leaf(root, {"f0001_41": [3, 40], "f0000_14": [7]}, "train", 0)
    put_leaf(root, {"f0002_03": [1, 2, 3]}, "train", 1)
    put_leaf(root, {"f0001_41": [5]}, "test", 0)
    images = load_images("femnist", directory=tmp_path)
    assert {name: len(where) for name, where in images.positions.items()} == {
        "f0000_14": 1,
        "f0001_41": 2,
        "f0002_03": 3,
    }
    np.testing.assert_array_equal(images.train[images.positions["f0002_03"]], IMAGES)
    assert images.train_labels[images.positions["f0001_41"]].tolist() == [3, 40]
    assert images.test_clients == ("f0001_41",)
    few = femnist(directory=tmp_path, most_clients=1)
    assert set(few.train_clients) == {"f0001_41"}


def test_odd_leaf(tmp_path: Path) -> None:
    root = tmp_path / "femnist"
    put_leaf(root, {"a": [3]}, "train", 0)
    put_leaf(root, {"a": [3]}, "test", 0)
    path = next((root / "train").glob("*.json"))
    for text, message in (
        ("{", "not one of LEAF's files"),
        ('{"users": ["a"], "user_data": {}}', "not one of LEAF's files"),
        ('{"users": ["a"], "user_data": {"a": {"x": [[0.5]], "y": [1]}}}', "images of shape"),
        ('{"users": [], "user_data": {}}', "no writers"),
    ):
        path.write_text(text)
        with pytest.raises(IntegrityError, match=message):
            femnist(directory=tmp_path)


def varint(number: int) -> bytes:
    out = b""
    while number >= 0x80:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def field(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def example(**features: bytes) -> bytes:
    """A tf.train.Example from features that are already serialized."""
    entries = (field(1, n.encode()) + field(2, f) for n, f in features.items())
    return field(1, b"".join(field(1, entry) for entry in entries))


def text(value: str) -> bytes:
    return field(1, field(1, value.encode()))


def floats(values: list[float]) -> bytes:
    return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))


def whole(value: int) -> bytes:
    return field(3, field(1, varint(value % 2**64)))


def put_database(path: Path, rows: list[tuple[str, str, bytes]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)"
        )
        database.execute(
            "CREATE TABLE client_metadata (client_id TEXT, split_name TEXT, num_examples INTEGER)"
        )
        database.executemany("INSERT INTO examples VALUES (?, ?, ?)", rows)
        known = sorted({(client, part) for part, client, _ in rows})
        database.executemany("INSERT INTO client_metadata VALUES (?, ?, 1)", known)
    database.close()


SAID = [
    ("train", "7", example(tokens=text("how do i sort a list ?"), score=whole(-3))),
    ("train", "7", example(tokens=text("it depends"), score=whole(12))),
    ("train", "10", example(tokens=text("use sorted"), title=text("x" * 300))),
    ("test", "8", example(tokens=text("thanks"))),
]


@pytest.mark.parametrize("packed", [False, True])
def test_stack_overflow(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "stackoverflow" / "stackoverflow.sqlite"
    put_database(path, SAID)
    if packed:
        path.with_suffix(".sqlite.lzma").write_bytes(
            lzma.compress(path.read_bytes(), format=lzma.FORMAT_ALONE)
        )
        path.unlink()
    texts = load_texts("stackoverflow", directory=tmp_path)
    assert {user: [t.text for t in said] for user, said in texts.clients.items()} == {
        "10": ["use sorted"],
        "7": ["how do i sort a list ?", "it depends"],
    }
    assert [t.text for t in texts.test] == ["thanks"]
    few = stackoverflow(directory=tmp_path, most_clients=None, most_texts=1)
    assert [t.text for t in few.clients["7"]] == ["how do i sort a list ?"]


def test_femnist_of_tensorflow_federated(tmp_path: Path) -> None:
    pixels = (IMAGES[0].ravel() / 255).astype(np.float32)
    drawn = example(label=whole(11), pixels=floats(pixels.tolist()))
    put_database(
        tmp_path / "femnist" / "emnist_all.sqlite",
        [("train", "f0000_14", drawn), ("test", "f0000_14", drawn)],
    )
    images = femnist(directory=tmp_path)
    np.testing.assert_array_equal(images.train, IMAGES[:1])
    assert images.train_labels.tolist() == [11]
    assert images.train_clients == images.test_clients == ("f0000_14",)


def test_damaged_databases(tmp_path: Path) -> None:
    place = tmp_path / "stackoverflow"
    place.mkdir()
    (place / "stackoverflow.sqlite").write_bytes(b"no database at all, but long enough to be one")
    with pytest.raises(IntegrityError, match="not a database of clients"):
        stackoverflow(directory=tmp_path)
    (place / "stackoverflow.sqlite").unlink()
    (place / "stackoverflow.sqlite.lzma").write_bytes(b"xx")
    with pytest.raises(IntegrityError, match="damaged"):
        stackoverflow(directory=tmp_path)
    (place / "stackoverflow.sqlite.lzma").unlink()
    put_database(place / "stackoverflow.sqlite", [("train", "1", SAID[0][2][:-4])])
    with pytest.raises(IntegrityError, match="an example of 1 is damaged"):
        stackoverflow(directory=tmp_path)


def test_examples_of_all_kinds() -> None:
    message = example(a=text("é"), b=whole(-1), c=floats([0.5, 2.0]), d=b"")
    assert parse_example(message) == {
        "a": ["é".encode()],
        "b": [-1],
        "c": [0.5, 2.0],
        "d": [],
    }
    unpacked = field(3, varint(1 << 3) + varint(2**64 - 5) + varint(1 << 3) + varint(6))
    assert parse_example(example(e=unpacked)) == {"e": [-5, 6]}
    assert parse_example(b"") == {}
    for broken in (b"\x0a\x05a", b"\x80" * 11, b"\x0f"):
        with pytest.raises((ValueError, IndexError)):
            parse_example(broken)
