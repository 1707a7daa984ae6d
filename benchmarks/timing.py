"""Clocks, the limits of this machine, and its description."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from benchmarks.jobs import Problem
from benchmarks.runners import Work
from catchment import Array, __version__, available_cores
from catchment.features.echo_state import kernels
from catchment.readout import Gram

QUIET = 0.5  # seconds after which no helper thread spins any more


@dataclass(frozen=True)
class Times:
    """Seconds of one runner over its repeats."""

    cpu_one: list[float]  # process CPU seconds, one thread
    wall_one: list[float]  # wall seconds, one thread
    wall_all: list[float]  # wall seconds, all cores

    def add(self, cores: int, cpu: float, wall: float) -> None:
        if cores == 1:
            self.cpu_one.append(cpu)
            self.wall_one.append(wall)
        if cores == available_cores():
            self.wall_all.append(wall)

    @property
    def cpu(self) -> float:
        return statistics.median(self.cpu_one)

    @property
    def speed_up(self) -> float:
        """Wall seconds of one thread over those of all cores; the quickest of each."""
        return min(self.wall_one) / min(self.wall_all)


def once(work: Work, cores: int) -> tuple[float, float]:
    """Return CPU and wall seconds of one call, on one thread or on all cores."""
    with threadpool_limits(limits=cores, user_api="blas"):
        if cores > 1:
            time.sleep(QUIET)  # a BLAS that is told its number of threads wakes them all
        wall, cpu = time.perf_counter(), time.process_time()
        work(cores)
        return time.process_time() - cpu, time.perf_counter() - wall


def interleaved(
    works: dict[str, Work],
    *,
    repeats: int,
    budget: float,
    done: Callable[[str], None],
) -> dict[str, Times]:
    """Return the times of all runners, taken in turns so that a slow minute hits everyone.

    A runner that has used up its budget of seconds sits out the later turns, but not before the
    second. The helper threads of a BLAS wait by spinning for a while, and would take CPU time from
    whoever comes next: so one thread comes first for everyone, and later each waits for quiet.
    """
    times = {name: Times([], [], []) for name in works}
    for cores in sorted({1, available_cores()}):
        spent = dict.fromkeys(works, 0.0)
        for turn in range(repeats):
            for name, work in works.items():
                if turn < 2 or spent[name] < budget:
                    cpu, wall = once(work, cores)
                    times[name].add(cores, cpu, wall)
                    spent[name] += wall
                done(name)
    return times


@dataclass(frozen=True)
class Limits:
    """What one core of this machine can do, measured: no job can be done faster than this."""

    multiply_add: float  # floating-point operations per second of a large matrix product
    tanh: float  # per second, the best found
    syrk: dict[int, float]  # operations per second of Z Z', by its number of features

    def floor(self, problem: Problem) -> float:
        """Return the CPU seconds that the arithmetic of a job takes at these rates.

        Non-zeros and input weights once per step, a tanh per unit and step, half of Z Z' per row,
        and a Cholesky factorization.
        """
        job, F = problem.job, problem.job.n_features
        products = 2 * (np.count_nonzero(problem.W) + job.units * (job.inputs + 1))
        per_step = products / self.multiply_add + job.units / self.tanh
        gram = problem.n_rows * F * F / self.syrk[F]
        return problem.n_steps * per_step + gram + F**3 / 3 / self.multiply_add


def measure_limits(sizes: list[int]) -> Limits:
    """Return the limits, each the best of many short trials on one thread."""
    rng = np.random.default_rng(0)
    with threadpool_limits(limits=1, user_api="blas"):
        A, B = rng.standard_normal((2, 500, 500))
        product = np.empty((500, 500))
        flops = 2 * 500**3 / _best(lambda: np.matmul(A, B, out=product))
        p, x, S = rng.standard_normal((128, 32)), np.zeros((129, 32)), np.empty((128, 1, 32))
        leak, code = np.full(128, 0.3), np.zeros(128, dtype=np.uint8)
        flat = (x.reshape(-1), p.reshape(-1))
        tanh = p.size / _best(
            lambda: kernels.activate_all(leak, code, True, x, flat, p, S, False, 0), trials=2000
        )
        syrk = {size: _gram_rate(rng.standard_normal((size, 520))[:, :512]) for size in sizes}
    return Limits(flops, tanh, syrk)


def _gram_rate(Z: Array) -> float:
    total = Gram(len(Z))
    operations = float(len(Z) ** 2 * Z.shape[1])
    return operations / _best(lambda: total.add(Z))


def _best(work: Callable[[], object], trials: int = 50) -> float:
    work()
    best = float("inf")
    for _ in range(trials):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def machine() -> dict[str, object]:
    """Return what a reader needs to judge the figures; no names of hosts or folders."""
    cpu_info = Path("/proc/cpuinfo")
    lines = cpu_info.read_text().splitlines() if cpu_info.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if "model name" in line), "unknown")
    packages = ("numpy", "scipy", "numba", "llvmlite", "esnfed", "reservoirpy")
    return {
        "processor": model,
        "architecture": platform.machine(),
        "cores": available_cores(),
        "load_at_start": os.getloadavg()[0],
        "python": sys.version.split()[0],
        "packages": {"catchment": __version__} | {name: version(name) for name in packages},
        "blas": sorted({f"{lib['internal_api']} {lib['version']}" for lib in threadpool_info()}),
    }
