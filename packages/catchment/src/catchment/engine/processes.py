"""Clients of this machine in processes of their own: many small ones on all cores.

Clients go to worker processes in blocks of 256, up to eight in a batch, and the sum of each block
comes back, of a batch where it is exact: the same bits as in one process
(`catchment.federation.loop`). Where there is less than two blocks to do, and wherever clients must
be asked one by one, this process does it.

Workers are joblib's: they start without running the program again, whatever it calls is sent to
them, lambdas included, and they wait a while for the next run. What all blocks share, the plan and
the request, lies in a file that every worker reads once. A worker that is killed is replaced, and
what it had not finished is done again.
"""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from catchment.data.clients import part_of
from catchment.engine.local import AnySource, LocalEngine
from catchment.errors import FederationError
from catchment.federation.client import devices_of
from catchment.federation.loop import BlockSum, sum_blocks
from catchment.federation.plan import Plan

MOST_DEATHS = 3  # of workers over one batch
MOST_BLOCKS = 8  # of a batch: each costs this process some milliseconds
BATCHES = 8  # for each worker, if there is enough to do
IDLE = 300  # seconds that workers wait for the next run
ONE_THREAD = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA")
}  # fmt: skip

Sources = Mapping[str, AnySource]
AnyPlan = Plan[Any, Any, Any]
Blocks = Sequence[tuple[str, ...]]
Found = list[BlockSum | None]


def batches(blocks: Blocks, workers: int) -> Iterator[Blocks]:
    """Yield the blocks, as many at a time as a worker is given."""
    size = max(1, min(MOST_BLOCKS, len(blocks) // (BATCHES * workers)))
    return (blocks[k : k + size] for k in range(0, len(blocks), size))


def sums_in_processes(
    here: LocalEngine[Any, Any, Any], message: bytes, blocks: Blocks, workers: int
) -> Iterator[BlockSum | None]:
    """Yield the sums of the blocks of an engine's clients, in their order.

    Parameters
    ----------
    workers
        Number of processes.
    """
    with _shared((here.plan, message)) as path:
        pool = _Pool(workers, path)
        try:
            for batch in batches(blocks, workers):
                pool.add(_Task(batch, sources_of(here.sources, batch)))
                if len(pool.pending) >= 2 * workers:
                    yield from pool.first()
            while pool.pending:
                yield from pool.first()
        finally:
            for task in pool.pending:
                if task.future is not None:
                    task.future.cancel()


def sum_sources(plan: AnyPlan, message: bytes, sources: Sources, blocks: Blocks) -> Found:
    """Return the sums of blocks whose clients' sources are here; of plain, picklable arguments.

    Parameters
    ----------
    plan
        What is run.
    message
        The request to everybody.
    sources
        Of the clients of the blocks.
    """
    return sum_blocks(plan, message, LocalEngine(plan, sources, threads=1), blocks)


def sources_of(every: Sources, blocks: Blocks) -> Sources | None:
    """Return the sources of blocks' clients, None if one is a device, which is asked here."""
    found = part_of(every, [*chain.from_iterable(blocks)])
    return None if devices_of(found) else found


@lru_cache(maxsize=1)
def _workers(n: int) -> Any:
    """Return worker processes that wait for the next run; cleared when one of them died."""
    # Not joblib's own pool, which others may use and then has other settings.
    from joblib.externals.loky import ProcessPoolExecutor

    return ProcessPoolExecutor(
        n, timeout=IDLE, env=ONE_THREAD, initializer=_begin, initargs=(os.getpid(),)
    )


def _begin(parent: int) -> None:
    """Leave Ctrl-C to the process that asks, and end with it; this runs in a new worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


@contextmanager
def _shared(value: object) -> Iterator[str]:
    """Write what all workers need to a file, of which only its owner can read, for a while."""
    with tempfile.TemporaryDirectory(prefix="catchment-") as folder:
        path = Path(folder) / "shared"
        path.write_bytes(_written(value, "the plan"))
        yield str(path)


def _written(value: object, what: str) -> bytes:
    """Return a value for a worker; TypeError if it cannot be sent."""
    from joblib.externals.loky.backend.reduction import dumps

    try:
        return bytes(dumps(value))
    except Exception as error:
        raise TypeError(
            f"{what} cannot be sent to worker processes ({type(error).__name__}: {error}); leave "
            "out workers, or let clients be functions that open what they need"
        ) from error


@dataclass(eq=False)
class _Task:
    """Blocks of clients, their sources, None if they are not for workers, and the sums to come."""

    blocks: Blocks
    sources: Sources | None
    future: Future[Found] | None = None
    deaths: int = 0


class _Pool:
    """Worker processes and the batches that are with them."""

    def __init__(self, workers: int, path: str) -> None:
        self.workers, self.path = workers, path
        self.pending: deque[_Task] = deque()

    def add(self, task: _Task) -> None:
        self.pending.append(task)
        if task.sources is not None:
            self._start(task, task.sources)

    def first(self) -> Found:
        """Return the first batch's sums; workers that died meanwhile are replaced."""
        task = self.pending[0]
        result: Found = [None] * len(task.blocks)
        while task.future is not None:
            try:
                result = task.future.result()
                break
            except BrokenProcessPool as error:
                task.deaths += 1
                if task.deaths == MOST_DEATHS:
                    raise FederationError(
                        f"worker processes died {MOST_DEATHS} times over some of the clients "
                        f"{task.blocks[0][0]} to {self.pending[-1].blocks[-1][-1]}, most likely "
                        "for want of memory; use fewer workers"
                    ) from error
                for one in self.pending:
                    future, sources = one.future, one.sources
                    died = future is not None and future.done() and future.exception() is not None
                    if died and sources is not None:
                        self._start(one, sources)
        self.pending.popleft()
        return result

    def _start(self, task: _Task, sources: Sources) -> None:
        # Written here: what cannot be sent, or cannot be read there, is no death of a worker.
        content = _written((sources, task.blocks), "a client's source")
        try:
            task.future = _workers(self.workers).submit(_work, self.path, content)
        except BrokenProcessPool:
            _workers.cache_clear()
            task.future = _workers(self.workers).submit(_work, self.path, content)


def _work(path: str, content: bytes) -> Found:
    """Return the sums of a batch; in a worker."""
    plan, message = _read_shared(path)
    return sum_sources(plan, message, *_read(content))


@lru_cache(maxsize=1)
def _read_shared(path: str) -> tuple[AnyPlan, bytes]:
    found: tuple[AnyPlan, bytes] = _read(Path(path).read_bytes())
    return found


def _read(content: bytes) -> Any:
    # Written by the process that started this one, and sent by a pipe or in a folder of its own.
    try:
        return pickle.loads(content)
    except Exception as error:
        raise TypeError(
            f"a worker process cannot make what it was sent ({type(error).__name__}: {error}); "
            "leave out workers, or define functions and classes in a module that can be imported"
        ) from error
