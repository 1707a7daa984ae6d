"""Worker processes: the same numbers, refusals and rows as one process, whatever clients send."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import getmodule
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import NVAR, FederatedRidge, Recording
from catchment.engine import LocalClients, LocalEngine, batches, run_locally, sum_sources
from catchment.errors import CatchmentError, FederationError
from catchment.federation import (
    Algorithm,
    BlockSum,
    Engine,
    Limits,
    Plan,
    Reply,
    Request,
    RoundContext,
    Sums,
    Tally,
    WeightedSum,
    run,
)
from catchment.federation.runs import EntryList
from catchment.wire import NOTHING, Message

BLOCK = 8  # the usual 256 would only take longer
Source = Sequence[float]
State = Tally[WeightedSum]


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for one in (BlockSum, Sums):
            patch.setattr(getmodule(one), "BLOCK", BLOCK)
        yield


@dataclass(frozen=True)
class Means(Algorithm[State, State, tuple[Any, ...]]):
    """A client's numbers, one by one, in a sum; as a learner with four methods."""

    store_per_client: bool = False

    def start(self) -> State:
        return Tally(WeightedSum((np.zeros(2),), 0.0), {})

    def broadcast(self, state: State, context: RoundContext) -> Message:
        return NOTHING

    def client_update(self, received: Message, data: Any, context: RoundContext) -> WeightedSum:
        numbers = list(data())
        if not numbers:
            raise ValueError(f"{context.client} has no numbers")
        return WeightedSum((np.array(numbers[1:]) * np.pi,), numbers[0])

    def read_update(self, parts: Message, context: RoundContext) -> State:
        update = WeightedSum.from_message(parts)
        return Tally.of(update, context.client if self.store_per_client else "")

    def server_update(self, state: State, total: State, context: RoundContext) -> State:
        return total

    def result(self, state: State) -> tuple[Any, ...]:
        return state.total.mean()


@dataclass(frozen=True, eq=False)
class Here(Engine):
    """Blocks added in this process: what workers do, without processes."""

    here: LocalEngine[Any, Any, Any]
    asked: list[str] = field(default_factory=list)

    def clients(self) -> Sequence[str]:
        return self.here.clients()

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        self.asked.extend(requests)
        return self.here.ask(requests)

    def sums(self, message: bytes, blocks: Sequence[tuple[str, ...]]) -> Iterator[BlockSum | None]:
        for batch in batches(blocks, 1):
            sources = {client: self.here.sources[client] for block in batch for client in block}
            yield from sum_sources(self.here.plan, message, sources, batch)


def seen(
    plan: Plan[Any, Any, Any], engine: Engine, keeper: EntryList | None = None
) -> tuple[object, ...]:
    """Return all that a run shows of itself: numbers, refusals, rows, bytes, or its error."""
    notes = keeper or EntryList()
    try:
        done = run(plan, engine, keeper=notes)
    except CatchmentError as error:
        return type(error), str(error), notes.entries
    total = done.state.total
    record = replace(done.records[0], seconds=0.0)
    kept = [(name, one.arrays[0].tobytes()) for name, one in done.state.by_client.items()]
    return total.arrays[0].tobytes(), total.weight, kept, record, notes.entries


SCRIPT = """
import numpy as np
from catchment import EchoState, Recording, evaluate, federate
from catchment.wire import equal

def wave(k):
    u = np.sin(np.arange(40) * (0.1 + k % 9 / 30))
    return lambda: [Recording(u[:-1], u[1:])]

clients = {f"c{k:04d}": wave(k) for k in range(600)}
runs = [federate(EchoState(5, washout=5), clients, ridge=0.1, workers=w) for w in (None, 2)]
alone, done = (run.model.readout.weights.tobytes() for run in runs)
scores = [evaluate(runs[0].model, clients, workers=w) for w in (None, 2)]
print(runs[1].records[0].n_used, alone == done, equal(*scores))
"""
ODD: tuple[Source, ...] = ((), (40.0, 1.0), (4e7, 1.0, 2.0), (1e300, 1.0, 2.0), (0.0, 1.0, 2.0))


def numbers(k: int) -> Source:
    rng = np.random.default_rng(k)
    return (float(rng.integers(30, 60)), *rng.normal(size=2).tolist())


@st.composite
def engines(draw: st.DrawFn) -> LocalEngine[Any, Any, Any]:
    """Clients of which some have no data, or others than most, or claim more than most."""
    n = draw(st.integers(1, 5 * BLOCK))
    places = st.integers(0, 5 * BLOCK)
    odd = draw(st.dictionaries(places, st.sampled_from(ODD), max_size=12))
    silent = draw(st.sampled_from([0, 0, 4, BLOCK, BLOCK + 5]))
    sources = {f"c{k:04d}": odd.get(k, numbers(k)) for k in range(n)}
    sources |= {f"c{k:04d}": () for k in range(min(silent, n - 1))}
    limits = Limits(over_median=draw(st.sampled_from([1.5, 1000.0])), min_usable=0.0)
    plan = Plan(algorithm=Means(draw(st.booleans())), limits=limits)
    return LocalEngine(plan, sources, threads=1)


@settings(max_examples=60)
@given(engine=engines())
def test_sums_of_blocks_show_nothing_that_one_process_does_not(
    engine: LocalEngine[Any, Any, Any],
) -> None:
    assert seen(engine.plan, Here(engine)) == seen(engine.plan, engine)


def test_whole_blocks_are_added_as_wholes() -> None:
    plan = Plan(algorithm=Means())
    here = Here(LocalEngine(plan, {f"c{k:04d}": numbers(k) for k in range(70)}, threads=1))
    assert run(plan, here).records[0].n_used == 70
    assert here.asked == []


@dataclass(frozen=True, eq=False)
class Stopping(Here):
    """Adds the first batch alone."""

    def sums(self, message: bytes, blocks: Sequence[tuple[str, ...]]) -> Iterator[BlockSum | None]:
        (first, *_) = batches(blocks, 1)
        yield from sum_sources(self.here.plan, message, self.here.sources, first)


@pytest.mark.parametrize("kept", [False, "groups", True])
def test_exact_sums_of_a_batch_are_one_where_no_client_is_kept(kept: Any) -> None:
    u = np.random.default_rng(0).normal(size=(20 * BLOCK, 13, 1))
    sources: dict[str, list[Recording]] = {
        f"c{k:04d}": [Recording(one[:-1], one[1:])] for k, one in enumerate(u)
    }
    sources |= {"c0020": [], "c0041": [Recording(np.ones((9, 2)), np.ones(9))]}
    features = NVAR(delays=3).build(1, per_step=True)
    algorithm = FederatedRidge(features=features, ridge=1e-3, store_per_client=kept)
    found, plan = [], Plan(algorithm=algorithm)
    engine = LocalEngine(plan, sources, threads=1)
    for one in (engine, Here(engine), Stopping(engine)):
        notes = EntryList()
        done = run(plan, one, keeper=notes)
        record = replace(done.records[0], seconds=0.0)
        found.append((done.state.total.digest(), done.state.by_group, record, notes.entries))
    assert found[0] == found[1] == found[2]
    assert [one.client for one in record.refused] == ["c0020", "c0041"]
    names = sorted(sources)
    blocks = [tuple(names[k : k + BLOCK]) for k in range(0, 3 * BLOCK, BLOCK)]
    request = Request(plan.fingerprint(), RoundContext(0, ()), "update", NOTHING).to_bytes()
    sums = sum_sources(plan, request, sources, blocks)
    assert [len(one.asked) for one in sums if one] == ([BLOCK] * 3 if kept is True else [3 * BLOCK])


@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_processes_give_the_bits_of_one(workers: int) -> None:
    odd = {3: (), 30: (40.0, 1.0), 60: (4e7, 1.0, 2.0)}
    sources = {f"c{k:04d}": odd.get(k, numbers(k)) for k in range(110)}
    plan = Plan(algorithm=Means(store_per_client=True), limits=Limits(min_usable=0.0))
    engine = LocalEngine(plan, sources)
    several = LocalClients(clients=sources, workers=workers).engine("", plan)
    assert seen(plan, several) == seen(plan, engine)


def test_sources_may_be_functions_of_any_kind() -> None:
    plan = Plan(algorithm=Means())
    sources = {f"c{k:04d}": (lambda k=k: numbers(k)) for k in range(60)}
    alone = run_locally(plan, sources)
    done = run_locally(plan, sources, workers=2)
    assert done.state.total.arrays[0].tobytes() == alone.state.total.arrays[0].tobytes()


def deadly(k: int, here: int, marker: Path) -> Source:
    """Return a client's numbers; a worker that asks for them dies, if a file says so."""
    with suppress(FileNotFoundError):  # another worker may take the file meanwhile
        if os.getpid() != here and marker.is_file():
            if marker.read_text() == "once":
                marker.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
    return numbers(k)


@pytest.mark.skipif(os.name != "posix", reason="kills by signal")
def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    plan, marker = Plan(algorithm=Means()), tmp_path / "marker"
    marker.write_text("once")
    sources = {f"c{k:04d}": partial(deadly, k, os.getpid(), marker) for k in range(60)}
    done = seen(plan, LocalEngine(plan, sources, workers=2))
    assert not marker.is_file()
    assert done == seen(plan, LocalEngine(plan, sources))


@pytest.mark.skipif(os.name != "posix", reason="kills by signal")
def test_workers_that_die_again_and_again_end_the_run(tmp_path: Path) -> None:
    plan, marker = Plan(algorithm=Means()), tmp_path / "marker"
    marker.write_text("always")
    sources = {f"c{k:04d}": partial(deadly, k, os.getpid(), marker) for k in range(60)}
    with pytest.raises(FederationError, match="died 3 times over some of the clients c0000 to c"):
        run_locally(plan, sources, workers=2)


def test_what_cannot_be_sent_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(algorithm=Means())
    locked = {f"c{k:04d}": [threading.Lock()] for k in range(60)}
    with pytest.raises(TypeError, match="a client's source cannot be sent to worker processes"):
        run_locally(plan, locked, workers=2)
    module = types.ModuleType("nowhere_to_be_found")
    exec("def source(): return [1.0, 2.0]", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    unknown = {f"c{k:04d}": module.source for k in range(60)}
    with pytest.raises(TypeError, match="a worker process cannot make what it was sent"):
        run_locally(plan, unknown, workers=2)


@pytest.mark.slow
def test_a_script_without_a_guard_may_use_workers(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "600 True True\n"


def test_one_worker_is_this_process() -> None:
    plan, clients = Plan(algorithm=Means()), {"a": [1.0, 2.0]}
    engine = LocalClients(clients=clients, workers=1).engine("", plan)
    assert isinstance(engine, LocalEngine)
    assert engine.workers is None
    with pytest.raises(ValueError, match="workers is 0; give an integer, 1 or more"):
        LocalClients(clients=clients, workers=0).engine("", plan)
