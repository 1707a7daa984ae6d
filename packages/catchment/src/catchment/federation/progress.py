"""How well clients did while they trained: their mean loss, and the share they got right.

A client means over its examples as its steps met them, and sends three numbers that add: its weight
w, w loss / 2^20 and w accuracy. A loss above 2^20 is sent as 2^20, so that none of the three is
ever larger than the weight, which travels anyway: where weights fit into a secure sum, these do.
A client that tells nothing sends zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

LARGEST_LOSS = 2.0**20


@dataclass(frozen=True)
class Progress:
    """Mean loss and share of right answers; None where they are not known."""

    loss: float | None = None
    accuracy: float | None = None

    def weighted(self, weight: float) -> tuple[float, float, float]:
        """Return what a client of this weight sends.

        >>> Progress(loss=2.0**19, accuracy=0.25).weighted(8.0)
        (8.0, 4.0, 2.0)
        """
        if self.loss is None:
            return 0.0, 0.0, 0.0
        loss = LARGEST_LOSS if math.isnan(self.loss) else min(max(self.loss, 0.0), LARGEST_LOSS)
        return weight, weight * loss / LARGEST_LOSS, weight * (self.accuracy or 0.0)

    @classmethod
    def mean(cls, telling: float, loss: float, right: float, *, scored: bool) -> Progress:
        """Return the mean of what clients sent, from the sums; nothing if none told any.

        Parameters
        ----------
        telling, loss, right
            Sums of what clients sent.
        scored
            Whether they know what they got right.

        >>> Progress.mean(8.0, 2.0**-17, 2.0, scored=True)
        Progress(loss=1.0, accuracy=0.25)
        """
        if not telling > 0:
            return cls()
        return cls(loss / telling * LARGEST_LOSS, right / telling if scored else None)

    @property
    def figures(self) -> dict[str, float]:
        """By name, what is known.

        >>> Progress(loss=0.5).figures
        {'training loss': 0.5}
        """
        named = {"training loss": self.loss, "training accuracy": self.accuracy}
        return {name: value for name, value in named.items() if value is not None}


UNKNOWN = Progress()
