"""The same job in each library, by the calls that its documentation recommends.

A runner prepares everything that may be built beforehand (matrices in its own form, compiled code,
data in its own containers) and returns a function of the number of cores. Calling that does the
whole job and returns the readout (1 + I + N, K), rows in the order [1; u; x].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve
from scipy.sparse import csr_matrix

from benchmarks.jobs import LEAK, RADIUS, RIDGE, Problem
from catchment import Array, Recording, Reservoir
from catchment.features import EchoState
from catchment.readout import accumulate

Work = Callable[[int], Array]
Runner = Callable[[Problem], Work]


def ours(problem: Problem) -> Work:
    reservoir = Reservoir.from_matrices(problem.W, problem.W_in, bias=problem.bias, leak_rate=LEAK)
    features = EchoState.of(
        reservoir, bias=True, pool=problem.job.pool, washout=problem.job.washout
    )
    sequences = [Recording(u, y) for u, y in zip(problem.u, problem.y, strict=True)]

    def work(cores: int) -> Array:
        total = accumulate(features, sequences, threads=cores)
        return total.solve(RIDGE, intercept=False).weights

    return work


def naive_states(problem: Problem, u: Array) -> Array:
    """Return the features (T, 1 + I + N) by the textbook loop in numpy."""
    W, W_in, b = problem.W, problem.W_in, problem.bias
    x = np.zeros(len(W))
    z = np.empty((len(u), problem.job.n_features))
    z[:, 0] = 1
    z[:, 1 : 1 + u.shape[1]] = u
    for t, drive in enumerate(u @ W_in.T + b):
        x = (1 - LEAK) * x + LEAK * np.tanh(drive + W @ x)
        z[t, 1 + u.shape[1] :] = x
    return z


def naive_features(problem: Problem, u: Array) -> Array:
    """Return the rows that the readout sees of one sequence."""
    z = naive_states(problem, u)
    if problem.job.pool == "mean":
        return np.asarray(z.mean(axis=0, keepdims=True))
    return z[-1:] if problem.job.pool == "last" else z[problem.job.washout :]


def _target_rows(problem: Problem, y: Array) -> Array:
    return y[None] if problem.job.pool else y[problem.job.washout :]


def naive(problem: Problem) -> Work:
    F, K = problem.job.n_features, problem.job.outputs

    def work(cores: int) -> Array:
        G, C = np.zeros((F, F)), np.zeros((F, K))
        for u, y in zip(problem.u, problem.y, strict=True):
            z = naive_features(problem, u)
            G += z.T @ z
            C += z.T @ _target_rows(problem, y)
        return np.asarray(solve(G + RIDGE * np.eye(F), C, assume_a="pos"))

    return work


def esnfed_runner(*, sparse: bool, use_numba: bool | None) -> Runner:
    """Return esnfed with its default compiled loop, its numpy loop, or its sparse one."""

    def runner(problem: Problem) -> Work:
        import esnfed
        from esnfed.classification import reservoir_features

        job = problem.job
        esn = esnfed.EchoStateNetwork(
            n_inputs=job.inputs,
            n_outputs=job.outputs,
            reservoir=problem.W,
            spectral_radius=RADIUS,
            leaking_rate=LEAK,
            ridge=RIDGE,
            washout=job.washout,
            input_weights=np.column_stack([problem.bias, problem.W_in]),
            sparse=sparse,
            use_numba=use_numba,
        )
        # It scales W by an eigenvalue of its own; the last bits should be the same for everyone.
        esn.W = csr_matrix(problem.W) if sparse else problem.W
        labels = np.array(problem.y) if job.pool else None

        def work(cores: int) -> Array:
            if labels is not None:
                rows = reservoir_features(esn, problem.u, pool=job.pool)
                A, B = esnfed.ridge_statistics(rows, labels)
                return np.asarray(esnfed.solve_readout(A, B, RIDGE))
            if len(problem.u) == 1:
                return np.asarray(esn.fit(problem.u[0], problem.y[0]).W_out)
            A, B = np.zeros((job.n_features,) * 2), np.zeros((job.n_features, job.outputs))
            for u, y in zip(problem.u, problem.y, strict=True):
                local_A, local_B = esn.local_statistics(u, y)
                A += local_A
                B += local_B
            return np.asarray(esnfed.solve_readout(A, B, RIDGE))

        return work

    return runner


def reservoirpy_runner(*, sparse: bool) -> Runner:
    """Return reservoirpy's Reservoir and Ridge nodes, W as an array or as compressed rows."""

    def runner(problem: Problem) -> Work:
        from reservoirpy.nodes import Reservoir as Node
        from reservoirpy.nodes import Ridge

        job = problem.job
        W = csr_matrix(problem.W) if sparse else problem.W
        node = Node(units=job.units, lr=LEAK, W=W, Win=problem.W_in, bias=problem.bias)
        labels = np.array(problem.y) if job.pool else None
        node.initialize(problem.u[0])
        # Its own intercept is not penalized; for the same sums as the others, a column of ones.
        ones = [np.ones((len(u), 1)) for u in problem.u]

        def work(cores: int) -> Array:
            node.reset()
            ridge = Ridge(ridge=RIDGE, fit_bias=False)
            if len(problem.u) == 1:
                z = np.hstack([ones[0], problem.u[0], node.run(problem.u[0])])
                return np.asarray(ridge.fit(z, problem.y[0], warmup=job.washout).Wout)
            states = node.run(problem.u, workers=cores)
            rows = [np.hstack(parts) for parts in zip(ones, problem.u, states, strict=True)]
            if labels is None:
                ridge.fit(rows, problem.y, warmup=job.washout, workers=cores)
            elif job.pool == "mean":
                ridge.fit(np.array([row.mean(axis=0) for row in rows]), labels)
            else:
                ridge.fit(np.array([row[-1] for row in rows]), labels)
            return np.asarray(ridge.Wout)

        return work

    return runner


RUNNERS: dict[str, Runner] = {
    "catchment": ours,
    "esnfed": esnfed_runner(sparse=False, use_numba=None),
    "esnfed numpy": esnfed_runner(sparse=False, use_numba=False),
    "esnfed sparse": esnfed_runner(sparse=True, use_numba=None),
    "reservoirpy": reservoirpy_runner(sparse=False),
    "reservoirpy csr": reservoirpy_runner(sparse=True),
    "numpy loop": naive,
}
OURS, DEFAULT_PEER = "catchment", "esnfed"
PEERS = tuple(name for name in RUNNERS if name not in (OURS, "numpy loop"))
