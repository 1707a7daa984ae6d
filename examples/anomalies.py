"""Many owners' machines: learn together what is normal, and notice what is not.

Each machine has two channels that swing together. Nobody has recorded a fault. The owners' sums say
what is normal, and a threshold is set for one false alarm in a hundred steps; then a machine that
took no part has a fault, which its scores show as they come in.
"""

from __future__ import annotations

import numpy as np

import catchment as ct
from catchment.arrays import Array
from catchment.federation.learn import FederatedAnomalyDetector


def machine(seed: int, n_steps: int = 800) -> Array:
    """Return the channels (n_steps, 2) of a machine without a fault."""
    rng = np.random.default_rng(seed)
    time = np.arange(n_steps) / 6
    return np.column_stack([np.sin(time), np.cos(time)]) + 0.1 * rng.normal(size=(n_steps, 2))


def main() -> None:
    clients = {f"machine-{k}": [ct.Recording(machine(k))] for k in range(6)}
    features = ct.NVAR(delays=3, order=1, washout=3).build(2, per_step=True)
    new, begin, end = machine(9), 500, 530
    new[begin:end, 1] += 1.5
    print(
        f"{'score':10} {'threshold':>9} {'false alarms':>12} {'fault seen':>10} {'first after':>11}"
    )
    for score in ("features", "error"):
        algorithm = FederatedAnomalyDetector(
            features=features, score=score, false_positive_rate=0.01
        )
        detector = ct.federate(ct.Plan(algorithm=algorithm, rounds=2), clients).result
        alarms = np.zeros(len(new), dtype=bool)
        alarms[detector.washout :] = detector.predict(new)
        faulty = np.zeros(len(new), dtype=bool)
        faulty[begin : end + 3] = True
        false, seen = alarms[~faulty].mean(), alarms[begin:end].mean()
        first = int(alarms[begin:end].argmax())
        print(f"{score:10} {detector.threshold:9.2f} {false:12.1%} {seen:10.0%} {first:11}")


if __name__ == "__main__":
    main()
