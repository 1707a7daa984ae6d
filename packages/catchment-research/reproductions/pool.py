"""Jobs of an experiment, one after another or on several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, Generic, TypeVar

from threadpoolctl import threadpool_limits

from catchment import use_cores

J = TypeVar("J")
R = TypeVar("R")
# Does a piece of work for every job, like `map`, and gives what came of them in their order.
Deal = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]


class Pool(Generic[J, R]):
    """Runs jobs here, or on processes that each hold what the jobs need.

    Parameters
    ----------
    work
        What is done for a job; on several processes it must be a function that they can import.
    workers
        Processes; a small network leaves much of a GPU idle.
    fresh
        Whether every job gets a process of its own, so that it finds no memory in use.
    one_core
        Whether every process keeps to one thread, so that they do not fight over the cores.
    threads
        Whether the workers are threads of this process, for work that is itself dealt out.

    >>> with Pool(abs, 1) as pool:
    ...     list(pool.run([-3, 4]))
    [(-3, 3), (4, 4)]
    """

    def __init__(
        self,
        work: Callable[[J], R],
        workers: int,
        *,
        fresh: bool = False,
        one_core: bool = False,
        threads: bool = False,
    ) -> None:
        self.work = work
        self.executor: Executor | None = None
        if threads:
            self.executor = ThreadPoolExecutor(workers)
        elif workers > 1:
            self.executor = ProcessPoolExecutor(
                workers,
                mp_context=get_context("spawn"),
                initializer=keep_to_one_core if one_core else None,
                max_tasks_per_child=1 if fresh else None,
            )

    def __enter__(self) -> Pool[J, R]:
        return self

    def __exit__(self, *_: object) -> None:
        if self.executor:
            self.executor.shutdown(cancel_futures=True)

    def run(self, jobs: Sequence[J]) -> Iterator[tuple[J, R | Exception]]:
        """Yield each job with what came of it as it ends.

        On several processes a failure is yielded like a result: it must not cost the others.
        """
        if self.executor is None:
            for job in jobs:
                yield job, self.work(job)
            return
        waiting = {self.executor.submit(self.work, job): job for job in jobs}
        for future in as_completed(waiting):
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            yield waiting[future], future.result() if error is None else error


@contextmanager
def dealing(workers: int) -> Iterator[Deal]:
    """Give what deals jobs to processes of one core each; with one worker they are done here.

    >>> with dealing(1) as deal:
    ...     list(deal(abs, [-3, 4]))
    [3, 4]
    """
    if workers == 1:
        yield map
        return
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=keep_to_one_core
    ) as executor:
        yield executor.map


def keep_to_one_core() -> None:
    """Keep this process, and its linear algebra, to one thread for good."""
    # Limits hold for libraries that are loaded, and scipy brings one of its own.
    import scipy.linalg  # noqa: F401

    use_cores(1)
    # Without `with`: the limit holds until the process ends.
    threadpool_limits(1)
