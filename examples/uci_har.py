"""UCI HAR: six activities from a phone, learnt by 21 subjects together and tested on 9 others.

    python examples/uci_har.py [--quick] [--data DIR]

Every subject is a client. Clients send sums of their inputs for the scaler, then statistics of
reservoir features; the server adds them, chooses the ridge by leaving each client out, and solves.
Nothing is lost by that: the same model comes out as from all windows in one place. The settings
were compared by leaving out a third of the training subjects at a time.
"""

from __future__ import annotations

import argparse
import sys
from functools import reduce
from operator import add

import numpy as np

from catchment import Readout, Recipe, Reservoir, RidgeStatistics, Spread
from catchment.arrays import Array
from catchment.data.loaders import load
from catchment.data.recording import Recording
from catchment.data.scaling import federated_scaler
from catchment.errors import MissingDataError
from catchment.features import EchoStateMap
from catchment.readout.accumulate import accumulate
from catchment.readout.metrics import ClassCounts
from catchment.readout.ridge_choice import choose_by_blocks

RIDGES = np.geomspace(1e-2, 1e3, 6)


def learn(clients: list[RidgeStatistics]) -> Readout:
    """Return the readout of the clients' sum, its ridge chosen by leaving each client out."""
    return reduce(add, clients).solve(choose_by_blocks(clients, RIDGES).best)


def targets(windows: list[Recording]) -> Array:
    return np.array([s.y for s in windows])


def moments(windows: list[Recording]) -> Array:
    """Return the mean and standard deviation (n, 18) of every channel in each window."""
    return np.array([np.concatenate([s.u.mean(axis=0), s.u.std(axis=0)]) for s in windows])


def reservoir(
    train: list[list[Recording]], test: list[Recording], seed: int
) -> tuple[float, float]:
    """Return the accuracy, and how far the federated scores are from those of pooled windows."""
    leak_rate = Spread("log_uniform", 0.05, 1.0)
    recipe = Recipe(units=120, inputs=9, leak_rate=leak_rate, seed=seed)
    features = EchoStateMap(Reservoir.from_recipe(recipe), pool="mean_std", segments=2)
    readout = learn([accumulate(features, windows) for windows in train])
    pooled = accumulate(features, [s for windows in train for s in windows]).solve(readout.ridge)
    z = np.concatenate(features.rows([s.u for s in test]))
    difference = np.abs(readout(z) - pooled(z)).max()
    return ClassCounts.of_scores(targets(test), readout(z)).accuracy, float(difference)


def main() -> None:
    parser = argparse.ArgumentParser(description="UCI HAR, federated, over five seeds.")
    parser.add_argument("--quick", action="store_true", help="one seed instead of five")
    parser.add_argument("--data", metavar="DIR", help="data directory")
    arguments = parser.parse_args()
    try:
        data = load("uci_har", directory=arguments.data)
    except MissingDataError as error:
        sys.exit(str(error))
    scaler = federated_scaler(data.train)
    train = [scaler.apply(windows) for windows in data.train.values()]
    test = [s for windows in data.test.values() for s in scaler.apply(windows)]

    share = np.concatenate([targets(windows) for windows in train]).mean(axis=0)
    majority = ClassCounts.of_scores(targets(test), np.tile(share, (len(test), 1))).accuracy
    linear = learn([RidgeStatistics.from_states(moments(w), targets(w)) for w in train])
    plain = ClassCounts.of_scores(targets(test), linear(moments(test))).accuracy
    runs = [reservoir(train, test, seed) for seed in range(1 if arguments.quick else 5)]
    accuracy = [run[0] for run in runs]
    print(f"UCI HAR, accuracy on {len(test)} windows of {len(data.test)} unseen subjects")
    print(f"{'largest class':32} {majority:.4f}")
    print(f"{'ridge on channel means and sds':32} {plain:.4f}")
    spread = f"± {np.std(accuracy, ddof=1):.4f} (5 seeds)" if len(runs) > 1 else "(1 seed)"
    print(f"{'reservoir, N = 120, federated':32} {np.mean(accuracy):.4f} {spread}")
    print(f"largest difference of a score from pooled training: {max(run[1] for run in runs):.1e}")


if __name__ == "__main__":
    main()
