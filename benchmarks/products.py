"""Products of integers: BLAS in blocks that stay exact, against the compiled kernel.

    python -m benchmarks.products [--jobs A1,A3]

At 24 bits the sum of squares of the most active unit reaches 2^53 after 57 to 134 columns in the
jobs of `benchmarks.jobs`, so dsyrk can take 64 columns before its sums must be added to integers.
CPU seconds of products over those of dsyrk in float64 without any of that, and CPU microseconds of
a step of whole jobs in fixed point with either; least of seven turns, one thread. Writes
results/products.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from numba import njit
from scipy.linalg import blas
from threadpoolctl import threadpool_limits

from benchmarks.fixed_point_speed import problem_of, work_of
from benchmarks.record import write
from catchment import Array, Integers
from catchment.readout import FixedPoint, Gram, exact

SIZES, COLUMNS, EXACT_COLUMNS, BITS = (104, 204, 504, 1004, 2004), 512, 64, 24
JOBS = "A1,A2,A3,A4,A5,B3,C1"  # with a row per step, and sums within int64


def least(works: dict[str, Callable[[], object]], repeats: int = 7) -> dict[str, float]:
    """Return the least CPU seconds of each work, in turns."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(1 + repeats):
        for name, work in works.items():
            began = time.process_time()
            work()
            found[name].append(time.process_time() - began)
    return {name: min(seconds[1:]) for name, seconds in found.items()}


@njit(nogil=True)
def move(sums: Array, unit: float, whole: Integers) -> None:
    """Add the upper triangle of sums to integers, and leave zeros."""
    for i in range(len(sums)):
        for j in range(i, len(sums)):
            whole[i, j] += np.int64(sums[i, j] * unit)
            sums[i, j] = 0.0


def add_gram(total: Array, Z: Array) -> None:
    """Add Z Z' to the upper triangle of a total, by BLAS, to which it is the lower one."""
    blas.dsyrk(1.0, Z.T, beta=1.0, c=total.T, trans=1, lower=1, overwrite_c=1)


class ByBlas(Gram):
    """The same sum by dsyrk, 64 columns at a time."""

    def add(self, Z: Array) -> None:
        n, scale = self.n, self.rounding[0][:, None]
        G, whole = np.zeros((n, n)), self.sums.reshape(self.height, self.height)
        for first in range(0, Z.shape[1], EXACT_COLUMNS):
            K = np.rint(Z[:, first : first + EXACT_COLUMNS] * scale)
            add_gram(G, K)
            move(G, 1.0, whole[:n, :n])


def product(n: int) -> dict[str, float]:
    """Return the time of both ways for n rows, float64 being one."""
    rng = np.random.default_rng(0)
    Z = np.rint(np.clip(0.3 * rng.normal(size=(n, COLUMNS)), -1, 1) * 2.0**BITS) / 2.0**BITS
    G = np.zeros((n, n))
    fixed = FixedPoint(BITS, ((n - 1, BITS),))
    sums = [gram(n, fixed) for gram in (Gram, ByBlas)]
    kernel, by_blas = (lambda: sums[0].add(Z)), (lambda: sums[1].add(Z))
    found = least({"kernel": kernel, "dsyrk": by_blas, "plain": lambda: add_gram(G, Z)})
    return {name: found[name] / found["plain"] for name in ("kernel", "dsyrk")}


def job(name: str) -> dict[str, float]:
    """Return microseconds a step of a whole job, and how many times as long it takes by dsyrk."""
    problem = problem_of(name)
    work = work_of(problem, classes=False, in_fixed_point=True)[0]

    def by(gram: type[Gram]) -> None:
        exact.Gram = gram  # type: ignore[misc]
        work(1)

    found = least({"kernel": lambda: by(Gram), "dsyrk": lambda: by(ByBlas)})
    micro = {name: seconds / problem.n_steps * 1e6 for name, seconds in found.items()}
    return {**micro, "ratio": found["dsyrk"] / found["kernel"]}


def main() -> None:
    parser = argparse.ArgumentParser(description="Exact products by BLAS and by the kernel.")
    parser.add_argument("--jobs", default=JOBS)
    asked = parser.parse_args()
    with threadpool_limits(limits=1):
        sizes = {str(n): product(n) for n in SIZES}
        jobs = {name: job(name) for name in asked.jobs.split(",")}
    for name, told in {**sizes, **jobs}.items():
        print(name, {what: round(value, 2) for what, value in told.items()})
    results = {"over float64, by rows": sizes, "jobs, us a step": jobs}
    write("products", {"columns": COLUMNS, "bits": BITS, **results})


if __name__ == "__main__":
    main()
