"""The images and texts of FedPT's experiments: how they are read, cut, dealt out and held out.

Where a set is not on this machine, synthetic data of the same shape stand in, to see that all
works.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from catchment_research.partial import Examples
from reproductions.data.load import load_images, load_texts
from reproductions.data.values import Images, Text


def image_set(name: str, directory: Path | None, *, synthetic: bool) -> Images:
    """Return a set of images, or synthetic ones of its shape."""
    if not synthetic:
        return load_images(name, directory=directory)
    shape = (32, 32, 3) if name == "cifar10" else (28, 28)
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 256, (10, *shape))
    labels = rng.integers(0, 10, 1200).astype(np.uint8)
    noise = rng.integers(0, 256, (1200, *shape))
    pixels = (0.5 * patterns[labels] + 0.5 * noise).astype(np.uint8)
    writers = tuple(f"writer-{k % 40:02d}" for k in range(1000))
    return Images(
        name="synthetic",
        train=pixels[:1000].copy(),
        train_labels=labels[:1000].copy(),
        test=pixels[1000:].copy(),
        test_labels=labels[1000:].copy(),
        classes=tuple(str(k) for k in range(10)),
        train_clients=writers,
    )


def held_out(images: Images, n: int) -> Images:
    """Return images with n of the training part, drawn at random, in place of the test part."""
    order = np.random.default_rng(0).permutation(len(images.train))
    kept, out = np.sort(order[n:]), np.sort(order[:n])
    return replace(
        images,
        train=images.train[kept],
        train_labels=images.train_labels[kept],
        test=images.train[out],
        test_labels=images.train_labels[out],
        train_clients=(),
        test_clients=(),
    )


@final
class Augmented:
    """A client's images, cut and mirrored anew whenever they are asked for.

    Which cut comes next depends on the seed and on `drawn`, the number of those before.
    """

    def __init__(
        self,
        pixels: NDArray[np.uint8],
        labels: NDArray[Any],
        *,
        seed: Sequence[int],
        side: int,
    ) -> None:
        self.pixels, self.labels = pixels, labels
        self.seed, self.side = seed, side
        self.drawn = 0

    def __call__(self) -> list[Examples]:
        rng = np.random.default_rng([*self.seed, self.drawn])
        self.drawn += 1
        n, room = len(self.pixels), self.pixels.shape[1] - self.side
        across = np.arange(self.side)[None, :]
        rows = rng.integers(0, room + 1, n)[:, None] + across
        columns = rng.integers(0, room + 1, n)[:, None] + across
        columns = np.where(rng.random(n)[:, None] < 0.5, columns, columns[:, ::-1])
        cut = self.pixels[np.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
        return [examples(cut, self.labels)]


def dirichlet_owners(
    labels: NDArray[Any], n_clients: int, *, alpha: float, seed: int
) -> NDArray[np.int64]:
    """Return the client (n,) of each example; a client's classes follow a Dirichlet draw.

    Clients get equally many examples, drawn by their class shares while the classes last.

    >>> owners = dirichlet_owners(np.arange(100) % 10, 5, alpha=1.0, seed=0)
    >>> np.bincount(owners)
    array([20, 20, 20, 20, 20])
    """
    rng = np.random.default_rng(seed)
    n_classes = int(labels.max()) + 1
    left = [list(rng.permutation(np.flatnonzero(labels == c))) for c in range(n_classes)]
    owners = np.empty(len(labels), dtype=np.int64)
    for k in range(n_clients):
        share = rng.dirichlet(np.full(n_classes, alpha))
        size = len(labels) * (k + 1) // n_clients - len(labels) * k // n_clients
        for _ in range(size):
            weights = share * [bool(pool) for pool in left]
            if weights.sum() == 0:
                weights = np.array([float(len(pool)) for pool in left])
            c = int(rng.choice(n_classes, p=weights / weights.sum()))
            owners[left[c].pop()] = k
    return owners


def examples(pixels: NDArray[np.uint8], labels: NDArray[Any]) -> Examples:
    """Return gray or color images as (n, channels, height, width) around zero."""
    x = pixels[:, None] if pixels.ndim == 3 else pixels.transpose(0, 3, 1, 2)
    scaled = (x / np.float32(255) - np.float32(0.5)) * np.float32(2)
    return Examples(np.ascontiguousarray(scaled), labels.astype(np.int64))


def text_set(name: str, directory: Path | None, *, synthetic: bool) -> dict[str, list[str]]:
    """Return texts by author, or synthetic ones: words that mostly follow a fixed order."""
    if not synthetic:
        return _by_author(load_texts(name, directory=directory).train)
    rng = np.random.default_rng(0)
    after = rng.permutation(400)
    texts = {}
    for k in range(12):
        word, said = int(rng.integers(400)), []
        for _ in range(600):
            word = int(after[word]) if rng.random() < 0.8 else int(rng.integers(400))
            said.append("w" + "".join(chr(97 + int(d)) for d in f"{word:03d}"))
        texts[f"author-{k:02d}"] = [" ".join(said)]
    return texts


def by_text(texts: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return texts by author and number, each by itself.

    >>> by_text({"ann": ["one", "two"]})
    {'ann 000': ['one'], 'ann 001': ['two']}
    """
    return {
        f"{author} {k:03d}": [text] for author, own in texts.items() for k, text in enumerate(own)
    }


def _by_author(texts: Iterable[Text]) -> dict[str, list[str]]:
    by: dict[str, list[str]] = {}
    for text in texts:
        if text.client is not None:
            by.setdefault(text.client, []).append(text.text)
    return by
