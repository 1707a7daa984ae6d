"""How well a model that was rounded for a device agrees with the one that was trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from catchment.data import Recording
from catchment.readout import Model


@dataclass(frozen=True)
class Agreement:
    """Of `rows` rows: the share with the same class, and the largest difference of a score.

    >>> Agreement(200, 0.995, 0.01, "recordings made up").text()
    'on 200 rows of recordings made up 99.5 % have the same class; scores differ by at most 0.01'
    """

    rows: int
    same: float | None  # None where outputs are numbers
    difference: float
    data: str

    @classmethod
    def between(
        cls, trained: Model, exported: Model, recordings: Sequence[Recording], data: str
    ) -> Agreement:
        """Return the agreement of two models on raw recordings."""
        first, second = (
            np.concatenate(one.outputs(list(recordings))) for one in (trained, exported)
        )
        same = None
        if trained.classes is not None:
            same = float((first.argmax(axis=1) == second.argmax(axis=1)).mean())
        return cls(len(first), same, float(np.abs(first - second).max(initial=0.0)), data)

    def text(self) -> str:
        """Return it for people."""
        classes = "" if self.same is None else f" {100 * self.same:.1f} % have the same class;"
        scores = f"scores differ by at most {self.difference:.2g}"
        return f"on {self.rows:,} rows of {self.data}{classes} {scores}"
