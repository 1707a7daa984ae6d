"""Independent draws from a generator, where a search would ask a trial of optuna."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Random:
    """What draws settings from a `Space`, by the methods of a trial.

    >>> Random(np.random.default_rng(0)).suggest_categorical("units", (100, 200)) in (100, 200)
    True
    """

    rng: np.random.Generator

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        if log:
            return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))
        return float(self.rng.uniform(low, high))

    def suggest_int(self, name: str, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def suggest_categorical(self, name: str, choices: Sequence[int]) -> int:
        return choices[int(self.rng.integers(len(choices)))]
