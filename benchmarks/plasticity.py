"""What does a step of intrinsic plasticity cost beside a plain step of the reservoir?

The same sequences are driven through the same reservoir, first with fixed gains, then while every
unit adapts after every step; CPU time on one thread, the least of several repeats taken in turns.
A plain numpy loop that adapts in the same way is measured beside it.

    python -m benchmarks.plasticity    # writes benchmarks/results/plasticity.json
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.record import RESULTS, write
from catchment import Array, single_blas_thread
from catchment.features import EchoState, Reservoir
from catchment_research.plasticity import IntrinsicPlasticity, plasticity_of

SIZES = ((100, 9), (200, 9), (300, 9), (500, 9))
RULE = IntrinsicPlasticity(target_std=0.3, learning_rate=1e-4)


def measured(
    units: int, inputs: int, *, sequences: int, steps: int, repeats: int
) -> dict[str, object]:
    """Return seconds per million steps of each way, and how they compare."""
    reservoir = Reservoir(units=units, inputs=inputs, leak_rate=0.3, seed=1)
    features = EchoState.of(reservoir, input=False, pool="last")
    us = list(np.random.default_rng(0).normal(size=(sequences, steps, inputs)))
    ways: dict[str, Callable[[], object]] = {
        "states": lambda: reservoir.run(us, threads=1),
        "pooled": lambda: features.rows(us, threads=1),
        "plasticity": lambda: RULE.adapt(reservoir, us),
    }
    seconds = {name: float("inf") for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            begin = time.process_time()
            way()
            seconds[name] = min(seconds[name], time.process_time() - begin)
    with single_blas_thread():
        begin = time.process_time()
        numpy_loop(reservoir, us[:32])
        loop = (time.process_time() - begin) * 1e6 / (32 * steps)
    scale = 1e6 / (sequences * steps)
    found = {name: value * scale for name, value in seconds.items()}
    return {
        "units": units,
        "inputs": inputs,
        "seconds_per_million_steps": {**found, "numpy loop": loop},
        "plasticity_over_states": found["plasticity"] / found["states"],
        "plasticity_over_pooled": found["plasticity"] / found["pooled"],
        "numpy_over_plasticity": loop / found["plasticity"],
    }


def numpy_loop(reservoir: Reservoir, us: list[Array]) -> tuple[Array, Array]:
    """Return gains and shifts after one epoch of one batch, by matrix products."""
    (layer,) = reservoir.layers
    W, W_in = layer.W.to_dense(), layer.W_in.to_dense()
    g, s = plasticity_of(reservoir)
    X = np.zeros((len(us), reservoir.n_units))
    U = np.stack(us, axis=1) @ W_in.T + layer.bias
    v, eta = RULE.target_std**2, RULE.learning_rate
    for drive in U:
        P = drive + X @ W.T
        Y = np.tanh(g * P + s)
        X = (1 - layer.leak) * X + layer.leak * Y
        D = -(Y / v) * (2 * v + 1 - Y**2)
        s = s + eta * D.mean(axis=0)
        g = g + eta * (1 / g + (D * P).mean(axis=0))
    return g, s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sequences", type=int, default=128)
    parser.add_argument("--steps", type=int, default=256)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    rows = [
        measured(units, inputs, sequences=given.sequences, steps=given.steps, repeats=given.repeats)
        for units, inputs in SIZES
    ]
    for row in rows:
        print(
            f"{row['units']} units: {row['plasticity_over_states']:.2f} x states, "
            f"{row['plasticity_over_pooled']:.2f} x pooled, "
            f"{row['numpy_over_plasticity']:.1f} x quicker than numpy"
        )
    settings = {"sequences": given.sequences, "steps": given.steps, "repeats": given.repeats}
    print(write("plasticity", {"settings": settings, "rows": rows}, folder=given.out))


if __name__ == "__main__":
    main()
