# mypy: disable-error-code="import-not-found"
"""All sequences of a job in lockstep, one matrix product per step: numpy, torch and JAX.

What one writes without a library for reservoirs. Runners as in `runners.py`: what may be built
beforehand is, the call does the whole job and returns the readout (1 + I + N, K). All on the CPU
and in float64; sums by BLAS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve
from scipy.sparse import csr_matrix

from benchmarks.jobs import LEAK, RIDGE, Problem
from benchmarks.runners import Runner, Work
from catchment import Array


@dataclass(frozen=True, eq=False)
class Batch:
    """The sequences of a problem side by side, longest first, so that those still running lead."""

    u: Array  # (T, I, S), zeros after an end
    y: Array  # (K, S) if pooled, else (T, K, S)
    lengths: Array  # (S,)

    @classmethod
    def of(cls, problem: Problem) -> Batch:
        order = np.argsort([-len(u) for u in problem.u], kind="stable")
        lengths = np.array([len(problem.u[k]) for k in order])
        u = np.zeros((int(lengths[0]), problem.job.inputs, len(order)))
        for s, k in enumerate(order):
            u[: lengths[s], :, s] = problem.u[k]
        targets = [problem.y[k] for k in order]
        if not problem.job.pool and len(set(lengths)) > 1:
            raise ValueError(f"job {problem.job.name} is ragged; only pooled jobs may be")
        return cls(u, np.ascontiguousarray(np.stack(targets, axis=-1)), lengths)

    def running(self) -> list[int]:
        """Return how many sequences have a step, for every step."""
        return [int((self.lengths > t).sum()) for t in range(len(self.u))]


def numpy_lockstep(*, sparse: bool) -> Runner:
    """Return the loop over steps in numpy; W times all states is BLAS's or scipy's product."""

    def runner(problem: Problem) -> Work:
        job, batch = problem.job, Batch.of(problem)
        running = batch.running()
        W = csr_matrix(problem.W) if sparse else problem.W
        W_in, b = problem.W_in, problem.bias[:, None]
        F, I, S = job.n_features, job.inputs, len(batch.lengths)

        def work(cores: int) -> Array:
            G, C = np.zeros((F, F)), np.zeros((F, job.outputs))
            z, total = np.zeros((F, S)), np.zeros((F, S))
            z[0] = 1
            for t, n in enumerate(running):
                u, x = batch.u[t, :, :n], z[1 + I :, :n]
                drive = W @ x
                drive += W_in @ u
                drive += b
                np.tanh(drive, out=drive)
                drive *= LEAK
                x *= 1 - LEAK
                x += drive
                z[1 : 1 + I, :n] = u
                if job.pool == "mean":
                    total[:, :n] += z[:, :n]
                elif job.pool is None and t >= job.washout:
                    G += z @ z.T
                    C += z @ batch.y[t].T
            if job.pool:
                rows = total / batch.lengths if job.pool == "mean" else z
                G, C = rows @ rows.T, rows @ batch.y.T
            return np.asarray(solve(G + RIDGE * np.eye(F), C, assume_a="pos"))

        return work

    return runner


def torch_lockstep(problem: Problem) -> Work:
    """Do the same in torch, W as an array."""
    import torch

    job, batch = problem.job, Batch.of(problem)
    running, (F, I, S) = batch.running(), (job.n_features, job.inputs, len(batch.lengths))
    W, W_in, b = (torch.from_numpy(a) for a in (problem.W, problem.W_in, problem.bias[:, None]))
    us, ys, lengths = (torch.from_numpy(a) for a in (batch.u, batch.y, batch.lengths))

    def work(cores: int) -> Array:
        torch.set_num_threads(cores)
        G, C = torch.zeros(F, F, dtype=W.dtype), torch.zeros(F, job.outputs, dtype=W.dtype)
        z, total = torch.zeros(F, S, dtype=W.dtype), torch.zeros(F, S, dtype=W.dtype)
        z[0] = 1
        for t, n in enumerate(running):
            u, x = us[t, :, :n], z[1 + I :, :n]
            drive = torch.addmm(b, W_in, u).addmm_(W, x).tanh_()
            x.lerp_(drive, LEAK)
            z[1 : 1 + I, :n] = u
            if job.pool == "mean":
                total[:, :n] += z[:, :n]
            elif job.pool is None and t >= job.washout:
                G.addmm_(z, z.T)
                C.addmm_(z, ys[t].T)
        if job.pool:
            rows = total / lengths if job.pool == "mean" else z
            G, C = rows @ rows.T, rows @ ys.T
        factor = torch.linalg.cholesky(G + RIDGE * torch.eye(F, dtype=W.dtype))
        return np.asarray(torch.cholesky_solve(C, factor).numpy())

    return work


def jax_lockstep(problem: Problem) -> Work:
    """Do the same in JAX: a compiled `scan`; sequences that ended keep their state."""
    import jax

    jax.config.update("jax_enable_x64", True)
    batch = Batch.of(problem)
    whole = jax.jit(_jax_job(problem, batch))
    data = [jax.device_put(a) for a in (batch.u, batch.y)]

    def work(cores: int) -> Array:
        return np.asarray(whole(*data))

    return work


def _jax_job(problem: Problem, batch: Batch) -> Callable[[Any, Any], Any]:
    import jax.numpy as jnp
    from jax import lax
    from jax.scipy.linalg import solve as jax_solve

    job = problem.job
    W, W_in, b = (jnp.asarray(a) for a in (problem.W, problem.W_in, problem.bias[:, None]))
    F, I, S, lengths = job.n_features, job.inputs, len(batch.lengths), jnp.asarray(batch.lengths)
    ragged = len(set(batch.lengths.tolist())) > 1

    def step(carry: Any, now: Any) -> Any:
        (z, total, G, C), (t, u, y) = carry, now
        x = (1 - LEAK) * z[1 + I :] + LEAK * jnp.tanh(W @ z[1 + I :] + W_in @ u + b)
        fresh = jnp.concatenate([jnp.ones((1, S)), u, x])
        z = jnp.where(t < lengths, fresh, z) if ragged else fresh
        if job.pool == "mean":
            total = total + (jnp.where(t < lengths, z, 0) if ragged else z)
        elif job.pool is None:
            row = jnp.where(t >= job.washout, z, 0)
            G, C = G + row @ row.T, C + row @ y.T
        return (z, total, G, C), None

    def whole(us: Any, ys: Any) -> Any:
        empty = jnp.zeros((F, S)), jnp.zeros((F, S)), jnp.zeros((F, F)), jnp.zeros((F, job.outputs))
        steps = jnp.arange(len(us))
        per_step = jnp.zeros(len(us)) if job.pool else ys
        (z, total, G, C), _ = lax.scan(step, empty, (steps, us, per_step))
        if job.pool:
            rows = total / lengths if job.pool == "mean" else z
            G, C = rows @ rows.T, rows @ ys.T
        return jax_solve(G + RIDGE * jnp.eye(F), C, assume_a="pos")

    return whole
