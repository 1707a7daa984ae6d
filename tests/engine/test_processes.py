"""Worker processes: the same numbers, refusals and rows as one process, whatever clients send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.engine.local import LocalEngine, run_locally
from catchment.engine.processes import Processes, sum_sources, with_workers
from catchment.errors import CatchmentError
from catchment.federation.algorithm import Turn
from catchment.federation.blocks import BlockSum
from catchment.federation.limits import Limits
from catchment.federation.loop import Engine, Reply, run
from catchment.federation.messages import Adding
from catchment.federation.plan import Plan
from catchment.federation.running_sums import BLOCK
from catchment.federation.runs.notes import StageNotes
from catchment.federation.sums import Tally, WeightedSum
from catchment.wire import NOTHING, Parts

Source = Sequence[float]
State = Tally[WeightedSum]


@dataclass(frozen=True)
class Means:
    """A client's numbers, one by one, in a sum; as a learner with four methods."""

    keep_clients: bool = False

    def start(self) -> State:
        return Tally(WeightedSum((np.zeros(2),), 0.0), {})

    def broadcast(self, state: State, turn: Turn) -> Parts:
        return NOTHING

    def client_update(self, received: Parts, data: Any, turn: Turn) -> WeightedSum:
        numbers = list(data())
        if not numbers:
            raise ValueError(f"{turn.client} has no numbers")
        return WeightedSum((np.array(numbers[1:]) * np.pi,), numbers[0])

    def read_update(self, parts: Parts, turn: Turn) -> State:
        update = WeightedSum.from_parts(parts)
        return Tally.of(update, turn.client if self.keep_clients else "")

    def server_update(self, state: State, total: State, turn: Turn) -> State:
        return total

    def result(self, state: State) -> tuple[Any, ...]:
        return state.total.mean()


@dataclass(frozen=True, eq=False)
class Here:
    """Blocks added in this process: what workers do, without processes."""

    here: LocalEngine[Any, Any, Any]
    asked: list[str] = field(default_factory=list)

    def clients(self) -> Sequence[str]:
        return self.here.clients()

    def ask(self, letters: Mapping[str, bytes]) -> Iterator[Reply]:
        self.asked.extend(letters)
        return self.here.ask(letters)

    def sums(
        self, message: bytes, blocks: Sequence[tuple[str, ...]], first: int
    ) -> Iterator[BlockSum | None]:
        for block in blocks[first:]:
            sources = {client: self.here.sources[client] for client in block}
            yield sum_sources(self.here.plan, message, sources)


def seen(plan: Plan[Any, Any, Any], engine: Engine) -> tuple[object, ...]:
    """Return all that a run shows of itself: numbers, refusals, rows, bytes, or its error."""
    notes: StageNotes[Any] = StageNotes(plan)
    try:
        done = run(plan, engine, keeper=notes)
    except CatchmentError as error:
        return type(error), str(error), notes.entries
    total = done.state.total
    record = replace(done.records[0], seconds=0.0)
    kept = [(name, one.arrays[0].tobytes()) for name, one in done.state.by_client.items()]
    return total.arrays[0].tobytes(), total.weight, kept, record, notes.entries


ODD: tuple[Source, ...] = ((), (40.0, 1.0), (4e7, 1.0, 2.0), (1e300, 1.0, 2.0), (0.0, 1.0, 2.0))


def numbers(k: int) -> Source:
    rng = np.random.default_rng(k)
    return (float(rng.integers(30, 60)), *rng.normal(size=2).tolist())


@settings(max_examples=15)
@given(
    n=st.integers(1, 3 * BLOCK),
    odd=st.dictionaries(st.integers(0, 3 * BLOCK), st.sampled_from(ODD), max_size=12),
    lowest=st.sampled_from([0, 0, 3, BLOCK]),
    keep_clients=st.booleans(),
    over_median=st.sampled_from([1.5, 1000.0]),
)
def test_sums_of_blocks_show_nothing_that_one_process_does_not(
    n: int, odd: dict[int, Source], lowest: int, keep_clients: bool, over_median: float
) -> None:
    sources = {f"c{k:04d}": odd.get(k, numbers(k)) for k in range(n)}
    sources |= {f"c{k:04d}": () for k in range(min(lowest, n - 1))}
    limits = Limits(over_median=over_median, min_usable=0.0)
    plan = Plan(algorithm=Means(keep_clients), limits=limits)
    engine = LocalEngine(plan, sources, threads=1)
    assert seen(plan, Here(engine)) == seen(plan, engine)


def test_whole_blocks_are_added_as_wholes() -> None:
    plan = Plan(algorithm=Means())
    here = Here(LocalEngine(plan, {f"c{k:04d}": numbers(k) for k in range(700)}, threads=1))
    assert isinstance(here, Adding)
    assert run(plan, here).records[0].n_used == 700
    assert here.asked == []


@pytest.mark.parametrize("workers", [2, 3])
def test_processes_give_the_bits_of_one(workers: int) -> None:
    odd = {3: (), 300: (40.0, 1.0), 600: (4e7, 1.0, 2.0)}
    sources = {f"c{k:04d}": odd.get(k, numbers(k)) for k in range(1100)}
    plan = Plan(algorithm=Means(keep_clients=True), limits=Limits(min_usable=0.0))
    engine = LocalEngine(plan, sources)
    assert seen(plan, Processes(engine, workers)) == seen(plan, engine)


def test_sources_may_be_functions_of_any_kind() -> None:
    plan = Plan(algorithm=Means())
    sources = {f"c{k:04d}": (lambda k=k: numbers(k)) for k in range(600)}
    alone = run_locally(plan, sources)
    done = run_locally(plan, sources, workers=2)
    assert done.state.total.arrays[0].tobytes() == alone.state.total.arrays[0].tobytes()


def test_one_worker_is_this_process() -> None:
    engine = LocalEngine(Plan(algorithm=Means()), {"a": [1.0, 2.0]})
    assert with_workers(engine, 1) is engine
    with pytest.raises(ValueError, match="workers is 0; pass 1 or more"):
        with_workers(engine, 0)
