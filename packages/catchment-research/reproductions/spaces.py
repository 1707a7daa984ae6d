"""The papers' ranges of hyper-parameters, and independent draws from them.

IncFed counts connections from 1 to 60 without saying of what: `reproductions.connectivity` has the
readings. FedIP's learning rate of .01 with targets of .005 to .15 diverges in most readings of
its algorithm; beside them `FEDIP_WESAD` and `FEDIP_HHAR` have wider targets, and rates that are
relative to target_std^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from catchment_lab.search import PlasticitySpace, Space

INCFED_WESAD = Space(units=(100, 250))
INCFED_HAR = Space(units=(100, 500))
FEDIP_WESAD = Space(
    units=(200, 300, 400),
    spectral_radius=(0.3, 0.99),
    input_scaling=(0.5, 1.0),
    leak_rate=(0.1, 0.8),
    connections=None,
    input_connections=None,
    plasticity=PlasticitySpace(),
)
FEDIP_HHAR = replace(FEDIP_WESAD, units=(100, 200, 300, 400, 500), leak_rate=(0.1, 0.5))
FEDIP_PAPER = PlasticitySpace(
    target_mean=(0.0, 0.0), target_std=(0.005, 0.15), learning_rate=0.01, epochs=(3, 5, 10)
)
# One update a batch is one where there would be hundreds: its rates are larger.
FEDIP_RELATIVE = (
    replace(FEDIP_PAPER, learning_rate=None),
    replace(FEDIP_PAPER, learning_rate=None, updates="batch", relative_rate=(0.02, 0.5)),
)


@dataclass(frozen=True, eq=False)
class Random:
    """What draws settings from a `Space`, by the methods of a trial of optuna.

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
