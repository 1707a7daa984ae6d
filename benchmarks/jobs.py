"""The ten jobs that every library is timed on: run a reservoir, gather statistics, solve.

All jobs have leak 0.3, spectral radius 0.9, ridge 1e-6, a start from zero, and the readout sees
[1; u; x]. W is uniform on (-1, 1), masked to the density and scaled; W_in is uniform on (-0.5, 0.5)
and the bias on (-0.2, 0.2). Every library gets the same numbers. Building W is not timed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from catchment import Array
from catchment.features.echo_state import SparseRows, spectral_radius

LEAK, RADIUS, RIDGE = 0.3, 0.9, 1e-6


@dataclass(frozen=True)
class Job:
    """Sizes of one job; with a pool a sequence gives one row, else every step after the washout."""

    name: str
    kind: str
    units: int
    density: float
    inputs: int
    outputs: int
    n_sequences: int
    steps: tuple[int, int]  # shortest and longest sequence
    washout: int = 0
    pool: Literal["mean", "last"] | None = None

    @property
    def n_features(self) -> int:
        return 1 + self.inputs + self.units

    def shortened(self, factor: float) -> Job:
        """Return the same job on less data."""
        least = self.washout + 20
        if self.n_sequences == 1:
            return replace(self, steps=(max(least, int(self.steps[0] * factor)),) * 2)
        return replace(self, n_sequences=max(8, int(self.n_sequences * factor)))


JOBS = {
    job.name: job
    for job in (
        Job("A1", "one long, dense", 100, 1.0, 1, 1, 1, (50_000, 50_000)),
        Job("A2", "one long", 500, 0.10, 1, 1, 1, (10_000, 10_000)),
        Job("A3", "one long", 1000, 0.01, 3, 3, 1, (10_000, 10_000)),
        Job("A4", "one long", 2000, 0.01, 3, 3, 1, (3_000, 3_000)),
        Job("A5", "one long, dense", 1000, 1.0, 3, 3, 1, (3_000, 3_000)),
        Job("A6", "one very long", 200, 0.05, 1, 1, 1, (300_000, 300_000)),
        Job("B1", "windows, mean", 300, 0.10, 9, 6, 600, (128, 128), pool="mean"),
        Job("B2", "ragged, last", 500, 0.02, 12, 10, 200, (128, 700), pool="last"),
        Job("B3", "windows, every step", 200, 0.10, 9, 6, 400, (128, 128), washout=10),
        Job("C1", "clients summed", 200, 0.10, 1, 1, 100, (500, 500), washout=50),
    )
}


@dataclass(frozen=True, eq=False)
class Problem:
    """A job with its numbers: sequences u (T, I) and targets y, (T, K) or (K,) if pooled."""

    job: Job
    W: Array  # (N, N)
    W_in: Array  # (N, I)
    bias: Array  # (N,)
    u: list[Array]
    y: list[Array]

    @property
    def n_steps(self) -> int:
        return sum(len(u) for u in self.u)

    @property
    def n_rows(self) -> int:
        return len(self.u) if self.job.pool else self.n_steps - self.job.washout * len(self.u)


def make_problem(job: Job, seed: int = 0) -> Problem:
    """Return the numbers of a job; targets are smooth functions of past inputs, or classes."""
    rng = np.random.default_rng([seed, *job.name.encode()])
    W = rng.uniform(-1, 1, (job.units, job.units))
    W[rng.random(W.shape) >= job.density] = 0.0
    W *= RADIUS / spectral_radius(SparseRows.from_dense(W))
    W_in = rng.uniform(-0.5, 0.5, (job.units, job.inputs))
    bias = rng.uniform(-0.2, 0.2, job.units)
    shortest, longest = job.steps
    classes = np.eye(job.outputs)
    us, ys = [], []
    for length in rng.integers(shortest, longest + 1, job.n_sequences):
        u = rng.uniform(-1, 1, (length, job.inputs))
        label = int(rng.integers(job.outputs))
        u[:, label % job.inputs] += 0.5
        us.append(u)
        ys.append(classes[label] if job.pool else _smooth_target(job, u))
    return Problem(job, W, W_in, bias, us, ys)


def _smooth_target(job: Job, u: Array) -> Array:
    """Return (T, K) targets, output k a product of inputs one and k + 2 steps back."""
    past = np.vstack([np.zeros((job.outputs + 2, job.inputs)), u])
    T, first = len(u), job.outputs + 2
    columns = [
        past[first - 1 : first - 1 + T, k % job.inputs]
        * past[first - k - 2 : first - k - 2 + T, k % job.inputs]
        + 0.5 * past[first - k - 1 : first - k - 1 + T, 0]
        for k in range(job.outputs)
    ]
    return np.stack(columns, axis=1)
