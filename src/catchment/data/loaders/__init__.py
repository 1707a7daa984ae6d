"""Public data sets by name, in our compact form or as their publishers distribute them.

`load`, `load_images` and `load_texts` check the compact files' SHA-256 first. The functions of
each set, such as `catchment.data.loaders.hhar.hhar`, have its own options.
"""

from __future__ import annotations

from pathlib import Path

from reproductions.data.federated import emnist, femnist, stackoverflow
from reproductions.data.images import cifar10, fashion_mnist, mnist_writers
from reproductions.data.text import shakespeare, sotu, sst2

from catchment.data.loaders.har import uci_har
from catchment.data.loaders.hhar import hhar
from catchment.data.loaders.motion import motionsense, wisdm_watch
from catchment.data.loaders.series import santafe_laser, sunspots
from catchment.data.loaders.speech import fsdd, japanese_vowels
from catchment.data.loaders.values import Dataset, Images, Text, Texts, Window
from catchment.data.loaders.wesad import wesad
from catchment.data.sources import locate, source, verify

__all__ = [
    "Dataset",
    "Images",
    "Text",
    "Texts",
    "Window",
    "cifar10",
    "emnist",
    "fashion_mnist",
    "femnist",
    "fsdd",
    "hhar",
    "japanese_vowels",
    "load",
    "load_images",
    "load_texts",
    "mnist_writers",
    "motionsense",
    "santafe_laser",
    "shakespeare",
    "sotu",
    "sst2",
    "stackoverflow",
    "sunspots",
    "uci_har",
    "wesad",
    "wisdm_watch",
]

_CUT = {
    "uci_har": uci_har,
    "motionsense": motionsense,
    "wisdm_watch": wisdm_watch,
    "hhar": hhar,
    "wesad": wesad,
}
_UNCUT = {
    "japanese_vowels": japanese_vowels,
    "fsdd": fsdd,
    "santafe_laser": santafe_laser,
    "sunspots": sunspots,
}
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


def load(
    name: str,
    *,
    directory: Path | str | None = None,
    window: Window = "usual",
    step: int | None = None,
) -> Dataset:
    """Return a data set of sequences by its name.

    Parameters
    ----------
    name
        uci_har, motionsense, wisdm_watch, hhar, wesad, japanese_vowels, fsdd, santafe_laser or
        sunspots.
    directory
        Data directory; the usual ones if not given.
    window
        Steps per sequence; `usual` is each set's own habit, `whole` keeps recordings uncut.
    step
        Steps from one window to the next; the window's length if not given.

    >>> load("mnist_writers")
    Traceback (most recent call last):
    ValueError: mnist_writers holds images; use load_images
    """
    _prepare(name, "sequences", directory)
    if name in _CUT:
        return _CUT[name](directory=directory, window=window, step=step)
    if window != "usual" or step is not None:
        raise ValueError(f"{name} is not cut into windows; leave window and step out")
    return _UNCUT[name](directory=directory)


def load_images(name: str, *, directory: Path | str | None = None) -> Images:
    """Return a data set of images: mnist_writers, cifar10, fashion_mnist, emnist or femnist.

    >>> load_images("uci_har")
    Traceback (most recent call last):
    ValueError: uci_har holds sequences; use load
    """
    _prepare(name, "images", directory)
    return _IMAGES[name](directory=directory)


def load_texts(name: str, *, directory: Path | str | None = None) -> Texts:
    """Return a data set of texts by its name: sst2, shakespeare, sotu or stackoverflow.

    >>> load_texts("cifar10")
    Traceback (most recent call last):
    ValueError: cifar10 holds images; use load_images
    """
    _prepare(name, "texts", directory)
    return _TEXTS[name](directory=directory)


def _prepare(name: str, kind: str, directory: Path | str | None) -> None:
    entry = source(name)
    if entry.kind != kind:
        function = "load" if entry.kind == "sequences" else f"load_{entry.kind}"
        raise ValueError(f"{name} holds {entry.kind}; use {function}")
    verify(locate(name, directory=directory))
