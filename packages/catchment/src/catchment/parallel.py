"""Work on all cores with results that do not depend on how many there are.

Our own threads run outside, the linear algebra library runs on one thread inside: nested pools
fight over the cores. Results come back in the order of the tasks, so sums are the same whatever
the number of threads.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

S = TypeVar("S")
R = TypeVar("R")


_most: int | None = None


def available_cores() -> int:
    """Return how many cores this process may use."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return here if _most is None else min(here, _most)


def use_cores(most: int | None) -> None:
    """Let this process use at most so many cores; None for all that it may.

    For a process that is one of several: pinned to a core, it would wait for others pinned there.

    >>> use_cores(1)
    >>> available_cores()
    1
    >>> use_cores(None)
    """
    global _most
    _most = most if most is None else count_threads(most)


def count_threads(threads: int | None) -> int:
    """Return the number of threads asked for: all cores if None.

    >>> count_threads(3)
    3
    """
    if threads is not None and threads < 1:
        raise ValueError(f"threads is {threads}; pass 1 or more, or None for all cores")
    return threads or available_cores()


def ordered_map(
    work: Callable[[S], R], tasks: Iterable[S], *, threads: int | None = None
) -> Iterator[R]:
    """Yield work(task) for each task, in order; at most two tasks per thread are under way.

    >>> list(ordered_map(lambda x: x * x, range(4), threads=2))
    [0, 1, 4, 9]
    """
    n_threads = count_threads(threads)
    with single_blas_thread():
        if n_threads == 1:
            yield from map(work, tasks)
            return
        with ThreadPoolExecutor(n_threads) as pool:
            pending: deque[Future[R]] = deque()
            for task in tasks:
                pending.append(pool.submit(work, task))
                if len(pending) >= 2 * n_threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()


_lock = threading.Lock()
_users = 0
_restore: Callable[[], None] | None = None


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Keep BLAS on one thread while any caller is inside; the last one out restores it."""
    global _users, _restore
    with _lock:
        if _users == 0:
            _restore = _blas().limit(limits=1, user_api="blas").restore_original_limits
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _restore is not None:
                _restore()


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    # The controller sees only the libraries that are loaded, and numpy brings BLAS.
    import numpy  # noqa: F401

    return ThreadpoolController()
