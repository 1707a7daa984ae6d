"""What the papers print, in per cent, for the table beside ours."""

from __future__ import annotations

SHARES = (0.25, 0.5, 0.75, 1.0)

INCFED_TEST: dict[str, dict[str, tuple[float, ...]]] = {
    "wesad": {
        "random": (25.0, 25.0, 25.0, 25.0),
        "centralised": (65.96, 74.89, 76.56, 77.92),
        "incfed": (65.96, 74.89, 76.56, 77.92),
        "fedavg": (63.42, 71.75, 74.69, 75.81),
    },
    "hhar": {
        "random": (16.7, 16.7, 16.7, 16.7),
        "centralised": (55.96, 70.28, 75.69, 80.19),
        "incfed": (55.96, 70.28, 75.69, 80.19),
        "fedavg": (60.38, 66.99, 74.86, 74.84),
    },
}
FEDIP_TEST: dict[str, dict[str, tuple[float, ...]]] = {
    "wesad": {
        "incfed": (75.24, 73.04, 75.64, 75.42),
        "fedip": (75.45, 75.92, 81.15, 80.42),
    },
    "hhar": {
        "incfed": (75.50, 77.06, 80.67, 81.47),
        "fedip": (80.72, 82.24, 79.50, 82.09),
    },
}


def printed(study: str, name: str, method: str, share: float) -> float | None:
    """Return the paper's test accuracy in per cent, or None if it has none.

    >>> printed("fedip", "wesad", "fedip-mean", 1.0)
    80.42
    >>> printed("incfed", "hhar", "fedavg-uniform", 0.25)
    60.38
    """
    tables = {"incfed": INCFED_TEST, "fedip": FEDIP_TEST}.get(study, {})
    row = tables.get(name, {}).get(method.split("-")[0])
    if row is None or share not in SHARES:
        return None
    return row[SHARES.index(share)]
