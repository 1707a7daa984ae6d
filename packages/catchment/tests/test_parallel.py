from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from catchment import available_cores, count_threads, ordered_map, single_blas_thread


def blas_threads() -> set[int]:
    np.ones((2, 2)) @ np.ones((2, 2))
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


@pytest.mark.parametrize("threads", [1, 2, 5, None])
def test_results_come_in_the_order_of_the_tasks(threads: int | None) -> None:
    def work(task: int) -> int:
        time.sleep(0.002 * ((7 * task) % 5))
        return task * task

    assert list(ordered_map(work, range(30), threads=threads)) == [k * k for k in range(30)]


def test_nothing_to_do_yields_nothing() -> None:
    for threads in (1, 2):
        assert list(ordered_map(str, [], threads=threads)) == []


def test_work_runs_on_several_threads_at_once() -> None:
    meeting = threading.Barrier(2, timeout=30)

    def work(_: int) -> str:
        meeting.wait()
        return threading.current_thread().name

    assert len(set(ordered_map(work, range(2), threads=2))) == 2


def test_few_tasks_are_taken_ahead() -> None:
    taken = 0

    def tasks() -> Iterator[int]:
        nonlocal taken
        for k in range(100):
            taken += 1
            yield k

    results = ordered_map(lambda task: task, tasks(), threads=2)
    assert next(results) == 0
    assert taken <= 5
    assert list(results) == list(range(1, 100))


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_reaches_the_caller(threads: int) -> None:
    def work(task: int) -> int:
        if task == 3:
            raise KeyError(f"task {task}")
        return task

    results = ordered_map(work, range(10), threads=threads)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="task 3"):
        next(results)


def test_blas_has_one_thread_inside_and_its_own_afterwards() -> None:
    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        with single_blas_thread():
            assert blas_threads() == {1}
            with single_blas_thread():
                assert blas_threads() == {1}
            assert blas_threads() == {1}
        assert blas_threads() == before
        assert list(ordered_map(lambda _: blas_threads(), range(3), threads=2)) == [{1}] * 3
        assert blas_threads() == before


def test_blas_is_restored_after_an_error_and_after_breaking_off() -> None:
    def work(task: int) -> int:
        raise RuntimeError

    with threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        with pytest.raises(RuntimeError):
            list(ordered_map(work, range(3), threads=2))
        assert blas_threads() == before
        results = ordered_map(str, range(9), threads=2)
        next(results)
        results.close()  # type: ignore[attr-defined]
        assert blas_threads() == before


def test_threads_are_counted() -> None:
    assert available_cores() >= 1
    assert count_threads(None) == available_cores()
    assert count_threads(3) == 3
    for threads in (0, -2):
        with pytest.raises(ValueError, match=f"threads is {threads}; pass 1 or more, or None"):
            count_threads(threads)
        with pytest.raises(ValueError, match="pass 1 or more"):
            list(ordered_map(str, [1], threads=threads))
