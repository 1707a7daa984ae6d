"""How much one client may claim in a round, and how many clients must be usable."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a round takes from one client, and with how many clients refused it still ends well.

    Parameters
    ----------
    min_usable
        Least share of the clients asked whose answers must be usable: with half of them refused
        something is wrong with the plan or with them, and a model of the rest would hide it.
    max_rows
        Most rows, or examples, that one client may claim to have in a round.
    max_weight
        Most weight per row: 1 unless recordings have weights of their own above that.
    over_median
        How many times the median of the round's clients one of them may claim; whoever claims more
        is refused and named. At 10 a client is below half of the weight of a round of twelve or
        more clients of like size; raise it where honest clients differ by more. Fewer than five
        clients are not compared.

    >>> Limits(min_usable=0.9).fewest(30)
    27
    >>> Limits(over_median=0.5)
    Traceback (most recent call last):
    ValueError: over_median is 0.5; pass 1 or more, such as 1e9 for no limit
    """

    min_usable: float = 0.5
    max_rows: int = 10**8
    max_weight: float = 1.0
    over_median: float = 10.0

    def __post_init__(self) -> None:
        if not 0 <= self.min_usable <= 1:
            raise ValueError(f"min_usable is {self.min_usable}; pass a share from 0 to 1")
        if self.max_rows < 1:
            raise ValueError(f"max_rows is {self.max_rows}; pass 1 or more")
        if not 0 < self.max_weight < np.inf:
            raise ValueError(f"max_weight is {self.max_weight}; pass a finite number above 0")
        if not 1 <= self.over_median < np.inf:
            raise ValueError(
                f"over_median is {self.over_median}; pass 1 or more, such as 1e9 for no limit"
            )

    def fewest(self, n_asked: int) -> int:
        """Return how many of so many clients must be usable."""
        # A product such as 0.1 * 30 is a little more than the whole number that is meant.
        return math.ceil(self.min_usable * n_asked - 1e-9)


LIMITS = Limits()
