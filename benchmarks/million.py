"""A million clients from a lake of Parquet files: a whole run of a plan, by number of workers.

The data are made first, the same values on every machine (`benchmarks.million_data`). Each run is a
plan like any other, in a fresh process: footers are read, clients are read block by block, a
reservoir of 100 units makes a row of each step, statistics are added up exactly, the ridge is the
one with the least error on groups of clients left out, and the model is tested on clients that did
not train. Seconds are those of the whole process, from its start to its end. CPU seconds are those
of all processes, and of the main one, which hands out blocks, adds their sums, writes the ledger
and solves. Peaks are of the main process, of the largest worker, and of all together.

    python -m benchmarks.million --clients 1000000 --workers 1 2 --data lake
    python -m benchmarks.million --clients 1000000 --workers 1 4 16 --ray 16 --data lake

Results are merged into benchmarks/results/million.json, by machine and number of clients.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.million_data import CLASSES, INPUTS, make
from benchmarks.million_naive import CONNECTIONS, LEAK, PEER_CLIENTS, UNITS, WASHOUT, naive
from benchmarks.record import RESULTS, machine
from benchmarks.two_commits import HERE, commit

TESTED = 2_000  # clients
PLAN = """
title = "A million wearables"

[data]
files = "{files}"
client = "client"
inputs = {inputs}
label = "label"
classes = {classes}
per_step = true
test = {test}
test_of = "clients"

[preprocessing]
scale = "none"

[features]
units = {units}
connections = {connections}
washout = {washout}
leak_rate = {leak}
seed = 1

[learn]
ridge = "leave-one-group-out"

[run]
baselines = []
"""


def plan_text(data: Path, clients: int) -> str:
    """Return the plan file."""
    return PLAN.format(
        files=data.resolve().as_posix(),
        inputs=json.dumps(INPUTS),
        classes=json.dumps(CLASSES),
        test=min(TESTED / clients, 0.25),
        units=UNITS,
        connections=CONNECTIONS,
        washout=WASHOUT,
        leak=LEAK,
    )


def run_one(data: Path, clients: int, workers: int, folder: Path, engine: str) -> dict[str, Any]:
    """Run the plan in this process and return what came of it."""
    from catchment.federation.runs import read_digests
    from catchment.plans import parse_plan, run_plan

    plan = parse_plan(plan_text(data, clients), base=folder)
    n_workers: Any = workers
    if engine == "ray":
        from catchment_fleet.ray import RayWorkers

        n_workers = RayWorkers(workers)
    done = run_plan(plan, folder / "run", workers=n_workers)
    trained, tested = (done.run.rounds[stage][0] for stage in ("training", "evaluation"))
    assert trained.n_used + tested.n_used == clients
    total = next(one for one in read_digests(folder / "run", "training") if not one.client)
    assert done.scores.total is not None
    ((metric, value),) = done.scores.total.figures.items()
    return {
        "CPU seconds, main": round(time.process_time(), 1),
        "training seconds": round(trained.seconds, 1),
        "bytes up": trained.bytes_up,
        "bytes of the run's folder": sum(
            path.stat().st_size for path in (folder / "run").rglob("*") if path.is_file()
        ),
        metric: round(value, 4),
        "ridge": trained.figures["ridge"],
        "sha256 of the sum": total.sha256,
        "sha256 of the model": done.run.facts["model_sha256"],
    }


def in_fresh_process(data: Path, clients: int, workers: int, engine: str) -> dict[str, Any]:
    """Return the figures of one run, and the seconds and the memory of its process."""
    with tempfile.TemporaryDirectory(prefix="million-") as folder:
        told = [str(data), str(clients), str(workers), folder, engine]
        command = [sys.executable, "-m", "benchmarks.million", "--one", *told]
        begin, cpu = time.perf_counter(), _cpu_seconds()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        peaks = Peaks(process.pid)
        out, _ = process.communicate()
        seconds = time.perf_counter() - begin
        memory = peaks.stopped()
    if process.returncode:
        raise SystemExit(f"the run with {workers} workers failed; see above")
    return {
        "engine": engine,
        "workers": workers,
        "seconds": round(seconds, 1),
        "clients per second": round(clients / seconds),
        "CPU seconds": round(_cpu_seconds() - cpu, 1),
        **memory,
        **json.loads(out.splitlines()[-1]),
    }


def _cpu_seconds() -> float:
    """Return what processes that are over have used, those below them included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Peaks:
    """Peak memory of a process and of those below it, looked at while they run."""

    def __init__(self, pid: int) -> None:
        self.pid, self.main, self.worker, self.together = pid, 0.0, 0.0, 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stopped(self) -> dict[str, float]:
        self._over.set()
        self._thread.join()
        return {
            "peak MiB, main": round(self.main),
            "peak MiB, largest worker": round(self.worker),
            "peak MiB, together": round(self.together),
        }

    def _look(self) -> None:
        while not self._over.wait(0.5):
            below = list(_below(self.pid))
            self.main = max(self.main, _mebibytes(self.pid, "VmHWM"))
            self.worker = max([self.worker, *(_mebibytes(pid, "VmHWM") for pid in below)])
            now = sum(_mebibytes(pid, "VmRSS") for pid in (self.pid, *below))
            self.together = max(self.together, now)


def _below(pid: int) -> Iterator[int]:
    """Yield the processes that a process started, and those they started."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(c) for task in tasks for c in (task / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        yield child
        yield from _below(child)


def _mebibytes(pid: int, name: str) -> float:
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    found = [line.split()[1] for line in text.splitlines() if line.startswith(f"{name}:")]
    return int(found[0]) / 1024 if found else 0.0


def merged(path: Path, clients: int, about: dict[str, Any], runs: list[dict[str, Any]]) -> None:
    """Put runs in the place of those of the same machine, size, engine and number of workers."""
    told: dict[str, Any] = {"runs": []}
    if path.is_file():
        told = json.loads(path.read_text(encoding="utf-8"))
    here = machine()

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        on = row["machine"]
        return on["processor"], on["cores"], row["clients"], row["engine"], row["workers"]

    code = commit(HERE) if (HERE / ".git").exists() else ""
    rows = [
        {"machine": here, "commit": code, "clients": clients, "data": about, **run} for run in runs
    ]
    kept = {key(row): row for row in [*told["runs"], *rows]}
    told |= {"runs": [kept[k] for k in sorted(kept)]}
    told["task"] = (
        f"{UNITS} units in fixed point, {len(INPUTS)} inputs, a label at each of 100 to 200 steps "
        f"per client, washout {WASHOUT}, ridge by 32 groups of clients left out, {TESTED} of the "
        "clients tested"
    )
    path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, len(os.sched_getaffinity(0))])
    parser.add_argument("--ray", type=int, nargs="*", default=[], help="workers on Ray")
    parser.add_argument("--data", type=Path, help="where the files are made, and kept")
    parser.add_argument("--results", type=Path, default=RESULTS / "million.json")
    parser.add_argument("--no-naive", action="store_true", help="leave out the baselines")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        data, clients, workers, folder, engine = options.one
        print(json.dumps(run_one(Path(data), int(clients), int(workers), Path(folder), engine)))
        return
    data = options.data or Path(tempfile.mkdtemp(prefix="million-data-"))
    try:
        about = make(data, options.clients)
        print(json.dumps(about), flush=True)
        asked = [("processes", n) for n in options.workers] + [("ray", n) for n in options.ray]
        if not options.no_naive:
            for row in naive(data):
                print(json.dumps(row), flush=True)
                merged(options.results, PEER_CLIENTS, about, [row])
        for engine, workers in asked:
            row = in_fresh_process(data, options.clients, workers, engine)
            print(json.dumps(row), flush=True)
            merged(options.results, options.clients, about, [row])
    finally:
        if options.data is None:
            shutil.rmtree(data)


if __name__ == "__main__":
    main()
