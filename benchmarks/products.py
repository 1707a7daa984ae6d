"""Products of integers: BLAS in blocks that stay exact, against the compiled kernel.

    python -m benchmarks.products

At 24 bits the sum of squares of the most active unit reaches 2^53 after 57 to 134 columns in the
jobs of `benchmarks.jobs`, so dsyrk can take 64 columns before its sums must be added to integers.
CPU seconds over those of dsyrk in float64 without any of that, least of seven. Writes
results/products.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numba import njit

from benchmarks.record import write
from catchment import Array, Integers, single_blas_thread
from catchment.readout import ExactGram, FixedPoint, add_gram

SIZES, COLUMNS, EXACT_COLUMNS, BITS = (104, 204, 504, 1004, 2004), 512, 64, 24


def least(work: Callable[[], None], repeats: int = 7) -> float:
    work()
    found = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


@njit(nogil=True)
def move(sums: Array, unit: float, whole: Integers) -> None:
    """Add the upper triangle of sums to integers, and leave zeros."""
    for i in range(len(sums)):
        for j in range(i, len(sums)):
            whole[i, j] += np.int64(sums[i, j] * unit)
            sums[i, j] = 0.0


def measured(n: int) -> dict[str, float]:
    """Return the time of both ways for n rows, float64 being one."""
    rng = np.random.default_rng(0)
    Z = np.rint(np.clip(0.3 * rng.normal(size=(n, COLUMNS)), -1, 1) * 2.0**BITS) / 2.0**BITS
    G, whole = np.zeros((n, n)), np.zeros((n, n), np.int64)
    exact = ExactGram(FixedPoint(BITS, ((n - 1, BITS),)), 0, constant=False)

    def by_blas() -> None:
        for first in range(0, COLUMNS, EXACT_COLUMNS):
            add_gram(G, Z[:, first : first + EXACT_COLUMNS])
            move(G, 4.0**BITS, whole)

    with single_blas_thread():
        kernel, blas = least(lambda: exact.add(Z)), least(by_blas)
        plain = least(lambda: add_gram(G, Z))
    return {"kernel": kernel / plain, "dsyrk": blas / plain}


if __name__ == "__main__":
    results = {str(n): measured(n) for n in SIZES}
    for size, told in results.items():
        print(size, {name: round(ratio, 2) for name, ratio in told.items()})
    write("products", {"columns": COLUMNS, "bits": BITS, "over float64, by rows": results})
