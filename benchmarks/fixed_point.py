"""What fixed point costs in accuracy: the tasks of `benchmarks.defaults`, beside float64.

    python -m benchmarks.fixed_point [--quick] [--tasks NARMA]

writes benchmarks/results/fixed_point.json. The first number of bits is that of the dynamics, the
second that of the features which enter the sums. `default` is what a user gets who sets nothing.
Errors: less is better. Seeds 30 to 34 had no part in the choice of the default bits, which was made
on seeds 20 to 24. Synthetic wearables have seeds 40 to 69, because each has few windows to test on.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

from benchmarks.defaults import TASKS, Task, published
from benchmarks.record import write
from catchment.errors import MissingDataError
from catchment.readout import ForecastLimitWarning

FLOAT: dict[str, Any] = {"bits": None, "feature_bits": None}
GRIDS: dict[str, dict[str, Any]] = {
    "default": {},
    "24, 24": {"bits": 24, "feature_bits": 24},
    "20, 20": {"bits": 20, "feature_bits": 20},
    "20, 12": {"bits": 20, "feature_bits": 12},
    "20, 8": {"bits": 20, "feature_bits": 8},
    "20, 6": {"bits": 20, "feature_bits": 6},
    "15, 8": {"bits": 15, "feature_bits": 8},
}
SEEDS = range(30, 35)
LONGER = {"wearables, 100 units": range(40, 70)}  # one window in 160 is 0.6 points of a seed
MORE: dict[str, Task] = {
    "MotionSense, 120 units": published("motionsense", 120),
}


def errors(task: Task, settings: dict[str, Any], seeds: range) -> list[float]:
    return [float(f"{task(seed, settings):.8g}") for seed in seeds]


def main() -> None:
    warnings.simplefilter("ignore", ForecastLimitWarning)
    parser = argparse.ArgumentParser(description="Accuracy in float64 and in fixed point.")
    parser.add_argument("--quick", action="store_true", help="two seeds; writes no file")
    parser.add_argument("--seeds", type=int, default=SEEDS.start, help="the first of the seeds")
    parser.add_argument("--tasks", default="", help="only tasks whose name holds this")
    asked = parser.parse_args()
    seeds = range(asked.seeds, asked.seeds + (2 if asked.quick else len(SEEDS)))
    results: dict[str, object] = {}
    print(f"{'mean error':46}" + "".join(f"{name:>11}" for name in ("float64", *GRIDS)))
    for name, task in (TASKS | MORE).items():
        if asked.tasks not in name:
            continue
        mine = seeds if asked.quick else LONGER.get(name, seeds)
        try:
            exact = errors(task, FLOAT, mine)
        except MissingDataError:
            print(f"{name:46} left out: its data are not here")
            continue
        found = {"float64": exact} | {
            name: errors(task, settings, mine) for name, settings in GRIDS.items()
        }
        results[name] = found
        means = "".join(f"{np.mean(values):11.6f}" for values in found.values())
        print(f"{name:46}{means}", flush=True)
    if not asked.quick and not asked.tasks:
        write("fixed_point", {"seeds": list(seeds), "tasks": results})


if __name__ == "__main__":
    main()
