"""What the papers print, in per cent, for the table beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SHARES = (0.25, 0.5, 0.75, 1.0)
Figures = dict[str, dict[str, tuple[float, ...]]]

INCFED_TEST: Figures = {
    "wesad": {
        "random": (24.59, 25.45, 24.32, 24.99),
        "centralized": (65.96, 74.89, 76.56, 77.92),
        "incfed": (65.96, 74.89, 76.56, 77.92),
        "fedavg": (63.42, 71.75, 74.69, 75.81),
    },
    "hhar": {
        "random": (15.77, 17.13, 17.54, 16.99),
        "centralized": (55.96, 70.28, 75.69, 80.19),
        "incfed": (55.96, 70.28, 75.69, 80.19),
        "fedavg": (60.38, 66.99, 74.86, 74.84),
    },
}
INCFED_TRAIN: Figures = {
    "wesad": {
        "random": (25.30, 25.27, 25.09, 24.91),
        "centralized": (93.14, 87.51, 84.45, 83.78),
        "incfed": (93.14, 87.51, 84.45, 83.78),
        "fedavg": (81.55, 77.63, 76.77, 76.57),
    },
    "hhar": {
        "random": (16.65, 16.82, 16.53, 16.75),
        "centralized": (92.73, 93.60, 93.84, 93.64),
        "incfed": (92.73, 93.60, 93.84, 93.64),
        "fedavg": (99.17, 81.57, 78.52, 70.18),
    },
}
FEDIP_TEST: Figures = {
    "wesad": {
        "incfed": (75.24, 73.04, 75.64, 75.42),
        "fedip": (75.45, 75.92, 81.15, 80.42),
    },
    "hhar": {
        "incfed": (75.50, 77.06, 80.67, 81.47),
        "fedip": (80.72, 82.24, 79.50, 82.09),
    },
}


@dataclass(frozen=True)
class PrintedSelection:
    """A column of Tables III and IV: hyper-parameters, and accuracies in per cent."""

    units: int
    spectral_radius: float
    leak_rate: float
    input_scaling: float
    input_connectivity: int
    recurrent_connectivity: int
    train: float
    validation: float


INCFED_INPUTS = {"wesad": 8, "hhar": 32}
INCFED_SELECTED: dict[str, dict[str, PrintedSelection]] = {
    "wesad": {
        "incfed": PrintedSelection(100, 0.99, 1, 1, 5, 50, 85.08, 83.63),
        "fedavg": PrintedSelection(100, 0.9, 1, 0.1, 50, 1, 75.5, 84.03),
    },
    "hhar": {
        "incfed": PrintedSelection(500, 0.4, 1, 1, 50, 60, 94.53, 79.99),
        "fedavg": PrintedSelection(500, 0.8, 1, 0.5, 20, 20, 82.17, 75.74),
    },
}


def printed(
    study: str, name: str, method: str, share: float, what: Literal["test", "train"] = "test"
) -> float | None:
    """Return the paper's accuracy in per cent, or None if it has none.

    >>> printed("fedip", "wesad", "fedip-mean", 1.0)
    80.42
    >>> printed("incfed", "hhar", "fedavg-uniform", 0.25)
    60.38
    >>> printed("incfed", "wesad", "incfed", 0.25, "train")
    93.14
    """
    tables = {
        ("incfed", "test"): INCFED_TEST,
        ("incfed", "train"): INCFED_TRAIN,
        ("fedip", "test"): FEDIP_TEST,
    }.get((study, what), {})
    row = tables.get(name, {}).get(method.split("-")[0])
    if row is None or share not in SHARES:
        return None
    return row[SHARES.index(share)]
