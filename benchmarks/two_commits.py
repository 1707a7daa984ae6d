"""The ten jobs in float64 and in fixed point, here and in another working tree, in one run.

    python -m benchmarks.two_commits ../before --name one_accumulation [--repeats 7] [--jobs A1,B2]

The other tree has an environment of its own in .venv. Each tree has one process, on one thread;
they take turns, and the least CPU seconds of the repeats count: a busy machine only ever adds to
them. Writes results/NAME.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.jobs import JOBS
from benchmarks.record import RESULTS, write
from benchmarks.timing import once

HERE = Path(__file__).parents[1]
# The jobs, also under the name that they have in older trees.
JOBS_IN = ("benchmarks.fixed_point_speed", "benchmarks.grid_speed")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def serve() -> None:
    """Answer each name of a job on stdin with CPU microseconds a step, float64 and fixed point."""
    known, jobs = "", import_module(next(filter(find_spec, JOBS_IN)))
    for line in sys.stdin:
        name = line.strip()
        if name != known:
            known, problem = name, jobs.problem_of(name)
            classes = name in jobs.PER_STEP or problem.job.pool is not None
            said = "on_grid" if jobs.__name__ == JOBS_IN[1] else "in_fixed_point"
            works = [
                jobs.work_of(problem, classes=classes, **{said: fixed})[0]
                for fixed in (False, True)
            ]
            for work in works:
                work(1)
        print(json.dumps([once(work, 1)[0] / problem.n_steps * 1e6 for work in works]), flush=True)


def started(tree: Path, file: str = __file__) -> subprocess.Popen[str]:
    """Return a process that serves from a working tree; this tree's file is what it runs."""
    path, tree = str(Path(file).resolve()), tree.resolve()
    sources = [tree, *tree.glob("packages/*/src")]
    code = f"import runpy; runpy.run_path({path!r}, run_name='served')['serve']()"
    return subprocess.Popen(
        [str(tree / ".venv" / "bin" / "python"), "-c", code],
        cwd=tree,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(map(str, sources))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def asked(process: subprocess.Popen[str], job: str) -> Any:
    """Return what a process that serves answers to a line."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{job}\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def measured(trees: Sequence[Path], jobs: Sequence[str], repeats: int) -> dict[str, Any]:
    """Return the least microseconds of a step of every job in every tree."""
    processes = [started(tree) for tree in trees]
    found: dict[str, Any] = {}
    for job in jobs:
        turns = [[asked(process, job) for process in processes] for _ in range(repeats)]
        least = np.array(turns).min(axis=0).round(4).tolist()
        found[job] = {"before": least[0], "after": least[1]}
        print(job, found[job], flush=True)
    for process in processes:
        process.communicate()
    return found


def table(jobs: Mapping[str, Any]) -> str:
    """Return microseconds a step of both trees and their ratios."""
    lines = [
        "| job | float64 before | after | ratio | fixed point before | after | ratio "
        "| fixed over float64 before | after |",
        f"|{'---|' * 9}",
    ]
    for job, told in jobs.items():
        (a, b), (c, d) = told["before"], told["after"]
        cells = (f"{a:.3g}", f"{c:.3g}", f"{c / a:.2f}", f"{b:.3g}", f"{d:.3g}", f"{d / b:.2f}")
        lines.append(f"| {job} | {' | '.join(cells)} | {b / a:.2f} | {d / c:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description="The ten jobs of two working trees in one run.")
    parser.add_argument("other", type=Path, help="the tree to compare with")
    parser.add_argument("--name", required=True, help="of the files under results")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--jobs", default=",".join(JOBS))
    options = parser.parse_args()
    trees = (options.other, HERE)
    jobs = measured(trees, options.jobs.split(","), options.repeats)
    keep(options.name, jobs, options.repeats, [commit(tree) for tree in trees])


def commit(tree: Path) -> str:
    """Return the short name of a working tree's commit."""
    asked = ["git", "-C", str(tree), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def keep(name: str, jobs: Mapping[str, Any], repeats: int, commits: Sequence[str]) -> None:
    """Write results/NAME.json and .md."""
    write(name, {"commits": list(commits), "repeats": repeats, "jobs": jobs})
    text = f"Before is {commits[0]}, after {commits[1]}; least of {repeats} turns, one thread."
    text = f"# CPU microseconds a step, before and after\n\n{text}\n\n{table(jobs)}\n"
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
