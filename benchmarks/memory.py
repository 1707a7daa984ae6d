"""Peak memory of one job in a fresh process, above what was in use when it started.

    python -m benchmarks.memory A6 catchment

prints megabytes. Everything is built and compiled before, on a short piece of the same data.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from benchmarks.jobs import JOBS, make_problem
from benchmarks.runners import RUNNERS


def peak_megabytes(job: str, runner: str) -> float:
    """Return the peak of a job in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", job, runner]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def _measure(job: str, runner: str) -> float:
    problem = make_problem(JOBS[job])
    short = replace(problem, u=[u[:4000] for u in problem.u], y=[y[:4000] for y in problem.y])
    work = RUNNERS[runner](problem)
    with threadpool_limits(limits=1, user_api="blas"):
        RUNNERS[runner](short)(1)
        before = _reset_peak()
        work(1)
    return (_peak() - before) / 1024


def _reset_peak() -> int:
    """Forget the peak so far (Linux) and return the kilobytes in use."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return _peak()
    return _status("VmRSS")


def _peak() -> int:
    if Path("/proc/self/status").exists():
        return _status("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise OSError(f"the system does not report {field}")


if __name__ == "__main__":
    print(_measure(*sys.argv[1:3]))
