"""Ten jobs, ours against esnfed and reservoirpy, and against what the machine can do at all.

    python -m benchmarks.peers [--jobs A1,B2] [--repeats 5] [--quick]

prints a table and writes results/peers.json, from which the documentation quotes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.jobs import JOBS, Job, Problem, make_problem
from benchmarks.memory import peak_megabytes
from benchmarks.runners import DEFAULT_PEER, OURS, PEERS, RUNNERS, Work, naive_features
from benchmarks.timing import Limits, Times, interleaved, machine, measure_limits, once
from catchment.cli import print_table

RESULTS = Path(__file__).parent / "results" / "peers.json"

# Whole job, one thread: how many times faster than esnfed's default path we set out to be.
TARGETS = {
    "A1": 2.0,
    "A2": 2.0,
    "A3": 5.0,
    "A4": 9.0,
    "A6": 5.0,
    "B1": 10.0,
    "B2": 16.0,
    "B3": 4.0,
    "C1": 4.0,
}
BEST_PATH_TARGET = {name: 1.0 if name == "A5" else 1.7 for name in JOBS}
TWO_CORE_TARGET = dict.fromkeys(("B1", "B2", "B3", "C1"), 1.5)
MEMORY_JOB, MEMORY_TARGET = "A6", 20.0


def main() -> None:
    options = _options()
    console = Console()
    names = options.jobs.split(",") if options.jobs else list(JOBS)
    unknown = sorted(set(names) - set(JOBS))
    if unknown:
        raise SystemExit(f"job {unknown[0]} is unknown; choose from {', '.join(JOBS)}")
    description = machine()
    console.print(f"{description['processor']}, {description['cores']} cores")
    limits = measure_limits(sorted({JOBS[name].n_features for name in names}))
    about = {
        "machine": description,
        "limits": {
            "multiply_add_per_second": limits.multiply_add,
            "tanh_per_second": limits.tanh,
            "syrk_operations_per_second": limits.syrk,
        },
    }
    records: dict[str, dict[str, Any]] = {}
    memory: dict[str, float] = {}
    with _progress(console) as progress:
        for name in names:
            job = JOBS[name].shortened(0.1) if options.quick else JOBS[name]
            record = _run_job(job, limits, progress, options.repeats, options.budget)
            records[name] = {**record, "repeats": options.repeats}
            if name == MEMORY_JOB and not options.quick:
                memory = _memory(console)
            if not options.quick:
                _keep(about, records, memory)
    shown = {"quick": options.quick, "jobs": records, "peak_megabytes": {MEMORY_JOB: memory}}
    _show(console, shown)
    if not options.quick:
        console.print(f"written: benchmarks/results/{RESULTS.name}")


def _keep(
    about: dict[str, Any], records: dict[str, dict[str, Any]], memory: dict[str, float]
) -> None:
    """Write what is measured so far; jobs of earlier runs on this machine stay until run again."""
    old = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if {**old.get("machine", {}), "load_at_start": 0} != {**about["machine"], "load_at_start": 0}:
        old = {}
    jobs = {**old.get("jobs", {}), **records}
    peak = {MEMORY_JOB: memory} if memory else old.get("peak_megabytes", {})
    syrk = "syrk_operations_per_second"
    about["limits"][syrk] = {**old.get("limits", {}).get(syrk, {}), **about["limits"][syrk]}
    result = {**about, "jobs": {n: jobs[n] for n in JOBS if n in jobs}, "peak_megabytes": peak}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", default="", help="comma-separated, such as A1,B2; all if empty")
    parser.add_argument("--repeats", type=int, default=5, help="turns of every runner")
    parser.add_argument(
        "--budget", type=float, default=20.0, help="seconds after which a runner stops repeating"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the data; writes no file")
    return parser.parse_args()


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[runner]}"),
        console=console,
    )


def _run_job(
    job: Job, limits: Limits, progress: Progress, repeats: int, budget: float
) -> dict[str, Any]:
    task = progress.add_task(job.name, total=len(RUNNERS) * (2 * repeats + 1), runner="")
    problem = make_problem(job)
    works, predictions = {}, {}
    for runner, preprocessing in RUNNERS.items():
        progress.update(task, runner=f"{runner}: preparing")
        works[runner] = preprocessing(problem)
        predictions[runner] = _warm_up(problem, works[runner])
        progress.advance(task)

    def done(runner: str) -> None:
        progress.update(task, advance=1, runner=runner)

    times = interleaved(works, repeats=repeats, budget=budget, done=done)
    progress.update(task, runner="")
    return _record(problem, times, predictions, limits)


def _warm_up(problem: Problem, work: Work) -> Any:
    """Run once, and return the predictions on the first sequences, to compare."""
    weights: list[Any] = []

    def keep(cores: int) -> Any:
        weights.append(work(cores))
        return weights[-1]

    once(keep, 1)
    return np.vstack([naive_features(problem, u[:2000]) @ weights[0] for u in problem.u[:20]])


def _record(
    problem: Problem, times: dict[str, Times], predictions: dict[str, Any], limits: Limits
) -> dict[str, Any]:
    """Return everything measured about a job, in seconds and in ratios."""
    job = problem.job
    ours = times[OURS].cpu
    best_peer = min(PEERS, key=lambda name: times[name].cpu)
    scale = float(predictions[OURS].std())
    floor = limits.floor(problem)
    return {
        "kind": job.kind,
        "units": job.units,
        "density": job.density,
        "n_sequences": len(problem.u),
        "n_steps": problem.n_steps,
        "cpu_seconds_one_thread": {name: t.cpu for name, t in times.items()},
        "wall_seconds_all_cores": {name: min(t.wall_all) for name, t in times.items()},
        "all_repeats": {name: vars(t) for name, t in times.items()},
        "largest_difference_of_predictions": {
            name: float(np.abs(p - predictions[OURS]).max()) / scale
            for name, p in predictions.items()
        },
        "floor_cpu_seconds": floor,
        "ours_over_floor": ours / floor,
        "best_peer": best_peer,
        "speed_against_default": times[DEFAULT_PEER].cpu / ours,
        "speed_against_best_peer": times[best_peer].cpu / ours,
        "all_cores_against_one": times[OURS].speed_up,
    }


def _memory(console: Console) -> dict[str, float]:
    with console.status(f"peak memory of {MEMORY_JOB}, each in a process of its own"):
        runners = (OURS, "esnfed", "reservoirpy csr")
        return {name: peak_megabytes(MEMORY_JOB, name) for name in runners}


def _missed(name: str, record: dict[str, Any], memory: dict[str, float]) -> list[str]:
    """Return the targets that a job misses."""
    missed = []
    if record["speed_against_default"] < TARGETS.get(name, 0.0):
        missed.append(f"{TARGETS[name]:g}x default")
    if record["speed_against_best_peer"] < BEST_PATH_TARGET[name]:
        missed.append(f"{BEST_PATH_TARGET[name]:g}x best")
    if record["all_cores_against_one"] < TWO_CORE_TARGET.get(name, 0.0):
        missed.append(f"{TWO_CORE_TARGET[name]:g}x cores")
    if name == MEMORY_JOB and memory.get(OURS, 0.0) > MEMORY_TARGET:
        missed.append(f"{MEMORY_TARGET:g} MB")
    return missed


def _verdict(missed: list[str]) -> str:
    return f"missed: {', '.join(missed)}" if missed else "met"


def _show(console: Console, result: dict[str, Any]) -> None:
    runners = (OURS, *PEERS, "numpy loop")
    times, ratios = [], []
    memory = result["peak_megabytes"].get(MEMORY_JOB, {})
    for name, record in result["jobs"].items():
        micro = 1e6 / record["n_steps"]
        cpu = record["cpu_seconds_one_thread"]
        size = f"{record['kind']}, N={record['units']}, {record['density']:.0%}"
        cells = [f"{cpu[runner] * micro:.2f}" for runner in runners]
        times.append((name, size, *cells, f"{record['floor_cpu_seconds'] * micro:.2f}"))
        missed = _missed(name, record, memory)
        ratios.append(
            (
                name,
                f"{record['speed_against_default']:.2f}",
                f"{record['speed_against_best_peer']:.2f}",
                record["best_peer"],
                f"{record['ours_over_floor']:.2f}",
                f"{record['all_cores_against_one']:.2f}",
                f"{max(record['largest_difference_of_predictions'].values()):.0e}",
                "not judged" if result["quick"] else _verdict(missed),
            )
        )
    console.print("CPU microseconds per reservoir step, one thread, whole job; medians")
    print_table(("job", "", *runners, "floor"), times, right=(*runners, "floor"))
    console.print("\nRatios")
    print_table((*RATIOS, "targets"), ratios, right=[name for name in RATIOS[1:] if name != "by"])
    for name, megabytes in memory.items():
        console.print(f"{MEMORY_JOB} peak memory above the start, {name}: {megabytes:.1f} MB")


RATIOS = (
    "job",
    "against esnfed default",
    "against best path of a peer",
    "by",
    "ours / floor",
    "all cores / one thread",
    "predictions agree to",
)


if __name__ == "__main__":
    main()
