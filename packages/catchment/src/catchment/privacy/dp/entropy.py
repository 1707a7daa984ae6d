"""Random words for privacy noise: from the operating system, or from a secret key.

Nothing else makes them, and there is no seed. A client whose noise must be the same when it is
asked for the same upload again draws it from a key that only its own ledger has
(`catchment.privacy.releases`), as the output of SHAKE-256: without the key it cannot be told from
the operating system's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import final

import numpy as np
from numpy.typing import NDArray

Words = Callable[[int], NDArray[np.uint64]]
KEY_BYTES = 32


def random_words(size: int) -> NDArray[np.uint64]:
    """Return independent uniform words (size,) of 64 bits; never the same twice.

    >>> bool((random_words(4) == random_words(4)).any())
    False
    """
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


@final
class KeyedWords:
    """Words that follow from a secret key (32,), new ones at every call.

    >>> one, other = KeyedWords(bytes(32)), KeyedWords(bytes(32))
    >>> bool((one(4) == other(4)).all()), bool((one(4) == one(4)).any())
    (True, False)
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key has {len(key)} bytes; pass {KEY_BYTES} secret ones")
        self._key, self._n_calls = key, 0

    def __call__(self, size: int) -> NDArray[np.uint64]:
        self._n_calls += 1
        drawn = hashlib.shake_256(self._key + self._n_calls.to_bytes(8, "little"))
        # In one byte order, so that a memory that is moved to another machine repeats its noise.
        return np.frombuffer(drawn.digest(8 * size), dtype="<u8").astype(np.uint64)
