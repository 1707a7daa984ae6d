"""Jobs of an experiment, one after another or on several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Generic, TypeVar

from threadpoolctl import threadpool_limits

from catchment import use_cores

J = TypeVar("J")
R = TypeVar("R")


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
    ) -> None:
        self.work = work
        self.executor = None
        if workers > 1:
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


def keep_to_one_core() -> None:
    """Keep this process, and its linear algebra, to one thread for good."""
    # Limits hold for libraries that are loaded, and scipy brings one of its own.
    import scipy.linalg  # noqa: F401

    use_cores(1)
    # Without `with`: the limit holds until the process ends.
    threadpool_limits(1)
