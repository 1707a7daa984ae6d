"""How good is a model with nothing set? The defaults of `EchoState` against those before them.

    python -m benchmarks.defaults [--quick]    # writes benchmarks/results/defaults.json

Every task is learned by `catchment.fit` or `catchment.federate` with nothing set but the units, the
washout and the seed. `before` is the recipe that was the default until it was replaced: spectral
radius 0.9, input scaling 0.5, leak rate 0.3, for every kind of target. Where a recording has one
target it still is the default, so those tasks are there to show that nothing moved.

The new values were chosen on seeds 0 to 4 of NARMA-10, Mackey-Glass (closed loop, clean and noisy,
and six steps ahead by five clients), river stations, ETTh1, Japanese Vowels, synthetic wearables,
UCI HAR and five UCR sets. Seeds 20 to 24, used here, had no part in that. Errors: less is better.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import catchment as ct
from benchmarks.record import write
from catchment import Array
from catchment.data import ACTIVITIES, contiguous, mackey_glass, narma, synthetic_wearables
from catchment.errors import MissingDataError
from catchment.readout import ForecastLimitWarning, nrmse
from examples.sensor_folder import STATIONS, write_station
from reproductions.places import load

BEFORE: dict[str, Any] = {"spectral_radius": 0.9, "input_scaling": 0.5, "leak_rate": 0.3}
SEEDS = range(20, 25)
Task = Callable[[int, dict[str, Any]], float]


def narma_error(units: int) -> Task:
    """Return the task of following NARMA-10: NRMSE on a series of its own."""

    def task(seed: int, settings: dict[str, Any]) -> float:
        train, test = narma(2000, seed=1000 + 2 * seed), narma(2000, seed=1001 + 2 * seed)
        model = ct.fit(ct.EchoState(units, seed=seed, washout=100, **settings), [train])
        assert test.y is not None
        return nrmse(test.y[100:], model.predict(test.u))

    return task


def closed_loop(noise: float) -> Task:
    """Return the task of going on with Mackey-Glass: RMSE in deviations, 84 steps ahead."""

    def task(seed: int, settings: dict[str, Any]) -> float:
        starts = [3200 + 37 * k for k in range(24)]
        clean = mackey_glass(starts[-1] + 84, seed=seed)
        seen = clean + noise * clean.std() * np.random.default_rng(seed).normal(size=clean.shape)
        pipeline = ct.Pipeline(
            ct.Preprocessing(horizon=1), ct.EchoState(300, seed=seed, washout=100, **settings)
        )
        model = ct.fit(pipeline, [ct.Recording(seen[:3000])])
        ahead = [model.forecast(seen[t - 200 : t], 84)[-1] for t in starts]
        error = np.array(ahead)[:, 0] - clean[[t + 83 for t in starts], 0]
        return float(np.sqrt(np.mean(error**2)) / clean[:3000].std())

    return task


def by_clients(units: int) -> Task:
    """Return the task of five clients: Mackey-Glass six steps ahead, NRMSE on its last quarter."""

    def task(seed: int, settings: dict[str, Any]) -> float:
        series = mackey_glass(4000, seed=seed)
        train = contiguous(ct.Recording(series[:3000]), 5)
        pipeline = ct.Pipeline(
            ct.Preprocessing(horizon=6), ct.EchoState(units, seed=seed, washout=100, **settings)
        )
        model = ct.federate(pipeline, train).model
        return total(ct.evaluate(model, {"later": [ct.Recording(series[3000:])]}))

    return task


def stations(seed: int, settings: dict[str, Any]) -> float:
    """Return the NRMSE of the level at two other river stations, from files with gaps."""
    with tempfile.TemporaryDirectory() as folder:
        for station in range(STATIONS):
            write_station(Path(folder) / f"station-{station:02d}.csv", seed, station)
        clients = ct.read(Path(folder) / "*.csv", target="level", time="hour")
        train, test = ct.split(clients, test=2, seed=None)
        described = ct.EchoState(200, seed=seed, washout=100, **settings)
        return total(ct.evaluate(ct.federate(described, train).model, test))


def wearables(units: int) -> Task:
    """Return the task of telling what four other people do: error rate, 12 people learning."""

    def task(seed: int, settings: dict[str, Any]) -> float:
        people = synthetic_wearables(16, seed)
        train, test = ct.split(people, test=4, seed=None)
        described = ct.EchoState(units, seed=seed, **settings)
        model = ct.federate(described, train, classes=ACTIVITIES).model
        return 1.0 - total(ct.evaluate(model, test))

    return task


def published(name: str, units: int, *, together: bool = False) -> Task:
    """Return the task of a public set: error rate on its own test clients.

    Each speaker of Japanese Vowels is one client and one class, which nobody could tell who has
    not seen it, so there one owner learns from all of them together.
    """

    def task(seed: int, settings: dict[str, Any]) -> float:
        data = load(name)
        described = ct.EchoState(units, seed=seed, **settings)
        if together:
            everything = [recording for held in data.train.values() for recording in held]
            model = ct.fit(described, everything, classes=data.classes)
        else:
            model = ct.federate(described, data.train, classes=data.classes).model
        return 1.0 - total(ct.evaluate(model, data.test))

    return task


def total(scores: Any) -> float:
    return float(scores.total.value)


TASKS: dict[str, Task] = {
    "NARMA-10, 50 units": narma_error(50),
    "NARMA-10, 200 units": narma_error(200),
    "NARMA-10, 500 units": narma_error(500),
    "Mackey-Glass closed loop, 84 steps": closed_loop(0.0),
    "the same with noise 0.1": closed_loop(0.1),
    "Mackey-Glass 6 ahead, 5 clients, 50 units": by_clients(50),
    "Mackey-Glass 6 ahead, 5 clients, 200 units": by_clients(200),
    "river stations, 8 clients": stations,
    "wearables, 100 units": wearables(100),
    "Japanese Vowels, 120 units": published("japanese_vowels", 120, together=True),
    "UCI HAR, 120 units": published("uci_har", 120),
}


def measured(task: Task, seeds: range) -> dict[str, object] | None:
    """Return the errors before and now by seed; None if the data are not there."""
    try:
        before, now = (
            np.array([task(seed, settings) for seed in seeds]) for settings in (BEFORE, {})
        )
    except MissingDataError:
        return None
    difference = now - before
    return {
        "before": listed(before),
        "now": listed(now),
        "mean_before": float(before.mean()),
        "mean_now": float(now.mean()),
        "difference": float(difference.mean()),
        "standard_error": float(difference.std(ddof=1) / np.sqrt(len(seeds))),
    }


def listed(values: Array) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def main() -> None:
    warnings.simplefilter("ignore", ForecastLimitWarning)
    parser = argparse.ArgumentParser(description="Default settings, before and now.")
    parser.add_argument("--quick", action="store_true", help="two seeds; writes no file")
    quick = parser.parse_args().quick
    seeds = SEEDS[:2] if quick else SEEDS
    results: dict[str, object] = {}
    print(f"{'':46} {'before':>9} {'now':>9} {'difference':>11} {'se':>8}")
    for name, task in TASKS.items():
        found = measured(task, seeds)
        if found is None:
            print(f"{name:46} left out: its data are not here")
            continue
        results[name] = found
        numbers = (found[key] for key in ("mean_before", "mean_now", "difference"))
        cells = "".join(f" {value:9.5f}" for value in numbers)
        print(f"{name:46}{cells}  {found['standard_error']:9.5f}", flush=True)
    if not quick:
        write("defaults", {"seeds": list(seeds), "tasks": results})


if __name__ == "__main__":
    main()
