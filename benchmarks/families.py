"""Whom the README's figures are compared with: every row of a results file has a family.

A sentence or a table quotes the best row of each family of opponents, so that nobody has to be
told which of several baselines was the strong one. A row without a family is an error: whoever
adds a baseline says where it belongs, and the tables follow.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reproductions.anomaly_values import figures, load_anomaly
from reproductions.forecast_study import of as forecasts_of
from reproductions.forecast_study import root_mean
from reproductions.forecast_weather import ALONE as REGION_ALONE
from reproductions.forecast_weather import NAIVE
from reproductions.life import AGE, ALONE, CONTENDERS, MAIN, MEAN, POOLED, load_life, rmse
from reproductions.life_data import CAP
from reproductions.map_methods import MAJORITY, METHODS
from reproductions.map_values import MapsResult

FEDAVG, POOLED_DATA, FREQUENT = "network by FedAvg", "pooled", "most frequent class"
LOCAL, NO_DETECTOR = "trained locally", "no detector"
OURS, NO_SENSORS, NO_MODEL, LINEAR = "ours", "no sensors", "no model", "linear"


@dataclass(frozen=True)
class Best:
    """The best row of a family."""

    row: str
    value: float


def best_of(
    rows: Mapping[str, float], family: Callable[[str], str], *, higher: bool
) -> dict[str, Best]:
    """Return the best row of every family but our own.

    >>> found = best_of({"a 1": 0.5, "a 2": 0.7, "b": 0.1}, lambda row: row[0], higher=True)
    >>> found["a"].row, found["b"].value
    ('a 2', 0.1)
    """
    found: dict[str, Best] = {}
    for row, value in rows.items():
        name = family(row)
        if name == OURS:
            continue
        before = found.get(name)
        if before is None or (value > before.value if higher else value < before.value):
            found[name] = Best(row, value)
    return found


def activity_family(method: str) -> str:
    """Return the family of a method of `maps`.

    >>> activity_family("CNN by FedAvg"), activity_family("QUANT of aeon, pooled")
    ('network by FedAvg', 'pooled')
    """
    if "pooled" in method:
        return POOLED_DATA
    if method.endswith("by FedAvg"):
        return FEDAVG
    if method == MAJORITY:
        return FREQUENT
    if method in METHODS:
        return OURS
    raise _no_family(method)


def activity(result: MapsResult, name: str) -> dict[str, Best]:
    """Return the opponents on a set of people, by accuracy."""
    rows = {row.method: row.accuracy for row in result.rows(name)}
    return best_of(rows, activity_family, higher=True)


def skab_family(row: str) -> str:
    """Return the family of a learner's row of `anomaly`."""
    learner = row.rpartition(", ")[2]
    known = {"local": LOCAL, "federated": OURS, "left out": OURS, "personal": OURS}
    if learner in known:
        return known[learner]
    if learner == "-":
        return NO_DETECTOR
    raise _no_family(row)


def skab(path: Path) -> dict[str, Best]:
    """Return the opponents on SKAB, by F1."""
    result = load_anomaly(path)
    keys = dict.fromkeys((c.family, c.learner) for c in result.cells if c.data == "skab")
    rows = {f"{one}, {who}": figures(result.of("skab", one, who)).f1 for one, who in keys}
    return best_of(rows, skab_family, higher=True)


LINEAR_ROWS = ("single rows, linear", "single rows, products of two", "lags, linear")


def life_family(row: str) -> str:
    """Return the family of a contender of `life`."""
    if row in (MEAN, AGE):
        return NO_SENSORS
    if row in LINEAR_ROWS:
        return LINEAR
    if row in POOLED:
        return POOLED_DATA
    if row == ALONE:
        return LOCAL
    if row in CONTENDERS or row == MAIN:
        return OURS
    raise _no_family(row)


def life(path: Path) -> dict[str, Best]:
    """Return the opponents on engines, by the error."""
    result = load_life(path)
    true = np.minimum(result.cycles_left, CAP)
    rows = {
        name: float(np.mean([rmse(cell.predicted, true) for cell in result.of(name)]))
        for name in dict.fromkeys(cell.contender for cell in result.cells)
    }
    return best_of(rows, life_family, higher=False)


WEATHER = {
    **dict.fromkeys(NAIVE, NO_MODEL),
    "each region alone": LOCAL,
    REGION_ALONE: LOCAL,
    "gradient boosting, pooled": POOLED_DATA,
    "lags of the temperature": OURS,
    "+ calendar": OURS,
    "+ other channels": OURS,
    "+ reservoir": OURS,
    "+ personal readouts": OURS,
}


def weather_family(row: str) -> str:
    """Return the family of a contender of the weather."""
    if row not in WEATHER:
        raise _no_family(row)
    return WEATHER[row]


def weather(path: Path, hours: int = 6) -> dict[str, Best]:
    """Return the opponents on the weather of 15 regions, by the error some hours ahead."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    names = dict.fromkeys(cell["contender"] for cell in cells if cell["task"] == "weather")
    rows = {name: root_mean(forecasts_of(cells, "weather", name), hours)[0] for name in names}
    return best_of(rows, weather_family, higher=False)


def _no_family(row: str) -> ValueError:
    return ValueError(f"{row!r} belongs to no family; name one for it in benchmarks/families.py")
