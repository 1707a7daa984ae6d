"""Ways to learn, side by side: what each scores, on whom it does worst, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from catchment.federation.measure.evaluation import Scores
from catchment.federation.messages import Record
from catchment.readout.model import Model


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one contender came to: scores on the test data, rounds, and its model if it has one."""

    scores: Scores
    records: tuple[Record, ...] = ()
    model: Model | None = None
    note: str = ""


@dataclass(frozen=True)
class Row:
    """One contender in numbers; `spread` is the standard deviation of the clients' scores."""

    name: str
    metric: str
    score: float
    worst_client: str = ""
    worst: float = float("nan")
    spread: float = float("nan")
    bytes_up: int = 0
    bytes_down: int = 0
    rounds: int = 0
    seconds: float = 0.0
    note: str = ""

    @classmethod
    def of(cls, name: str, outcome: Outcome, seconds: float) -> Row:
        total = outcome.scores.total
        if total is None:
            raise ValueError(f"{name} was not scored on any client; pass test clients")
        values = [score.value for score in outcome.scores.by_client.values()]
        known = [value for value in values if not np.isnan(value)]
        client, worst = outcome.scores.worst() if known else ("", float("nan"))
        return cls(
            name,
            "NRMSE" if total.counts is None else "accuracy",
            total.value,
            client,
            worst,
            float(np.std(known)) if known else float("nan"),
            sum(record.bytes_up for record in outcome.records),
            sum(record.bytes_down for record in outcome.records),
            len(outcome.records),
            seconds,
            outcome.note,
        )


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rows by name, in the order in which the contenders were given.

    >>> table = Comparison((Row("mean", "NRMSE", 1.0), Row("ridge", "NRMSE", 0.2)))
    >>> table.best.name, table["mean"].score, len(table)
    ('ridge', 1.0, 2)
    """

    rows: tuple[Row, ...]
    outcomes: Sequence[Outcome] = field(default=(), repr=False)

    @property
    def best(self) -> Row:
        """The row with the highest accuracy, or the least NRMSE."""
        accuracy = self.rows[0].metric == "accuracy"
        return (max if accuracy else min)(self.rows, key=lambda row: row.score)

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"{name!r} was not compared; the rows are {', '.join(r.name for r in self)}")

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)
