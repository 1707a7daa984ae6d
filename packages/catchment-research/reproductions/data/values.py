"""What readers of images and texts return."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False, kw_only=True)
class Images:
    """Images (n, height, width) gray or (n, height, width, 3) color, bytes, with their labels.

    `train_clients` and `test_clients` name the client of each image; they are empty where there
    are no natural clients.

    >>> dot = np.zeros((2, 3, 3), dtype=np.uint8)
    >>> label = np.array([0, 1], dtype=np.uint8)
    >>> images = Images(name="toy", train=dot, train_labels=label, test=dot[:1],
    ...                 test_labels=label[:1], classes=("no", "yes"), train_clients=("a", "b"))
    >>> images.positions["b"]
    array([1])
    """

    name: str
    train: Bytes
    train_labels: Bytes
    test: Bytes
    test_labels: Bytes
    classes: tuple[str, ...]
    train_clients: tuple[str, ...] = ()
    test_clients: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for images, labels in ((self.train, self.train_labels), (self.test, self.test_labels)):
            if len(images) != len(labels):
                raise ValueError(
                    f"{self.name} has {len(images)} images and {len(labels)} labels; "
                    f"pass one label for each image"
                )
            images.flags.writeable = labels.flags.writeable = False

    @property
    def positions(self) -> dict[str, NDArray[np.int64]]:
        """Client name to the positions of its training images."""
        if not self.train_clients:
            return {}
        names, member = np.unique(np.array(self.train_clients), return_inverse=True)
        order = np.argsort(member, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(member))[:-1])
        return {str(name): part for name, part in zip(names, parts, strict=True)}


@dataclass(frozen=True)
class Text:
    """One text, with its author or its class where there is one."""

    text: str
    client: str | None = None
    label: int | None = None


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Texts for training and, where the publisher names them, for development and test.

    >>> texts = Texts(name="toy", train=(Text("to be", client="HAMLET"),))
    >>> texts.clients["HAMLET"][0].text
    'to be'
    """

    name: str
    train: tuple[Text, ...]
    test: tuple[Text, ...] = ()
    development: tuple[Text, ...] = ()
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def clients(self) -> dict[str, list[Text]]:
        """Client name to its training texts, in order of appearance."""
        clients: dict[str, list[Text]] = {}
        for text in self.train:
            if text.client is not None:
                clients.setdefault(text.client, []).append(text)
        return clients
