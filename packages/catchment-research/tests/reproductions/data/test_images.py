"""Images: tiny files as published, and the real compact forms."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from catchment.errors import IntegrityError
from reproductions.data.images import cifar10, fashion_mnist, mnist_writers
from reproductions.data.load import load_images
from reproductions.places import find

RNG = np.random.default_rng(0)


def idx(array: NDArray[Any]) -> bytes:
    code = {1: 0x08, 4: 0x0C}[array.dtype.itemsize]
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def pictures(n: int, *shape: int) -> NDArray[np.uint8]:
    return RNG.integers(0, 256, size=(n, *shape), dtype=np.uint8)


def put(root: Path, name: str, content: bytes) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return root / name


def extended(labels: list[int], writers: list[int]) -> NDArray[np.int32]:
    """QMNIST's eight columns: class, series, writer, and five that are not read."""
    rows = [
        [d, 4, w, 0, 30 + d, k, 0, 0] for k, (d, w) in enumerate(zip(labels, writers, strict=True))
    ]
    return np.array(rows, dtype=np.int32)


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("table", [False, True])
def test_mnist_with_writers(tmp_path: Path, ending: str, table: bool) -> None:
    root = tmp_path / "mnist_writers"
    train, test = pictures(4, 28, 28), pictures(2, 28, 28)
    put(root, f"train-images-idx3-ubyte{ending}", idx(train))
    put(root, f"t10k-images.idx3-ubyte{ending}", idx(test))
    # QMNIST has more test digits than MNIST; the first are MNIST's.
    labels = {
        "train": extended([5, 0, 4, 9], [2100, 7, 2100, 300]),
        "test": extended([1, 2, 3], [1, 2, 3]),
    }
    for part, rows in labels.items():
        if table:
            text = "\n".join("\t".join(map(str, row)) for row in rows.tolist())
            put(root, f"qmnist-{part}-labels.tsv{ending}", text.encode())
        else:
            put(root, f"qmnist-{part}-labels-idx2-int{ending}", idx(rows))
    images = load_images("mnist_writers", directory=tmp_path)
    np.testing.assert_array_equal(images.train, train)
    np.testing.assert_array_equal(images.test, test)
    assert images.train_labels.tolist() == [5, 0, 4, 9]
    assert images.test_labels.tolist() == [1, 2]
    assert images.train_clients == ("writer-2100", "writer-0007", "writer-2100", "writer-0300")
    assert images.positions["writer-2100"].tolist() == [0, 2]
    assert images.test_clients == ("writer-0001", "writer-0002")


def test_too_few_writers(tmp_path: Path) -> None:
    root = tmp_path / "mnist_writers"
    put(root, "train-images-idx3-ubyte", idx(pictures(4, 28, 28)))
    put(root, "qmnist-train-labels-idx2-int", idx(extended([1], [1])))
    with pytest.raises(IntegrityError, match=r"has shape \(1, 8\) for 4 images"):
        mnist_writers(directory=tmp_path)


def write_fashion(root: Path, n_train: int = 3) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    train, labels = pictures(n_train, 28, 28), np.array([9, 0, 3], dtype=np.uint8)
    put(root / "fashion_mnist", "train-images-idx3-ubyte.gz", idx(train))
    put(root / "fashion_mnist", "train-labels-idx1-ubyte.gz", idx(labels))
    put(root / "fashion_mnist", "t10k-images-idx3-ubyte.gz", idx(train[:1]))
    put(root / "fashion_mnist", "t10k-labels-idx1-ubyte.gz", idx(labels[:1]))
    return train, labels


def test_fashion_mnist(tmp_path: Path) -> None:
    train, labels = write_fashion(tmp_path)
    images = fashion_mnist(directory=tmp_path)
    np.testing.assert_array_equal(images.train, train)
    np.testing.assert_array_equal(images.train_labels, labels)
    assert images.classes[images.test_labels[0]] == "Ankle boot"
    assert images.positions == {}


def test_odd_idx_files(tmp_path: Path) -> None:
    write_fashion(tmp_path, n_train=2)
    with pytest.raises(IntegrityError, match="fashion_mnist has 2 images and 3 labels"):
        fashion_mnist(directory=tmp_path)
    root = tmp_path / "fashion_mnist"
    good = idx(pictures(3, 28, 28))
    for content, message in (
        (b"", "not an idx file of 3 dimensions"),
        (b"\1" + good[1:], "not an idx file of 3 dimensions"),
        (idx(np.zeros(3, dtype=np.uint8)), "not an idx file of 3 dimensions"),
        (good[:2] + b"\x0d" + good[3:], "unknown type 13"),
        (good[:-1], r"has 2351 bytes for shape \(3, 28, 28\)"),
        (good[:4] + b"\xff" * 12, "has 0 bytes for shape"),
    ):
        put(root, "train-images-idx3-ubyte.gz", content)
        with pytest.raises(IntegrityError, match=message):
            fashion_mnist(directory=tmp_path)
    (root / "train-images-idx3-ubyte.gz").write_bytes(b"not gzip")
    with pytest.raises(IntegrityError, match="is damaged"):
        fashion_mnist(directory=tmp_path)


def cifar_batch(images: NDArray[np.uint8], labels: list[int]) -> bytes:
    """The binary version: label, then red, green and blue planes, row by row."""
    return b"".join(
        bytes([label]) + b"".join(image[:, :, color].tobytes() for color in range(3))
        for image, label in zip(images, labels, strict=True)
    )


def test_cifar_in_its_binary_version(tmp_path: Path) -> None:
    images = pictures(5, 32, 32, 3)
    batches = {
        "data_batch_1.bin": cifar_batch(images[:2], [6, 9]),
        "data_batch_2.bin": cifar_batch(images[2:4], [0, 1]),
        "test_batch.bin": cifar_batch(images[4:], [3]),
    }
    (tmp_path / "cifar10").mkdir()
    with tarfile.open(tmp_path / "cifar10" / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name, content in batches.items():
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    from_tar = load_images("cifar10", directory=tmp_path)
    for name, content in batches.items():
        put(tmp_path / "cifar10" / "cifar-10-batches-bin", name, content)
    for loaded in (from_tar, cifar10(directory=tmp_path)):
        np.testing.assert_array_equal(loaded.train, images[:4])
        np.testing.assert_array_equal(loaded.test, images[4:])
        assert loaded.train_labels.tolist() == [6, 9, 0, 1]
        assert loaded.classes[loaded.test_labels[0]] == "cat"


def test_odd_cifar_files(tmp_path: Path) -> None:
    root = tmp_path / "cifar10"
    batch = cifar_batch(pictures(1, 32, 32, 3), [3])
    put(root, "data_batch_1.bin", batch)
    with pytest.raises(IntegrityError, match=r"has no test_batch\.bin"):
        cifar10(directory=tmp_path)
    for content in (b"", batch[:-1]):
        put(root, "test_batch.bin", content)
        with pytest.raises(IntegrityError, match="take the binary version"):
            cifar10(directory=tmp_path)
    put(root, "test_batch.bin", b"\x0a" + batch[1:])
    with pytest.raises(IntegrityError, match="labels up to 10"):
        cifar10(directory=tmp_path)


def has_compact(name: str) -> bool:
    place = find(name)
    return place is not None and place.form == "compact"


@pytest.mark.skipif(
    not has_compact("mnist_writers"), reason="no compact mnist_writers on this machine"
)
def test_real_mnist() -> None:
    images = load_images("mnist_writers")
    assert images.train.shape == (60_000, 28, 28)
    assert images.test.shape == (10_000, 28, 28)
    assert images.train_labels[:5].tolist() == [5, 0, 4, 1, 9]
    sizes = [len(part) for part in images.positions.values()]
    assert (len(sizes), min(sizes), max(sizes), sum(sizes)) == (539, 19, 131, 60_000)
    assert len(set(images.test_clients)) == 297
    assert not set(images.test_clients) & set(images.train_clients)


@pytest.mark.skipif(not has_compact("cifar10"), reason="no compact cifar10 on this machine")
def test_real_cifar() -> None:
    images = load_images("cifar10")
    assert images.train.shape == (10_000, 32, 32, 3)
    assert images.test.shape == (2_000, 32, 32, 3)
    assert [images.classes[k] for k in images.train_labels[:3]] == ["frog", "truck", "truck"]
    assert images.train[0, 0, 0].tolist() == [59, 62, 63]


@pytest.mark.skipif(
    not has_compact("fashion_mnist"), reason="no compact fashion_mnist on this machine"
)
def test_real_fashion() -> None:
    images = load_images("fashion_mnist")
    assert np.bincount(images.train_labels).tolist() == [2000] * 10
    assert np.bincount(images.test_labels).tolist() == [500] * 10
