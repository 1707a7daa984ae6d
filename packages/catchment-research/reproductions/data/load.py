"""Sets of images and texts by name."""

from __future__ import annotations

from pathlib import Path

from catchment_lab.datasets import check_name
from reproductions.data.catalogue import IMAGES, SOURCES, TEXTS
from reproductions.data.federated import emnist, femnist, stackoverflow
from reproductions.data.images import cifar10, fashion_mnist, mnist_writers
from reproductions.data.text import shakespeare, sotu, sst2
from reproductions.data.values import Images, Texts

_IMAGES = {
    "mnist_writers": mnist_writers,
    "cifar10": cifar10,
    "fashion_mnist": fashion_mnist,
    "emnist": emnist,
    "femnist": femnist,
}
_TEXTS = {
    "sst2": sst2,
    "shakespeare": shakespeare,
    "sotu": sotu,
    "stackoverflow": stackoverflow,
}


def load_images(name: str, *, directory: Path | str | None = None) -> Images:
    """Return a data set of images: mnist_writers, cifar10, fashion_mnist, emnist or femnist.

    >>> load_images("sst2")
    Traceback (most recent call last):
    ValueError: sst2 holds texts; use load_texts
    """
    _check_kind(name, "images")
    return _IMAGES[name](directory=directory)


def load_texts(name: str, *, directory: Path | str | None = None) -> Texts:
    """Return a data set of texts by its name: sst2, shakespeare, sotu or stackoverflow.

    >>> load_texts("cifar10")
    Traceback (most recent call last):
    ValueError: cifar10 holds images; use load_images
    """
    _check_kind(name, "texts")
    return _TEXTS[name](directory=directory)


def kind_of(name: str) -> str:
    """Return what a data set holds: sequences, images or texts.

    >>> kind_of("uci_har"), kind_of("sotu")
    ('sequences', 'texts')
    """
    check_name(name, SOURCES)
    return "images" if name in IMAGES else "texts" if name in TEXTS else "sequences"


def _check_kind(name: str, kind: str) -> None:
    if (found := kind_of(name)) != kind:
        function = "load" if found == "sequences" else f"load_{found}"
        raise ValueError(f"{name} holds {found}; use {function}")
