"""What does choosing the ridge and the recipe on left-out clients bring in forecasting?

One step ahead, one series cut into consecutive clients, its last 30 % for test; NRMSE after the
washout. Beside the reservoirs stand persistence and a linear autoregression, federated by the very
same code (a delay line of linear units). Nothing is chosen on test data: everything comes from the
clients' statistics.

The TED spread is read from the esnfed package, and esnfed's own federated ridge with the settings
of its tutorial and of its published experiment is measured in the same run. Without esnfed that
part is left out:

    python -m benchmarks.selection    # writes benchmarks/results/selection.json
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.record import RESULTS, write
from catchment import Array
from catchment.data import Dealt, Recording, Scaler, contiguous
from catchment.engine import run_locally
from catchment.features import EchoState, Reservoir
from catchment.federation import Plan
from catchment.federation.learn import Candidates, FederatedRidge
from catchment.federation.measure import evaluate
from catchment.readout import Model, nrmse
from reproductions.places import load

TRAIN = 0.7
LAGS = (1, 2, 5, 10, 20)
GRID = tuple(product((0.3, 1.0), (0.5, 0.95), (0.05, 0.2, 0.5, 1.0)))


@dataclass(frozen=True, eq=False)
class Task:
    """A series to forecast: clients to learn from, and the later part to test on."""

    name: str
    clients: Dealt
    test: Recording
    washout: int

    @classmethod
    def of(cls, name: str, series: Array, n_clients: int, washout: int) -> Task:
        """Return the task of predicting the next value, scaled by the training part."""
        cut = int(TRAIN * (len(series) - 1))
        past = Recording(series[: cut + 1])
        s = Scaler.fit([past])(series[:, None])
        u, y = s[:-1], s[1:]
        clients = contiguous(Recording(u[:cut], y[:cut]), n_clients)
        return cls(name, clients, Recording(u[cut:], y[cut:]), washout)

    def error(self, model: Model) -> float:
        return evaluate(model, lambda: [self.test]).value

    def persistence(self) -> float:
        assert self.test.y is not None
        return nrmse(self.test.y[self.washout :], self.test.u[self.washout :])


def reservoir_features(
    task: Task,
    seed: int,
    *,
    units: int,
    leak_rate: float = 0.5,
    spectral_radius: float = 0.9,
    input_scaling: float = 1.0,
) -> EchoState:
    """Return features of a reservoir; unless told otherwise with the peer's settings."""
    recipe = Reservoir(
        units=units,
        inputs=1,
        density=0.1,
        leak_rate=leak_rate,
        spectral_radius=spectral_radius,
        input_scaling=input_scaling,
        seed=seed,
    )
    return EchoState.of(recipe, washout=task.washout)


def lag_features(task: Task, n_lags: int) -> EchoState:
    """Return the last values of the input as features: a delay line of linear units."""
    first = np.eye(n_lags)[:, :1]
    line = Reservoir.from_matrices(np.eye(n_lags, k=-1), first, activation="identity")
    return EchoState.of(line, input=False, washout=task.washout)


@dataclass(frozen=True)
class Run:
    """One trained forecaster: its test error, what it cost, what was chosen."""

    nrmse: float
    seconds: float
    bytes_up: int
    chosen: str = ""


def run_ridge(task: Task, features: EchoState, *, fixed: float | None = None) -> Run:
    algorithm = FederatedRidge(
        features=features, ridge="leave-one-client-out" if fixed is None else fixed
    )
    began = time.perf_counter()
    result = run_locally(Plan(algorithm=algorithm), task.clients)
    seconds = time.perf_counter() - began
    assert result.model is not None
    ridge = result.model.readout.ridge
    sent = sum(record.bytes_up for record in result.records)
    return Run(task.error(result.model), seconds, sent, f"ridge {float(ridge):.3g}")


def run_candidates(task: Task, candidates: Mapping[str, EchoState]) -> Run:
    algorithm = Candidates(features=tuple(candidates.values()))
    began = time.perf_counter()
    result = run_locally(Plan(algorithm=algorithm), task.clients)
    seconds = time.perf_counter() - began
    assert result.model is not None
    assert result.state.best is not None
    name = list(candidates)[result.state.best]
    sent = sum(record.bytes_up for record in result.records)
    ridge = float(np.asarray(result.model.readout.ridge))
    return Run(task.error(result.model), seconds, sent, f"{name}, ridge {ridge:.3g}")


def recipes(task: Task, seed: int, units: int) -> dict[str, EchoState]:
    """Return the candidates by name."""
    return {
        f"leak {a:g} radius {rho:g} scaling {scale:g}": reservoir_features(
            task, seed, units=units, leak_rate=a, spectral_radius=rho, input_scaling=scale
        )
        for a, rho, scale in GRID
    }


def measure(task: Task, *, units: int, seeds: int) -> list[dict[str, object]]:
    """Return one row per forecaster."""
    lags = {f"{n} lags": lag_features(task, n) for n in LAGS}
    rows = [
        {"forecaster": "persistence", "nrmse": task.persistence()},
        row("linear autoregression, lags and ridge chosen", [run_candidates(task, lags)]),
    ]
    ways: dict[str, Callable[[int], Run]] = {
        "reservoir, peer's settings, ridge 1e-6": lambda seed: run_ridge(
            task, reservoir_features(task, seed, units=units), fixed=1e-6
        ),
        "reservoir, peer's settings, ridge chosen": lambda seed: run_ridge(
            task, reservoir_features(task, seed, units=units)
        ),
        f"{len(GRID)} recipes in one round, ridge chosen": lambda seed: run_candidates(
            task, recipes(task, seed, units)
        ),
    }
    rows += [row(name, [way(seed) for seed in range(seeds)]) for name, way in ways.items()]
    return rows


def row(name: str, runs: list[Run]) -> dict[str, object]:
    """Return the mean over seeds, with the range, and what the last seed chose."""
    errors = [run.nrmse for run in runs]
    return {
        "forecaster": name,
        "nrmse": float(np.mean(errors)),
        "nrmse_range": [min(errors), max(errors)],
        "seconds": round(float(np.mean([run.seconds for run in runs])), 3),
        "bytes_up": int(np.mean([run.bytes_up for run in runs])),
        "chosen": [run.chosen for run in runs],
    }


def ted_spread() -> Array | None:
    """Return the series that the esnfed package carries; None if it is not installed."""
    try:
        text = files("esnfed").joinpath("data", "ted_spread.csv").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        return None
    values = [line[1] for line in csv.reader(text.splitlines()[1:])]
    return np.array([float(value) for value in values if value not in ("", ".")])


def peer(seeds: int) -> list[dict[str, object]]:
    """Return what esnfed's own federated ridge scores with its published settings."""
    from esnfed import datasets, federated, metrics, topologies

    u, y = datasets.load_ted_spread()
    u_train, y_train, u_test, y_test = datasets.split(u, y, TRAIN)
    parts = datasets.partition_iid(u_train, y_train, 10)
    rows = []
    for name, ridge, washout in (("tutorial", 1e-6, 100), ("experiment", 1e-5, 50)):
        settings = {"spectral_radius": 0.9, "leaking_rate": 0.5, "ridge": ridge, "washout": washout}
        errors = []
        for seed in range(seeds):
            W = topologies.random_reservoir(200, density=0.1, rng=seed)
            clients, shared = federated.make_shared_clients(
                W, parts, input_seed=0, esn_kwargs=settings
            )
            readout = federated.federated_ridge(clients, shared)
            states = shared.harvest(u_test)[washout:]
            errors.append(float(metrics.nrmse(y_test[washout:], states @ readout)))
        rows.append(
            {
                "forecaster": f"esnfed, settings of its {name}",
                "nrmse": float(np.mean(errors)),
                "nrmse_range": [min(errors), max(errors)],
            }
        )
    return rows


def tasks() -> list[Task]:
    """Return the forecasts whose data are at hand."""
    laser = load("santafe_laser").clients
    sunspots = load("sunspots").clients
    found = [
        Task.of("santafe_laser", _series(laser), 10, 100),
        Task.of("sunspots", _series(sunspots), 5, 10),
    ]
    ted = ted_spread()
    return found if ted is None else [Task.of("ted_spread", ted, 10, 100), *found]


def _series(clients: Mapping[str, list[Recording]]) -> Array:
    (sequences,) = clients.values()
    (sequence,) = sequences
    assert sequence.y is not None
    return np.append(sequence.u[:, 0], sequence.y[-1, 0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args()
    results: dict[str, object] = {"units": options.units, "seeds": options.seeds}
    for task in tasks():
        rows = measure(task, units=options.units, seeds=options.seeds)
        if task.name == "ted_spread":
            rows += peer(options.seeds)
        results[task.name] = rows
        print(task.name)
        for line in rows:
            print(f"  {line['nrmse']:.4f}  {line['forecaster']}")
    write("selection", results, folder=options.out)


if __name__ == "__main__":
    main()
