"""What all trainings of prompts and adapters share: two stages, and somebody who watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from catchment.engine import run_locally
from catchment.federation import Additive, Plan, Protection, Read, Record, RoundContext, Upload
from catchment.federation.runs import Keeper
from catchment.wire import Message, serialize
from catchment_research.learn import Arrays
from catchment_research.prompt import Example, LanguageServer, Traffic, TransformersLM
from reproductions.fedresprompt_values import Cell

COOLED = 0.2  # the last quarter of the rounds goes at this share of the learning rate


@dataclass(frozen=True, kw_only=True)
class Float32(Protection):
    """Send every float64 array as float32: half the bytes, seven digits; integers stay.

    >>> from catchment.federation import WeightedSum
    >>> sent = Float32().on_client(WeightedSum((np.ones(3),), 1.0), RoundContext(0, ()))
    >>> [array.dtype.name for array in sent.arrays]
    ['float32', 'float32']
    """

    def on_client(self, upload: Upload, context: RoundContext) -> Message:
        return _in(np.float32, np.float64, serialize(upload))

    def read_update(self, parts: Message, context: RoundContext, inner: Read) -> Additive:
        return inner(_in(np.float64, np.float32, parts), context)


def _in(wanted: Any, given: Any, parts: Message) -> Message:
    arrays = (one.astype(wanted) if one.dtype == given else one for one in parts.arrays)
    return replace(parts, arrays=tuple(arrays))


@dataclass(eq=False)
class Watch(Keeper[Any]):
    """Keeps nothing of a run but its bytes and losses, and its accuracy now and then."""

    measure: Callable[[Any], float]
    every: int
    records: list[Record] = field(default_factory=list)
    curve: list[tuple[int, int, float]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def close_round(self, state: Any, record: Record) -> None:
        self.records.append(record)
        self.losses.append(record.figures.get("training loss", float("nan")))
        if len(self.records) % self.every == 0:
            self.curve.append((len(self.records), self.crossed, self.measure(state)))

    @property
    def crossed(self) -> int:
        return sum(record.bytes_up + record.bytes_down for record in self.records)


def trained(
    stages: Sequence[tuple[int, Callable[[Arrays | None], Any]]],
    clients: Mapping[str, Sequence[Example]],
    watch: Watch,
    seed: int,
) -> tuple[Any, Any]:
    """Return the last algorithm and its state, after stages that each go on from the one before.

    Parameters
    ----------
    stages
        Rounds, and what makes the algorithm from the values so far.
    """
    values: Arrays | None = None
    for number, (rounds, make) in enumerate(stages):
        algorithm = make(values)
        plan: Plan[Any, Any, Any] = Plan(
            algorithm=algorithm,
            rounds=rounds,
            protections=(Float32(),),
            seed=seed + 1000 * number,
        )
        state = run_locally(plan, clients, threads=1, keeper=watch).state
        values = state.values
    return algorithm, state


def cooled(rounds: int, rate: float) -> tuple[tuple[int, float], tuple[int, float]]:
    """Return the rounds and learning rates of the two stages of a run.

    >>> cooled(40, 1.0)
    ((30, 1.0), (10, 0.2))
    """
    last = max(1, rounds // 4)
    return (max(1, rounds - last), rate), (last, COOLED * rate)


def measured(cell: Cell, watch: Watch, server: LanguageServer | None, n_trained: int) -> Cell:
    """Return a cell with what was seen of its training: bytes, curve and losses."""
    asked = server.traffic.get("training", Traffic()) if server is not None else Traffic()
    return replace(
        cell,
        trained=n_trained,
        rounds=len(watch.records),
        bytes_up=sum(record.bytes_up for record in watch.records),
        bytes_down=sum(record.bytes_down for record in watch.records),
        asked_up=asked.bytes_up,
        asked_down=asked.bytes_down,
        curve=tuple(watch.curve),
        losses=tuple(watch.losses),
    )


def begin_with(text: str, model: TransformersLM, length: int) -> tuple[int, ...]:
    """Return the last tokens of a text, as many as a prompt has vectors."""
    tokens = model.tokens(text)
    return tuple(int(t) for t in np.resize(tokens[-length:], length))
