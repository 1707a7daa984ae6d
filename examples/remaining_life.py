"""Cycles left until failure, with intervals, from machines whose recordings stay with their owners.

Run with `python examples/remaining_life.py`. Twenty synthetic machines have worn out; each is a
client. A new one is watched, and says how long it will last.
"""

from __future__ import annotations

import numpy as np

import catchment as ct

CAP = 100.0  # cycles: nobody sees a failure further ahead


def machine(seed: int) -> ct.Recording:
    """Return two sensors of a machine from its start to its failure, and the cycles left."""
    rng = np.random.default_rng(seed)
    life = int(rng.integers(120, 220))
    wear = np.exp((np.arange(life) - life) / 30 * rng.uniform(0.8, 1.2))
    sensors = np.column_stack([wear, -0.7 * wear]) + 0.1 * rng.normal(size=(life, 2))
    left = np.minimum(np.arange(life)[::-1], CAP)
    return ct.Recording(sensors, left, channels=("heat", "pressure"))


def main() -> None:
    worn_out = {f"machine-{k:02d}": [machine(k)] for k in range(20)}
    slow = ct.DiagonalReservoir(100, nonlinearity="mix", memory=(2.0, 60.0), frequencies=0.02)
    run = ct.federate(slow, worn_out)  # sums go up once for the scale and once for the model
    model: ct.Model = ct.calibrate(run, worn_out, cuts=(30.0,))  # and once counts of errors

    inside, errors = [], []
    for seed in range(100, 120):
        new = machine(seed)
        assert new.y is not None
        said = model.predict(new)
        low, high = model.interval(said, coverage=0.9)
        inside.append((low <= new.y) & (new.y <= high))
        errors.append(said - new.y)
    error = float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))
    print(f"20 new machines: wrong by {error:.1f} cycles (root mean square)")
    print(f"intervals of 90 % hold {100 * np.concatenate(inside).mean():.0f} % of all steps")
    for left in (60, 20, 5):
        at = -1 - left
        print(
            f"{left:3d} left: said {said[at, 0]:5.1f}, from {low[at, 0]:5.1f} to {high[at, 0]:.1f}"
        )


if __name__ == "__main__":
    main()
