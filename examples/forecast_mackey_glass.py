"""Mackey-Glass in closed loop: 300 steps ahead on its own predictions, with intervals.

    python examples/forecast_mackey_glass.py [--quick] [--picture FILE]

Once as it is, once measured with noise of a tenth of its deviation. The ridge is chosen by
generalized cross-validation on the training segment. The intervals are split conformal, one width
per horizon: forecasts are started at many moments of a second segment, and the 90 % quantile of
their absolute errors at each horizon is the half width. Errors and coverage are counted on
forecasts from a third segment. Naive: the last value stays; and a linear autoregression on 30 past
values, in closed loop too.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.figure import Figure

import catchment as ct
from catchment.arrays import Array
from catchment.data import mackey_glass

TRAIN, WASHOUT, HORIZON, EVERY, LAGS = 3000, 100, 300, 37, 30


def closed_loop(series: Array, moments: list[int], seed: int) -> Array:
    """Return the reservoir's forecasts (n, HORIZON) from each moment."""
    reservoir = ct.EchoState(300, seed=seed, leak_rate=0.6, input_scaling=1.0, washout=WASHOUT)
    next_value = ct.Preprocessing(horizon=1, scale="none")
    model = ct.fit(ct.Pipeline(next_value, reservoir), [ct.Recording(series[:TRAIN])])
    return np.array([model.forecast(series[t - 2 * WASHOUT : t], HORIZON)[:, 0] for t in moments])


def autoregression(series: Array, moments: list[int]) -> Array:
    """Return what linear regression on past values forecasts, fed with its own predictions."""
    past = np.lib.stride_tricks.sliding_window_view(series[: TRAIN - 1, 0], LAGS)
    inputs = np.column_stack([past, np.ones(len(past))])
    weights = np.linalg.lstsq(inputs, series[LAGS:TRAIN, 0], rcond=None)[0]
    path = np.array([series[t - LAGS : t, 0] for t in moments])
    for _ in range(HORIZON):
        path = np.column_stack([path, path[:, -LAGS:] @ weights[:-1] + weights[-1]])
    return np.asarray(path[:, LAGS:])


def run(seed: int, noise: float, n: int, picture: str | None) -> dict[str, float]:
    """Return the errors 84 steps ahead, and the share of true values inside the intervals."""
    second = TRAIN + 2 * WASHOUT
    third = second + EVERY * n + HORIZON
    calibration, test = ([first + EVERY * k for k in range(n)] for first in (second, third))
    series = mackey_glass(test[-1] + HORIZON, seed=seed) - 1.0
    deviation = series[:TRAIN].std()
    seen = series + noise * deviation * np.random.default_rng(seed).normal(size=series.shape)
    true = np.array([series[t : t + HORIZON, 0] for t in calibration + test])
    paths = closed_loop(seen, calibration + test, seed)
    # The rank of n + 1 makes the share hold for a new path (split conformal prediction).
    radius = np.sort(np.abs(paths - true)[:n], axis=0)[-(-9 * (n + 1) // 10) - 1]
    ahead, true = paths[n:], true[n:]
    if picture:
        figure, steps = Figure((9, 3.6), layout="constrained"), np.arange(1, HORIZON + 1)
        axes = figure.subplots()
        axes.plot(np.arange(-99, 1), seen[test[0] - 100 : test[0]], label="history")
        axes.plot(steps, true[0], label="truth")
        axes.plot(steps, ahead[0], label="forecast")
        axes.fill_between(steps, ahead[0] - radius, ahead[0] + radius, alpha=0.2, label="90 %")
        axes.set(xlabel="steps since the last observation", ylabel="value")
        axes.legend()
        figure.savefig(picture)

    def error(guess: Array) -> float:
        return float(np.sqrt(np.mean((guess[:, 83] - true[:, 83]) ** 2)) / deviation)

    return {
        "last value": error(np.repeat(seen[[t - 1 for t in test]], HORIZON, axis=1)),
        "linear autoregression": error(autoregression(seen, test)),
        "reservoir, N = 300": error(ahead),
        "coverage, 90 % asked": float(np.mean(np.abs(ahead - true) <= radius)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Closed-loop forecasts of Mackey-Glass.")
    parser.add_argument("--quick", action="store_true", help="two seeds, fewer forecasts")
    parser.add_argument("--picture", default="mackey_glass.png", help="where to draw one forecast")
    arguments = parser.parse_args()
    n, seeds = (12, range(2)) if arguments.quick else (40, range(5))
    clean = [run(seed, 0.0, n, None) for seed in seeds]
    noisy = [run(seed, 0.1, n, None if seed else arguments.picture) for seed in seeds]
    print(f"Mackey-Glass, NRMSE 84 steps ahead in closed loop, {n} starts, {len(seeds)} seeds")
    print(f"{'':24} {'clean':18} {'with noise':18}")
    for name in clean[0]:
        cells = [np.array([result[name] for result in runs]) for runs in (clean, noisy)]
        print(f"{name:24}", *(f"{cell.mean():.4f} ± {cell.std(ddof=1):.4f}   " for cell in cells))
    print(f"picture: {arguments.picture}")


if __name__ == "__main__":
    main()
