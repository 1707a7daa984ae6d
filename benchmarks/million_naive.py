"""The first thousand clients of the lake as one would without a library, or with another one.

Three programs that end in the same kind of readout: a loop over the clients in numpy that adds up
Gram matrices; the same states pooled into scikit-learn's Ridge; and reservoirpy, whose reservoir
has the same weights. Each reads the same Parquet file, on one thread; CPU seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.million_data import CLASSES, INPUTS
from catchment import Array, EchoState, single_blas_thread

PEER_CLIENTS = 1_000
UNITS, WASHOUT, CONNECTIONS, LEAK, RIDGE = 100, 20, 10, 0.3, 1e-3

Clients = list[tuple[Array, Array]]


def read(data: Path) -> Clients:
    """Return inputs (T, 2) and one-hot labels (T, 4) of the first clients."""
    import pyarrow.parquet as pq

    table = pq.read_table(sorted(data.glob("*.parquet"))[0])
    whose = table["client"].combine_chunks().indices.to_numpy()
    u = np.column_stack([table[name].to_numpy() for name in INPUTS]).astype(np.float64)
    y = np.eye(len(CLASSES))[table["label"].combine_chunks().indices.to_numpy()]
    cuts = np.flatnonzero(np.diff(whose)) + 1
    every = zip(np.split(u, cuts), np.split(y, cuts), strict=True)
    return [pair for _, pair in zip(range(PEER_CLIENTS), every, strict=False)]


@cache
def weights() -> tuple[Array, Array, Array]:
    """Return the weights of the reservoir that the plan has."""
    built = EchoState(
        UNITS, connections=CONNECTIONS, leak_rate=LEAK, washout=WASHOUT, seed=1
    ).build(len(INPUTS), per_step=True, classes=True)
    assert isinstance(built, EchoState)
    layer = built.reservoir.layers[0]
    return layer.W.to_dense(), layer.W_in.to_dense(), layer.bias


def states(u: Array) -> Array:
    """Return states (T, N), step by step in numpy."""
    W, W_in, bias = weights()
    x, kept = np.zeros(len(W)), np.empty((len(u), len(W)))
    for t, drive in enumerate(u @ W_in.T + bias):
        x = (1 - LEAK) * x + LEAK * np.tanh(drive + W @ x)
        kept[t] = x
    return kept


def numpy_loop(clients: Clients) -> object:
    """Add up Gram matrices client by client and solve."""
    F, K = UNITS + len(INPUTS) + 1, len(CLASSES)
    G, C = np.zeros((F, F)), np.zeros((F, K))
    for u, y in clients:
        z = np.column_stack([states(u), u, np.ones(len(u))])[WASHOUT:]
        G += z.T @ z
        C += z.T @ y[WASHOUT:]
    return np.linalg.solve(G + RIDGE * np.eye(F), C)


def scikit_learn(clients: Clients) -> object:
    """Pool all rows and fit."""
    from sklearn.linear_model import Ridge

    z = np.concatenate([np.column_stack([states(u), u])[WASHOUT:] for u, _ in clients])
    return Ridge(alpha=RIDGE).fit(z, np.concatenate([y[WASHOUT:] for _, y in clients]))


def reservoirpy_pooled(clients: Clients) -> object:
    """Run and fit with reservoirpy."""
    from reservoirpy.nodes import Reservoir, Ridge

    W, W_in, bias = weights()
    node = Reservoir(units=UNITS, lr=LEAK, W=W, Win=W_in, bias=bias)
    us, ys = [u for u, _ in clients], [y for _, y in clients]
    node.initialize(us[0])
    rows = [np.hstack([u, x]) for u, x in zip(us, node.run(us, workers=1), strict=True)]
    return Ridge(ridge=RIDGE).fit(rows, ys, warmup=WASHOUT, workers=1)


def naive(data: Path) -> Iterator[dict[str, Any]]:
    """Yield a row of results for each program that can be run here."""
    programs: dict[str, Callable[[Clients], object]] = {
        "numpy loop": numpy_loop,
        "scikit-learn, pooled": scikit_learn,
    }
    with suppress(ImportError):
        import reservoirpy  # noqa: F401

        programs["reservoirpy, pooled"] = reservoirpy_pooled
    weights()
    for name, program in programs.items():
        with single_blas_thread():
            begin = time.process_time()
            program(read(data))
            seconds = time.process_time() - begin
        yield {
            "engine": name,
            "workers": 1,
            "seconds": round(seconds, 2),
            "clients per second": round(PEER_CLIENTS / seconds),
        }
