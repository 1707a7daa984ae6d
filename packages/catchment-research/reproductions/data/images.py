"""MNIST with writers, CIFAR-10 and Fashion-MNIST, as bytes with labels.

The idx format begins with two zero bytes, a byte for the type, one for the number of dimensions,
and each dimension as a big-endian 32-bit number. CIFAR-10's binary version is rows of 3073 bytes:
the label, then the red, green and blue planes.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import IntegrityError
from catchment_lab.datasets import Folder, parse_numbers, require
from reproductions.data.arrays import read_arrays
from reproductions.data.catalogue import COMPACT
from reproductions.data.values import Bytes, Images
from reproductions.places import Place, locate

_IDX_TYPES = {0x08: ">u1", 0x0C: ">i4"}
_DIGITS = tuple(str(digit) for digit in range(10))
_CLOTHING = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
_OBJECTS = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
_CIFAR_ROW = 1 + 3 * 32 * 32


def mnist_writers(*, directory: Path | str | None = None) -> Images:
    """Return MNIST, (60000, 28, 28) and (10000, 28, 28), with the writer of each digit as client.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.

    >>> mnist_writers(directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: mnist_writers (70,000 digits, ...
    """
    place = locate("mnist_writers", directory=directory)
    if place.original is None:
        arrays = _compact(place, ("train_writer", "test_writer"))
        train, test = arrays["train_images"], arrays["test_images"]
        labels, writers = (
            [arrays[f"{part}_{key}"] for part in ("train", "test")] for key in ("labels", "writer")
        )
    else:
        train, rows_train = mnist_rows(place.original, "train-images", "train")
        test, rows_test = mnist_rows(place.original, "t10k-images", "test")
        both = (rows_train, rows_test)
        labels, writers = ([rows[:, 0].astype(np.uint8) for rows in both], [r[:, 2] for r in both])
    return Images(
        name="mnist_writers",
        train=train,
        train_labels=labels[0],
        test=test,
        test_labels=labels[1],
        classes=_DIGITS,
        train_clients=_writer_names(writers[0]),
        test_clients=_writer_names(writers[1]),
        notes=(f"{place.form} form; no writer is in both parts",),
    )


def fashion_mnist(*, directory: Path | str | None = None) -> Images:
    """Return Fashion-MNIST, 28 x 28 gray; the compact form is a part with a split of its own.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.

    >>> fashion_mnist(directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: fashion_mnist (clothing, 28 x 28 gray) ...
    """
    place = locate("fashion_mnist", directory=directory)
    if place.original is None:
        arrays = _compact(place)
        parts = [arrays[f"{part}_{key}"] for part in ("train", "test") for key in _KEYS]
        note = "compact form: the split is not the official one, do not compare accuracies"
    else:
        folder = place.original
        parts = [
            read_idx(folder, f"{part}-{what}?idx{n_dims}-ubyte*", n_dims)
            for part in ("train", "t10k")
            for what, n_dims in (("images", 3), ("labels", 1))
        ]
        note = "original form"
    return _images("fashion_mnist", parts, _CLOTHING, note)


def cifar10(*, directory: Path | str | None = None) -> Images:
    """Return CIFAR-10, (n, 32, 32, 3) color; the compact form is a part of it.

    Parameters
    ----------
    directory
        Data directory; the usual ones if not given.

    >>> cifar10(directory="no/such/place")
    Traceback (most recent call last):
    catchment.errors.MissingDataError: cifar10 (color images, 32 x 32) ...
    """
    place = locate("cifar10", directory=directory)
    if place.original is None:
        arrays = _compact(place)
        parts = [arrays[f"{part}_{key}"] for part in ("train", "test") for key in _KEYS]
        note = "compact form: training batch 1 and the first 2,000 test images"
    else:
        batches = require(place.original, "data_batch_*.bin")
        parts = [
            *_cifar_rows(place.original, batches),
            *_cifar_rows(place.original, require(place.original, "test_batch.bin")),
        ]
        note = f"original form, {len(batches)} training batches"
    return _images("cifar10", parts, _OBJECTS, note)


_KEYS = ("images", "labels")


def _compact(place: Place, more: tuple[str, ...] = ()) -> dict[str, NDArray[Any]]:
    keys = tuple(f"{part}_{key}" for part in ("train", "test") for key in _KEYS)
    return dict(
        read_arrays(place.directory / COMPACT[place.source.name].files[0][0], (*keys, *more))
    )


def _images(name: str, parts: list[Bytes], classes: tuple[str, ...], note: str) -> Images:
    train, train_labels, test, test_labels = parts
    for images, labels in ((train, train_labels), (test, test_labels)):
        if len(images) != len(labels) or (labels >= len(classes)).any():
            raise IntegrityError(
                f"{name} has {len(images)} images and {len(labels)} labels up to "
                f"{labels.max(initial=0)}; get a fresh copy"
            )
    return Images(
        name=name,
        train=train,
        train_labels=train_labels,
        test=test,
        test_labels=test_labels,
        classes=classes,
        notes=(note,),
    )


def _writer_names(writers: NDArray[Any]) -> tuple[str, ...]:
    return tuple(f"writer-{writer:04d}" for writer in writers.tolist())


def mnist_rows(folder: Folder, images: str, part: str) -> tuple[Bytes, NDArray[np.int64]]:
    """Return images, and rows of label, series and writer; QMNIST's test part goes on past MNIST's.

    Parameters
    ----------
    images
        How the name of the file of images begins.
    part
        train or test.
    """
    pictures = read_idx(folder, f"{images}?idx3-ubyte*", 3)
    (name, *_) = require(folder, f"qmnist-{part}-labels*")
    if ".tsv" in name:
        rows = _tab_separated(folder, name)
    else:
        rows = read_idx(folder, f"qmnist-{part}-labels?idx2-int*", 2).astype(np.int64)
    if len(rows) < len(pictures) or rows.shape[1] < 3:
        raise IntegrityError(
            f"{folder}/{name} has shape {rows.shape} for {len(pictures)} images; get a fresh copy"
        )
    return pictures, rows[: len(pictures)]


def _tab_separated(folder: Folder, name: str) -> NDArray[np.int64]:
    with folder.open(name) as stream:
        lines = stream.read().splitlines()
    header = 0 if lines and lines[0][:1].isdigit() else 1
    rows = parse_numbers(lines[header:], f"{folder}/{name}", delimiter="\t", columns=(0, 1, 2))
    return rows.astype(np.int64)


def read_idx(folder: Folder, pattern: str, n_dims: int) -> NDArray[Any]:
    """Return the array in an idx file, as bytes or 32-bit numbers in this machine's order."""
    (name, *_) = require(folder, pattern)
    raw = folder.read(name)
    what = f"{folder}/{name}"
    if len(raw) < 4 + 4 * n_dims or raw[:2] != b"\0\0" or raw[3] != n_dims:
        raise IntegrityError(f"{what} is not an idx file of {n_dims} dimensions; get a fresh copy")
    if raw[2] not in _IDX_TYPES:
        raise IntegrityError(f"{what} holds numbers of unknown type {raw[2]}; get a fresh copy")
    shape = struct.unpack_from(f">{n_dims}I", raw, 4)
    dtype = np.dtype(_IDX_TYPES[raw[2]])
    body = raw[4 + 4 * n_dims :]
    if len(body) != int(np.prod(shape, dtype=object)) * dtype.itemsize:
        raise IntegrityError(f"{what} has {len(body)} bytes for shape {shape}; get a fresh copy")
    return np.frombuffer(body, dtype=dtype).astype(dtype.newbyteorder("=")).reshape(shape)


def _cifar_rows(folder: Folder, names: tuple[str, ...]) -> tuple[Bytes, Bytes]:
    batches = []
    for name in names:
        raw = np.frombuffer(folder.read(name), dtype=np.uint8)
        if raw.size == 0 or raw.size % _CIFAR_ROW:
            raise IntegrityError(
                f"{folder}/{name} has {raw.size} bytes, not rows of {_CIFAR_ROW}; "
                f"take the binary version of CIFAR-10"
            )
        batches.append(raw.reshape(-1, _CIFAR_ROW))
    rows = np.concatenate(batches)
    images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), rows[:, 0].copy()
