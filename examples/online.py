"""A stream whose law changes half way: what forgetting is worth, over five seeds.

    python examples/online.py [--quick]

Every block of 25 steps is first predicted and then learned from. Errors are counted over the second
half of the stream, from 100 steps after the change on. Naive: the last value of the target stays.
"""

from __future__ import annotations

import argparse

import numpy as np

from catchment import EchoState
from catchment.arrays import Array
from catchment.parallel import single_blas_thread
from catchment.readout import RidgeStatistics, nrmse

STEPS, BLOCK, WASHOUT, RIDGE = 4000, 25, 100, 1e-3


def stream(seed: int) -> tuple[Array, Array]:
    """Return inputs (T, 1) and a target (T, 1) that answers them in another way after half time."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1.0, 1.0, STEPS)
    slow = np.convolve(u, 0.8 ** np.arange(20))[:STEPS]
    fast = u * np.roll(u, 2) - 0.5 * np.roll(u, 1)
    first = np.arange(STEPS) < STEPS // 2
    y = np.where(first, np.tanh(slow), 0.7 * fast) + 0.02 * rng.normal(size=STEPS)
    return u[:, None], y[:, None]


def follow(
    z: Array, y: Array, stop: int, *, forgetting: float = 1.0, window: int | None = None
) -> Array:
    """Return the predictions (T, 1) of a readout that goes on learning until the step `stop`."""
    guess, total = np.zeros_like(y), RidgeStatistics.zero(z.shape[1], 1)
    readout = None
    for start in range(0, len(z), BLOCK):
        rows = slice(start, start + BLOCK)
        if readout is not None:
            guess[rows] = readout(z[rows])
        if start >= stop:
            continue
        if window is None:
            n = len(z[rows])
            weight = forgetting ** np.arange(n - 1.0, -1.0, -1.0)
            new = RidgeStatistics.from_states(z[rows], y[rows], weight=weight)
            total = total.scaled(forgetting**n) + new
        else:  # summed anew: what rounding a subtraction of old rows leaves would pile up
            recent = slice(max(rows.stop - window, 0), rows.stop)
            total = RidgeStatistics.from_states(z[recent], y[recent])
        readout = total.solve(RIDGE)
    return guess


def run(seed: int) -> dict[str, float]:
    u, y = stream(seed)
    reservoir = EchoState(100, seed=seed, leak_rate=1.0, bias_scaling=0.5, washout=WASHOUT)
    features = reservoir.build(1, per_step=True)
    (z,), y = features.rows([u]), y[WASHOUT:]
    T = len(z)
    guesses = {
        "last value": np.vstack([y[:1], y[:-1]]),
        "learned before the change only": follow(z, y, STEPS // 2 - WASHOUT),
        "learns on, forgets nothing": follow(z, y, T),
        "learns on, forgetting 0.995": follow(z, y, T, forgetting=0.995),
        "learns on, window of 500": follow(z, y, T, window=500),
    }
    counted = slice(STEPS // 2, T)
    return {name: nrmse(y[counted], guess[counted]) for name, guess in guesses.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Learning from a stream that drifts.")
    parser.add_argument("--quick", action="store_true", help="two seeds instead of five")
    seeds = range(2 if parser.parse_args().quick else 5)
    with single_blas_thread():  # many small systems: threads would only wait for each other
        runs = [run(seed) for seed in seeds]
    print(f"NRMSE after the change, predicted before learned, mean and sd of {len(seeds)} seeds")
    for name in runs[0]:
        errors = [result[name] for result in runs]
        print(f"{name:32} {np.mean(errors):.4f} ± {np.std(errors, ddof=1):.4f}")


if __name__ == "__main__":
    main()
