"""Jobs on several processes: all come back, and a failure costs nothing but itself."""

from __future__ import annotations

import os

import pytest
from threadpoolctl import threadpool_info

from catchment import available_cores
from reproductions.pool import Pool


def inverse(number: int) -> tuple[float, int]:
    return 1 / number, os.getpid()


def test_a_failure_costs_only_itself() -> None:
    with Pool(inverse, 2) as pool:
        found = dict(pool.run([1, 0, 4]))
    assert isinstance(found[0], ZeroDivisionError)
    kept = [found[1], found[4]]
    assert [one[0] for one in kept if isinstance(one, tuple)] == [1.0, 0.25]
    assert os.getpid() not in {one[1] for one in kept if isinstance(one, tuple)}


def cores(job: int) -> tuple[int, list[int]]:
    threads = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
    return available_cores(), threads


def test_processes_keep_to_one_core_each_if_asked() -> None:
    with Pool(cores, 2, one_core=True) as pool:
        ((_, found),) = pool.run([0])
    assert not isinstance(found, Exception)
    assert found[0] == 1
    assert set(found[1]) == {1}


def test_fresh_processes_do_one_job_each() -> None:
    with Pool(inverse, 2, fresh=True) as pool:
        places = [one[1] for _, one in pool.run([1, 2, 3]) if isinstance(one, tuple)]
    assert len(set(places)) == 3


def test_here_jobs_come_in_order_and_a_failure_is_raised() -> None:
    with Pool(inverse, 1) as pool:
        assert [job for job, _ in pool.run([3, 2])] == [3, 2]
        with pytest.raises(ZeroDivisionError):
            list(pool.run([0]))
