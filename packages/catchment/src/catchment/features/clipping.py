"""A warning where many inputs lie beyond what a map takes."""

from __future__ import annotations

import warnings

import numpy as np

from catchment.arrays import Array
from catchment.errors import ClippingWarning

MANY_CLIPPED = 0.01  # share of values beyond the range that is worth a warning


def warn_of_clipping(u: Array, largest: float) -> None:
    """Warn if many of the inputs (T, I) of a recording are cut off at this absolute value.

    >>> warn_of_clipping(np.zeros((5, 1)), 8.0)
    """
    share = np.count_nonzero(np.abs(u) > largest) / max(1, u.size)
    if share > MANY_CLIPPED:
        warnings.warn(
            f"{share:.2%} of the input values lie beyond {largest:g} and were cut off there; scale "
            "the inputs to a standard deviation of 1",
            ClippingWarning,
            stacklevel=3,
        )
