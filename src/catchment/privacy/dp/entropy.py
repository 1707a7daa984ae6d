"""Random words from the operating system; privacy noise has no other source and no seed."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray


def random_words(size: int) -> NDArray[np.uint64]:
    """Return independent uniform words (size,) of 64 bits; never the same twice.

    >>> bool((random_words(4) == random_words(4)).any())
    False
    """
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
