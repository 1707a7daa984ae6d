"""Changes that training made, summed, and how well clients did while they trained.

Of training `TrainedSum` also tells how well clients did: a client means over its examples as its
steps met them, and sends three numbers that add: its weight w, w loss / 2^20 and w accuracy. A loss
above 2^20 is sent as 2^20, so that none of the three is ever larger than the weight, which travels
anyway: where weights fit into secure aggregation, these do. A client that tells nothing sends
zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

from catchment.federation import WeightedSum
from catchment.wire import NOT_NEGATIVE, REMARK, Kind

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


@dataclass(frozen=True, eq=False)
class TrainedSum(WeightedSum):
    """A weighted sum of what training moved, with how well the clients did while they trained.

    >>> import numpy as np
    >>> a, b = (TrainedSum.of((np.zeros(1),), n).told(Progress(n)) for n in (1.0, 3.0))
    >>> (a + b).progress(scored=False)
    Progress(loss=2.5, accuracy=None)
    """

    KIND: ClassVar[Kind] = Kind(
        "trained-sum",
        "how far the parameters moved that the client trained on its own data, multiplied by their "
        "weight, the weight, and the mean loss of these steps (of classes also the share right)",
        (
            "how many rows the client has, if it is weighed by them",
            "which classes the client has: the parameters of a class it never saw show it",
            "the gradient of this one client's data, against which recordings can be tested",
            "how well the shared model fits this one client's data",
        ),
    )

    telling: Annotated[float, NOT_NEGATIVE, REMARK] = 0.0
    loss: Annotated[float, NOT_NEGATIVE, REMARK] = 0.0
    right: Annotated[float, NOT_NEGATIVE, REMARK] = 0.0

    def told(self, progress: Progress) -> Self:
        """Return the sum with one client's progress in it."""
        telling, loss, right = progress.weighted(self.weight)
        return replace(self, telling=telling, loss=loss, right=right)

    def progress(self, *, scored: bool) -> Progress:
        """Return the mean over those who told theirs, as they weigh."""
        return Progress.mean(self.telling, self.loss, self.right, scored=scored)
