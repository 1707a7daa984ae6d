"""Checks of the settings that MiniRocket and Hydra share."""

from __future__ import annotations

import numpy as np

WIDEST_RANGE = 2.0**16


def checked_settings(features: int, seed: int, length: int | None, input_range: float) -> None:
    """Raise ValueError for settings that no random convolutions can have.

    >>> checked_settings(504, 0, None, 64.0)
    """
    if not isinstance(features, int) or features < 1:
        raise ValueError(f"features is {features!r}; give a whole number from 1 on")
    if not isinstance(seed, int) or not 0 <= seed < 2**64:
        raise ValueError(f"seed is {seed!r}; give a whole number from 0 to 2^64 - 1")
    if length is not None and (not isinstance(length, int) or length < 1):
        raise ValueError(
            f"length is {length!r}; give a number of steps from 1 on, or None to follow each "
            "recording"
        )
    if not 1 <= input_range <= WIDEST_RANGE or np.frexp(input_range)[0] != 0.5:
        raise ValueError(
            f"input_range is {input_range!r}; give a power of two from 1 to {WIDEST_RANGE:.0f}"
        )
