"""Maps with a row per step: how well they follow dynamics, and how long the jobs A2 to A6 take.

    python -m benchmarks.dynamics [--parts jobs] [--jobs A2,A3] [--quick]

Writes benchmarks/results/dynamics.json and .md; parts that are not measured anew stay as they were.
Three tasks at 400 features or a few less: NARMA-10 as in examples/narma.py, Mackey-Glass 84 steps
ahead, and Lorenz's x ten steps (0.2 time units) ahead. Every map has a list of settings; which one
is taken for a task is decided on the series of two seeds that are not used otherwise, and the ridge
by generalized cross-validation on the training series. Inputs have mean 0 and deviation 1.

The jobs are those of `benchmarks.jobs`, on one thread, taken in turns: an echo state network in
float64 and in fixed point, and a diagonal reservoir in fixed point whose statistics take
every k-th row; its settings were chosen on other seeds, its units and k in part after errors of
the reported seeds had been seen. Errors beside the times are on NARMA-10 and Mackey-Glass series of
as many steps; those of the echo state network are as it is timed and with its defaults, not tuned.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import numpy as np

import catchment as ct
from benchmarks.dynamics_table import write_table
from benchmarks.fixed_point_speed import work_of
from benchmarks.jobs import JOBS, LEAK, RADIUS, RIDGE, Job, Problem, make_problem
from benchmarks.record import RESULTS, write
from benchmarks.runners import Work
from benchmarks.timing import once
from catchment import Array
from catchment.data import mackey_glass, narma
from catchment.features import FeatureMap
from catchment.readout import accumulate, nrmse
from catchment_research import known_series

TRAIN, TEST, WASHOUT, FEATURES, LAGS = 4000, 2000, 200, 400, 30
AHEAD, LORENZ_AHEAD = 84, 10
CHOOSING = (100, 101)  # seeds of the series on which settings are chosen
Split = tuple[ct.Recording, ct.Recording]
Described = Callable[..., FeatureMap]


@cache
def narma_task(seed: int, n_train: int = TRAIN) -> Split:
    return narma(n_train, seed=2 * seed), narma(TEST, seed=2 * seed + 1)


def _ahead(u: Array, y: Array, steps: int, n_train: int) -> Split:
    train, test = slice(n_train), slice(n_train, n_train + TEST)
    return ct.Recording(u[train], y[steps:][train]), ct.Recording(u[test], y[steps:][test])


@cache
def mackey_glass_task(seed: int, n_train: int = TRAIN) -> Split:
    x = mackey_glass(n_train + TEST + AHEAD, seed=seed)
    return _ahead(x, x, AHEAD, n_train)


@cache
def lorenz_task(seed: int, n_train: int = TRAIN) -> Split:
    x = known_series("lorenz", n_train + TEST + LORENZ_AHEAD, seed=seed)[:, :1]
    return _ahead(x, x, LORENZ_AHEAD, n_train)


TASKS = {"NARMA-10": narma_task, "Mackey-Glass": mackey_glass_task, "Lorenz": lorenz_task}
SMOOTH: dict[str, Any] = {
    "nonlinearity": "mix",
    "frequencies": 0.1,
    "memory": (3.0, 20.0),
    "leak_rate": (0.05, 0.5),
    "gain": 3.0,
}


def error(described: FeatureMap, split: Split, every: int = 1) -> float:
    """Return the NRMSE on the test series after the washout, learned from every n-th row."""
    train, test = split
    model = ct.federate(described, {"one": [train]}, ridge="gcv", row_stride=every).model
    assert test.y is not None
    return nrmse(test.y[WASHOUT:], model.predict(test.u))


def mean_error(split: Split) -> float:
    train, test = split
    assert train.y is not None
    assert test.y is not None
    y = test.y[WASHOUT:]
    return nrmse(y, np.full_like(y, train.y[WASHOUT:].mean()))


def candidates() -> dict[str, list[tuple[Described, dict[str, Any]]]]:
    """Return the settings that each map may have."""
    units, n = FEATURES - 1, FEATURES
    delay_line: dict[str, Any] = {
        "topology": "delay_line",
        "random_signs": True,
        "spectral_radius": 0.85,
        "leak_rate": 1.0,
        "input_scaling": 0.015,  # 0.1 for inputs of deviation 1/7, as in examples/narma.py
        "bias_scaling": 0.5,
    }
    echo: list[dict[str, Any]] = [{}, delay_line]
    echo += [
        {"input_scaling": scaling, "leak_rate": leak, "spectral_radius": radius}
        for scaling in (0.1, 0.5, 1.0)
        for leak in (0.3, 1.0)
        for radius in (0.9, 1.0)
    ]
    diagonal: list[dict[str, Any]] = [{}]
    diagonal += [
        {"nonlinearity": "products", "frequencies": share, "memory": memory}
        for share in (1.0, 0.3)
        for memory in ((1.0, 10.0), (1.0, 30.0))
    ]
    diagonal += [
        {"nonlinearity": "mix", "frequencies": share, "gain": gain}
        for share in (1.0, 0.3, 0.1)
        for gain in (2.0, 4.0, 8.0)
    ]
    diagonal += [SMOOTH | {"states": 40, "gain": gain} for gain in (2.0, 3.0, 5.0)]
    nvar = [{"delays": 26, "stride": s, "order": 2} for s in (1, 2, 4, 6)]
    nvar += [{"delays": 11, "stride": s, "order": 3} for s in (1, 2, 4, 6)]
    random = [{"stride": s, "scale": k} for s in (1, 2, 4) for k in (0.1, 0.3)]
    return {
        f"linear, last {LAGS} inputs": [(partial(_delays, LAGS), {})],
        "EchoState, defaults": [(partial(_seeded, ct.EchoState, units), {})],
        "EchoState": [(partial(_seeded, ct.EchoState, units), one) for one in echo],
        "NVAR": [(_nvar, one) for one in nvar],
        "RandomFourierFeatures of 30 delays": [(partial(_fourier, n), one) for one in random],
        "DiagonalReservoir, defaults": [(partial(_seeded, ct.DiagonalReservoir, units), {})],
        "DiagonalReservoir": [
            (partial(_seeded, ct.DiagonalReservoir, units), one) for one in diagonal
        ],
    }


def _seeded(kind: Any, units: int, seed: int, **settings: Any) -> FeatureMap:
    found: FeatureMap = kind(units, seed=seed, washout=WASHOUT, **settings)
    return found


def _delays(lags: int, seed: int) -> FeatureMap:
    return ct.NVAR(lags, order=1, washout=WASHOUT)


def _nvar(seed: int, **settings: Any) -> FeatureMap:
    return ct.NVAR(washout=WASHOUT, **settings)


def _fourier(n: int, seed: int, *, stride: int, scale: float) -> FeatureMap:
    inner = ct.NVAR(LAGS, stride, order=1, washout=WASHOUT)
    return ct.RandomFourierFeatures(inner, features=n, seed=seed, scale=scale)


def follow(seeds: Iterable[int]) -> dict[str, Any]:
    """Return the errors of every map on every task, its settings chosen on other series."""
    found: dict[str, Any] = {}
    for task, series in TASKS.items():
        rows: dict[str, Any] = {
            "mean of the target": _row([mean_error(series(seed)) for seed in seeds], {}, 1)
        }
        for name, settings in candidates().items():
            make, chosen = settings[0]
            if len(settings) > 1:
                scores = [
                    np.mean([error(make(seed, **one), series(seed)) for seed in CHOOSING])
                    for make, one in settings
                ]
                make, chosen = settings[int(np.argmin(scores))]
            errors = [error(make(seed, **chosen), series(seed)) for seed in seeds]
            n_features = make(0, **chosen).build(1, per_step=True).n_features
            rows[name] = _row(errors, chosen, n_features)
            print(f"{task:14}{name:30}{rows[name]['nrmse']:8.4f}  {chosen}", flush=True)
        found[task] = rows
    return found


def _row(errors: list[float], chosen: dict[str, Any], n_features: int) -> dict[str, Any]:
    spread = float(np.std(errors, ddof=1)) if errors[1:] else 0.0
    return {
        "nrmse": round(float(np.mean(errors)), 4),
        "sd": round(spread, 4),
        "features": n_features,
        "settings": chosen,
    }


def thinning(seeds: Iterable[int], kept: Iterable[int] = (1, 2, 4, 8, 16)) -> dict[str, Any]:
    """Return the errors of reservoirs of 200 units that learn from every k-th of 16 000 rows."""
    found: dict[str, Any] = {}
    tasks = {
        "NARMA-10": (narma_task, {"nonlinearity": "products"}),
        "Mackey-Glass": (mackey_glass_task, SMOOTH),
    }
    for task, (series, settings) in tasks.items():
        for every in kept:
            errors = [
                error(
                    _seeded(ct.DiagonalReservoir, 200, seed, **settings),
                    series(seed, 16_000),
                    every,
                )
                for seed in seeds
            ]
            found.setdefault(task, {})[str(every)] = round(float(np.mean(errors)), 4)
    return found


# Units of the diagonal reservoir and of how many rows one is learned from.
SIZES = {"A2": (450, 7), "A3": (750, 5), "A4": (1000, 2), "A5": (750, 2), "A6": (220, 24)}
DYNAMICS: dict[str, dict[str, Any]] = {
    "NARMA-10": {"nonlinearity": "products"},
    "Mackey-Glass": SMOOTH,
}


def diagonal_work(problem: Problem, units: int, every: int, settings: dict[str, Any]) -> Work:
    """Return the job with a diagonal reservoir: statistics and a solve."""
    features = ct.DiagonalReservoir(units, **settings).build(problem.job.inputs, per_step=True)
    sequences = [ct.Recording(u, y) for u, y in zip(problem.u, problem.y, strict=True)]

    def work(cores: int) -> Array:
        total = accumulate(features, sequences, threads=cores, classes=False, row_stride=every)
        return total.solve(RIDGE).weights

    return work


def job_errors(job: Job, task: str, seeds: Iterable[int]) -> dict[str, float]:
    """Return the errors of networks of a job's size on a task with as many steps."""
    units, every = SIZES[job.name]
    as_timed: dict[str, Any] = {
        "topology": "random",
        "density": job.density,
        "spectral_radius": RADIUS,
        "leak_rate": LEAK,
        "input_scaling": 0.5,
        "bias_scaling": 0.2,
        "bias": True,
    }
    maps: dict[str, Callable[[int], FeatureMap]] = {
        "EchoState as timed": lambda s: _seeded(ct.EchoState, job.units, s, **as_timed),
        "EchoState, defaults": lambda s: _seeded(ct.EchoState, job.units, s),
        "diagonal": lambda s: _seeded(ct.DiagonalReservoir, units, s, **DYNAMICS[task]),
    }
    series = TASKS[task]

    def one_error(make: Callable[[int], FeatureMap], name: str, seed: int) -> float:
        stride = every if name == "diagonal" else 1
        return error(make(seed), series(seed, job.steps[0]), stride)

    return {
        name: round(float(np.mean(list(map(partial(one_error, make, name), seeds)))), 4)
        for name, make in maps.items()
    }


def jobs(names: Iterable[str], seeds: Iterable[int], repeats: int) -> dict[str, Any]:
    """Return times and errors of the jobs A2 to A6."""
    found: dict[str, Any] = {}
    for name in names:
        units, every = SIZES[name]
        problem = make_problem(JOBS[name])
        works = {
            "float64": work_of(problem, classes=False, in_fixed_point=False)[0],
            "grid": work_of(problem, classes=False, in_fixed_point=True)[0],
        }
        works |= {
            task: diagonal_work(problem, units, every, settings)
            for task, settings in DYNAMICS.items()
        }
        seconds = np.array([[once(work, 1)[0] for work in works.values()] for _ in range(repeats)])
        micros = dict(zip(works, seconds.min(axis=0) / problem.n_steps * 1e6, strict=True))
        found[name] = {
            "echo state": {"units": JOBS[name].units, "steps": problem.n_steps},
            "diagonal": {"units": units, "every": every},
            "us a step": {key: float(f"{value:.3g}") for key, value in micros.items()},
            "errors": {task: job_errors(JOBS[name], task, seeds) for task in DYNAMICS},
        }
        print(name, found[name], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Maps with a row per step.")
    parser.add_argument("--parts", default="jobs,thinning,dynamics", help="what is measured")
    parser.add_argument("--jobs", default=",".join(SIZES), help="such as A2,A6")
    parser.add_argument("--quick", action="store_true", help="two seeds; nothing is written")
    asked = parser.parse_args()
    seeds = range(2 if asked.quick else 5)
    path = RESULTS / "dynamics.json"
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for part in asked.parts.split(","):
        if part == "jobs":
            several = seeds[:1] if asked.quick else seeds[:3]
            found = jobs(asked.jobs.split(","), several, 2 if asked.quick else 15)
            found = dict(sorted((results.get("jobs", {}) | found).items()))
        else:
            found = {"thinning": thinning, "dynamics": follow}[part](seeds)
        results = json.loads(path.read_text()) if path.exists() else {}
        results |= {"seeds": len(seeds), part: found}
        if not asked.quick:
            write_table(results, write("dynamics", results).with_suffix(".md"))


if __name__ == "__main__":
    main()
