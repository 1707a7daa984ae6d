"""What the anomaly study leaves behind: a cell for each family, learner and seed on each set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from catchment import Array
from catchment.wire import replace_file
from reproductions.anomaly_scoring import f1, false_positive_rate, missed
from reproductions.intervals import DRAWS
from reproductions.study import environment


@dataclass(frozen=True, kw_only=True)
class AnomalyCell:
    """One family of rows by one learner with one seed, all clients of a set together.

    `rows` are counts (true positives, false positives, false negatives, true negatives) of each
    client's judged rows, with settings and threshold that other clients chose; `plain` with a rate
    of false alarms of one in a hundred instead of the rate that others chose. `figures` are NAB's.
    """

    data: str
    family: str
    learner: str
    seed: int
    auroc: dict[str, float]
    rows: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)
    plain: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    chosen: tuple[str, ...] = ()  # in each half
    columns: int = 0
    upload_bytes: int = 0  # of one client
    difference: float | None = None  # of federated scores from pooled ones, relative
    seconds: float = 0.0

    @property
    def mean_auroc(self) -> float:
        return float(np.mean(list(self.auroc.values())))


@dataclass(frozen=True)
class AnomalyResult:
    """All cells so far, and how they were run."""

    settings: dict[str, Any]
    cells: tuple[AnomalyCell, ...] = ()
    traces: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    quick: bool = False
    environment: dict[str, Any] = field(default_factory=environment)

    def of(self, data: str, family: str, learner: str) -> tuple[AnomalyCell, ...]:
        wanted = (data, family, learner)
        return tuple(c for c in self.cells if (c.data, c.family, c.learner) == wanted)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(asdict(self), indent=1) + "\n").encode())


def load_anomaly(path: Path) -> AnomalyResult:
    """Return a result that was saved."""
    content = json.loads(path.read_text(encoding="utf-8"))
    cells = []
    for cell in content.pop("cells"):
        for name in ("rows", "plain"):
            cell[name] = {client: tuple(counts) for client, counts in cell[name].items()}
        cells.append(AnomalyCell(**{**cell, "chosen": tuple(cell["chosen"])}))
    return AnomalyResult(**content, cells=tuple(cells))


@dataclass(frozen=True)
class Figures:
    """F1 with an interval over clients, and the shares of false and of missed alarms."""

    f1: float
    low: float
    high: float
    false_positive_rate: float
    missed: float


def figures(cells: Sequence[AnomalyCell], what: str = "rows") -> Figures:
    """Return the figures of counts summed over clients and seeds; clients are drawn with seeds."""
    table = counts(cells, what)
    total = table.sum(axis=(0, 1))
    low, high = np.quantile(f1(drawn(table)), [0.025, 0.975])
    return Figures(
        float(f1(total)),
        float(low),
        float(high),
        float(false_positive_rate(total)),
        float(missed(total)),
    )


def difference(ours: Sequence[AnomalyCell], theirs: Sequence[AnomalyCell]) -> Array:
    """Return the difference of F1, and 95 % of what it is over draws of the same clients."""
    a, b = counts(ours), counts(theirs)
    value = f1(a.sum(axis=(0, 1))) - f1(b.sum(axis=(0, 1)))
    low, high = np.quantile(f1(drawn(a)) - f1(drawn(b)), [0.025, 0.975])
    return np.array([value, low, high])


def counts(cells: Sequence[AnomalyCell], what: str = "rows") -> Array:
    """Return the counts (S, clients, 4) of cells that differ by their seed."""
    names = sorted(getattr(cells[0], what))
    return np.array([[getattr(cell, what)[name] for name in names] for cell in cells], float)


def drawn(table: Array) -> Array:
    """Return sums (DRAWS, 4) of counts (S, clients, 4) over clients drawn with replacement."""
    picks = np.random.default_rng(0).integers(table.shape[1], size=(DRAWS, table.shape[1]))
    return np.asarray(table.sum(axis=0)[picks].sum(axis=1))
