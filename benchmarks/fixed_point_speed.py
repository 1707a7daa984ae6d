"""What fixed point costs in time: the ten jobs of `benchmarks.jobs`, beside float64.

    python -m benchmarks.fixed_point_speed [--jobs A1,B2] [--repeats 7]

Writes benchmarks/results/fixed_point_speed.json. Every job runs in turns in both,
on one thread; the ratio is that of the quickest CPU times. Targets that are numbers have the bits
of numbers, classes that of classes. `B3c` and `A2c` are B3 and A2 with a class per step, where
products are taken in float32. Bytes are those of one upload.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from benchmarks.jobs import JOBS, LEAK, RIDGE, Problem, make_problem
from benchmarks.record import write
from benchmarks.runners import Work
from benchmarks.timing import once
from catchment import Recording, Reservoir
from catchment.features import EchoState
from catchment.features.echo_state import AUTO_GRID
from catchment.readout import accumulate

PER_STEP = {"B3c": "B3", "A2c": "A2"}
CLASSES = 6


def problem_of(name: str) -> Problem:
    """Return the numbers of a job, or of one with a class per step."""
    if name not in PER_STEP:
        return make_problem(JOBS[name])
    problem = make_problem(JOBS[PER_STEP[name]])
    rng = np.random.default_rng(1)
    labels = [np.eye(CLASSES)[rng.integers(CLASSES, size=len(u))] for u in problem.u]
    return replace(problem, y=labels)


def work_of(problem: Problem, *, classes: bool, in_fixed_point: bool) -> tuple[Work, int]:
    """Return what is timed, and the bytes of its statistics."""
    bits, feature_bits, largest = AUTO_GRID["classes" if classes else "numbers"]
    reservoir = Reservoir.from_matrices(
        problem.W,
        problem.W_in,
        bias=problem.bias,
        leak_rate=LEAK,
        bits=bits if in_fixed_point else None,
        range=largest,
    )
    features = EchoState.of(
        reservoir,
        bias=True,
        pool=problem.job.pool,
        washout=problem.job.washout,
        feature_bits=feature_bits if in_fixed_point else None,
    )
    sequences = [Recording(u, y) for u, y in zip(problem.u, problem.y, strict=True)]

    def work(cores: int) -> np.ndarray:
        total = accumulate(features, sequences, threads=cores, classes=classes)
        return total.solve(RIDGE, intercept=False).weights

    sums = accumulate(features, sequences, threads=1, classes=classes)
    return work, len(sums.parts().to_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description="The ten jobs in float64 and in fixed point.")
    parser.add_argument("--jobs", default="", help="comma-separated, such as A1,B2; all if empty")
    parser.add_argument("--repeats", type=int, default=7)
    asked = parser.parse_args()
    names = asked.jobs.split(",") if asked.jobs else [*JOBS, *PER_STEP]
    results = {}
    print(f"{'us a step':6}{'float64':>10}{'fixed':>10}{'ratio':>8}{'bytes':>8}")
    for name in names:
        problem = problem_of(name)
        classes = name in PER_STEP or problem.job.pool is not None
        works, sizes = zip(
            *(
                work_of(problem, classes=classes, in_fixed_point=in_fixed_point)
                for in_fixed_point in (False, True)
            ),
            strict=True,
        )
        seconds = np.array([[once(work, 1)[0] for work in works] for _ in range(asked.repeats)])
        plain, grid = (float(f"{s:.4g}") for s in seconds.min(axis=0) / problem.n_steps * 1e6)
        results[name] = {
            "float64, us a step": plain,
            "grid, us a step": grid,
            "ratio": round(grid / plain, 3),
            "float64, bytes": sizes[0],
            "grid, bytes": sizes[1],
        }
        print(
            f"{name:9}{plain:10.3f}{grid:10.3f}{grid / plain:8.2f}{sizes[1] / sizes[0]:8.2f}",
            flush=True,
        )
    if not asked.jobs:
        write("fixed_point_speed", {"repeats": asked.repeats, "jobs": results})


if __name__ == "__main__":
    main()
