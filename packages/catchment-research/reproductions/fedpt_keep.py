"""What `fedpt` writes down of a training while it runs: its curve, and where to go on."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from catchment.federation import Plan, Record
from catchment.federation.runs import Keeper
from catchment_research.learn import Progress
from catchment_research.partial import Trained

PAUSE = 30.0  # seconds between two files


@dataclass(eq=False)
class Keeping(Keeper[Trained]):
    """A training's accuracy once in every few rounds, and a file from which it goes on.

    The file is written beside its place and then put there, so that it is whole whenever the
    process is killed: parameters, what the server's optimizer remembers, records and curve. What
    clients draw depends on the seed, the round and how often they took part, which `restore` sets.

    Parameters
    ----------
    measure
        The accuracy of a state.
    every
        Rounds between two points of the curve; none if 0.
    path
        Where the file goes; none is written if None.
    pause
        Seconds between two files at least.
    restore
        Called with the rounds that are behind a training which goes on.
    """

    measure: Callable[[Any], float]
    every: int = 0
    path: Path | None = None
    pause: float = PAUSE
    restore: Callable[[int], None] = lambda rounds: None
    points: list[tuple[int, float]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    written: float = field(default_factory=time.monotonic)

    def resume(self) -> tuple[Trained, tuple[Record, ...]] | None:
        if self.path is None or not self.path.is_file():
            return None
        with np.load(self.path) as content:
            told = json.loads(str(content["told"]))
            values, memory = (
                tuple(content[f"{kind} {k}"] for k in range(told[kind]))
                for kind in ("values", "memory")
            )
        self.points[:] = [(k, accuracy) for k, accuracy in told["points"]]
        self.records[:] = [Record(**record) for record in told["records"]]
        self.restore(len(self.records))
        return Trained(values, memory, Progress(**told["progress"])), tuple(self.records)

    def wants(self, round_: int) -> bool:
        """Return whether the state after a round is looked at, not only its record."""
        return self._measures(round_) or self._writes()

    def close_round(self, state: Trained | None, record: Record) -> None:
        self.records.append(replace(record, refused=()))
        if state is None:
            return
        if self._measures(record.round):
            self.points.append((record.round + 1, self.measure(state)))
        if self._writes():
            self.write(state)

    def write(self, state: Trained) -> None:
        """Write the file from which a training goes on after the last record's round."""
        if self.path is None:
            return
        told = {
            "values": len(state.values),
            "memory": len(state.memory),
            "points": self.points,
            "records": [asdict(record) for record in self.records],
            "progress": asdict(state.progress),
        }
        arrays = {f"values {k}": value for k, value in enumerate(state.values)}
        arrays |= {f"memory {k}": value for k, value in enumerate(state.memory)}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".part")
        with beside.open("wb") as file:
            np.savez(file, allow_pickle=False, told=np.array(json.dumps(told)), **arrays)
        beside.replace(self.path)
        self.written = time.monotonic()

    def _measures(self, round_: int) -> bool:
        return bool(self.every) and (round_ + 1) % self.every == 0

    def _writes(self) -> bool:
        return self.path is not None and time.monotonic() - self.written >= self.pause


def taken_part(
    plan: Plan[Any, Any, Any], clients: Mapping[str, object], rounds: int
) -> Counter[str]:
    """Return how often each client was drawn in a plan's first rounds."""
    return Counter(chain(*(plan.cohort(list(clients), k) for k in range(rounds))))
