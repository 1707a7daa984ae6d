"""Jobs of many sequences, ours against all of them in lockstep: what one writes without a library.

    python -m benchmarks.lockstep [--jobs B1,B2] [--repeats 9] [--quick]

All sequences of a job advance together, one matrix product per step (`batched.py`). The libraries
that `peers.py` times run one sequence after the other; a long series (its jobs A) leaves nothing to
put side by side. CPU seconds on one core, the least of the repeats, because a busy machine only
ever adds to them; runners take turns. Writes results/lockstep.json, in which each machine has its
own part; runners whose library is not installed are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.batched import jax_lockstep, numpy_lockstep, torch_lockstep
from benchmarks.jobs import JOBS, Job, Problem, make_problem
from benchmarks.record import machine
from benchmarks.runners import OURS, RUNNERS, Runner, Work, naive_features
from catchment import Array

RESULTS = Path(__file__).parent / "results" / "lockstep.json"
MANY = tuple(name for name, job in JOBS.items() if job.n_sequences > 1)
LOCKSTEP: dict[str, Runner] = {
    "numpy": numpy_lockstep(sparse=False),
    "numpy csr": numpy_lockstep(sparse=True),
    "torch": torch_lockstep,
    "jax": jax_lockstep,
}
TITLES = {"numpy": "numpy", "numpy csr": "numpy, W sparse", "torch": "torch", "jax": "JAX"}
NEEDS = {"torch": "torch", "jax": "jax", "esnfed": "esnfed", "esnfed sparse": "esnfed"}
BESIDE = ("numpy loop", "esnfed", "esnfed sparse")  # one sequence after the other


def runners() -> dict[str, Runner]:
    """Return ours, those in lockstep and those one after the other, as far as installed."""
    known = {OURS: RUNNERS[OURS], **LOCKSTEP, **{name: RUNNERS[name] for name in BESIDE}}
    return {name: one for name, one in known.items() if find_spec(NEEDS.get(name, "numpy"))}


def measure(job: Job, repeats: int) -> dict[str, Any]:
    """Return the least CPU seconds of every runner, and how far its predictions are from ours."""
    problem = make_problem(job)
    works = {name: runner(problem) for name, runner in runners().items()}
    found = {name: predictions(problem, work) for name, work in works.items()}  # and compiles
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats):
        for name, work in works.items():
            if name in BESIDE and turn > 1:
                continue  # slow, and there for orientation
            began = time.process_time()
            work(1)
            seconds[name].append(time.process_time() - began)
    scale = float(found[OURS].std())
    return {
        "kind": job.kind,
        "units": job.units,
        "density": job.density,
        "n_sequences": len(problem.u),
        "n_steps": problem.n_steps,
        "cpu_seconds": {name: min(each) for name, each in seconds.items()},
        "all_repeats": seconds,
        "largest_difference_of_predictions": {
            name: float(np.abs(one - found[OURS]).max()) / scale for name, one in found.items()
        },
    }


def predictions(problem: Problem, work: Work) -> Array:
    """Run once, and return what the readout says of the first sequences."""
    weights = work(1)
    return np.vstack([naive_features(problem, u) @ weights for u in problem.u[:20]])


def best(job: Mapping[str, Any]) -> tuple[str, float]:
    """Return the quickest runner in lockstep, and how many times as fast as it ours is."""
    cpu = job["cpu_seconds"]
    name = min((name for name in LOCKSTEP if name in cpu), key=lambda name: float(cpu[name]))
    return name, cpu[name] / cpu[OURS]


def lockstep_table(results: Mapping[str, Any]) -> str:
    """Return CPU microseconds per step and ratios of every machine, as Markdown."""
    names = [OURS, *LOCKSTEP]
    lines = [
        f"| job | units, connected | machine | catchment | {' | '.join(TITLES.values())} "
        "| numpy loop | faster than numpy in lockstep | than the best of them |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in MANY:
        for part in results["machines"]:
            job = part["jobs"][name]
            micro = {who: 1e6 * s / job["n_steps"] for who, s in job["cpu_seconds"].items()}
            cells = [f"{micro[who]:.2f}" if who in micro else "-" for who in names]
            who, ratio = best(job)
            dense = job["cpu_seconds"]["numpy"] / job["cpu_seconds"][OURS]
            lines.append(
                f"| {name} {job['kind']} | {job['units']}, {job['density']:.0%} | {part['short']} "
                f"| {' | '.join(cells)} | {micro['numpy loop']:.1f} | {dense:.1f}× "
                f"| {ratio:.1f}× ({TITLES[who]}) |"
            )
    return "\n".join(lines)


def main() -> None:
    options = _options()
    # JAX starts as many threads as it may use when it is imported, which is later.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with threadpool_limits(limits=1):
        _measure_all(options)


def _measure_all(options: argparse.Namespace) -> None:
    jobs: dict[str, Any] = {}
    for name in options.jobs.split(","):
        job = JOBS[name].shortened(0.1) if options.quick else JOBS[name]
        jobs[name] = measure(job, options.repeats)
        if not options.quick:
            keep(jobs, options.repeats, options.out)
        who, ratio = best(jobs[name])
        for one, seconds in jobs[name]["cpu_seconds"].items():
            apart = jobs[name]["largest_difference_of_predictions"][one]
            micro = 1e6 * seconds / jobs[name]["n_steps"]
            print(f"{name}  {one:14} {micro:8.2f} us a step, predictions within {apart:.0e}")
        print(f"{name}  ours is {ratio:.1f} times as fast as {who}", flush=True)


def keep(jobs: Mapping[str, Any], repeats: int, out: Path) -> None:
    """Write what is measured so far; other machines and other jobs stay as they are."""
    old = json.loads(out.read_text())["machines"] if out.exists() else []
    about = {**machine(), "torch": _version("torch"), "jax": _version("jax")}
    mine = [part for part in old if part["machine"]["processor"] == about["processor"]]
    before = mine[0]["jobs"] if mine else {}
    part = {
        "short": str(about["processor"]).replace("(R)", "").removesuffix(" Processor"),
        "machine": about,
        "repeats": repeats,
        "load": os.getloadavg()[0],
        "jobs": {name: {**before, **jobs}[name] for name in MANY if name in {**before, **jobs}},
    }
    others = [part for part in old if part not in mine]
    out.write_text(json.dumps({"machines": [part, *others]}, indent=1) + "\n")


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", default=",".join(MANY), help="comma-separated, such as B1,B2")
    parser.add_argument("--repeats", type=int, default=9, help="turns of every runner")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data; writes no file")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results are kept")
    return parser.parse_args()


if __name__ == "__main__":
    main()
