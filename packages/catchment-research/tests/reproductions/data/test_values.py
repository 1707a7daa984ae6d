"""What readers of images and texts return."""

from __future__ import annotations

import numpy as np
import pytest

from reproductions.data.load import load_images, load_texts
from reproductions.data.values import Images


def test_images_need_a_label_each() -> None:
    dots, labels = np.zeros((3, 2, 2), np.uint8), np.zeros(2, np.uint8)
    with pytest.raises(ValueError, match="3 images and 2 labels"):
        Images(name="t", train=dots, train_labels=labels, test=dots, test_labels=labels, classes=())


def test_positions_of_clients_images() -> None:
    dots, labels = np.zeros((5, 2, 2), np.uint8), np.zeros(5, np.uint8)
    images = Images(
        name="toy",
        train=dots,
        train_labels=labels,
        test=dots,
        test_labels=labels,
        classes=("x",),
        train_clients=("b", "a", "b", "c", "a"),
    )
    assert {k: v.tolist() for k, v in images.positions.items()} == {
        "a": [1, 4],
        "b": [0, 2],
        "c": [3],
    }
    assert not images.train.flags.writeable


def test_a_set_of_another_kind_is_named() -> None:
    with pytest.raises(ValueError, match="sst2 holds texts; use load_texts"):
        load_images("sst2")
    with pytest.raises(ValueError, match="fsdd holds sequences; use load"):
        load_texts("fsdd")
