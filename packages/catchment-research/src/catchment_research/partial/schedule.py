"""How a learning rate goes from round to round."""

from __future__ import annotations

import math
from dataclasses import dataclass

from catchment.arrays import Factor, NonNegativeInt, PositiveInt, check_fields


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A factor on the learning rate: a rise, then steps down or half a cosine, or none of it.

    Parameters
    ----------
    warmup
        Rounds over which the factor rises to one in equal steps.
    decay
        What is kept of the factor every `every` rounds.
    cosine
        Rounds over which the factor falls to zero along half a cosine, if given; a plan of this
        many rounds ends close to zero.

    >>> [Schedule(decay=0.5, every=2).factor(k) for k in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    >>> [round(Schedule(warmup=2, cosine=4).factor(k), 3) for k in range(4)]
    [0.5, 0.854, 0.5, 0.146]
    """

    warmup: NonNegativeInt = 0
    decay: Factor = 1.0
    every: PositiveInt = 1
    cosine: PositiveInt | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def factor(self, round_: int) -> float:
        """Return the factor of a round, counted from 0."""
        rise = min(1.0, (round_ + 1) / self.warmup) if self.warmup else 1.0
        fall = self.decay ** (round_ // self.every)
        if self.cosine is not None:
            fall *= 0.5 * (1 + math.cos(math.pi * min(round_ / self.cosine, 1.0)))
        return rise * fall
