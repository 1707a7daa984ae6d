"""UCI HAR: six activities from a phone, learned by 21 subjects together and tested on 9 others.

    python examples/uci_har.py [--quick] [--data DIR]

Every subject is a client. Clients send sums of their inputs for the scale, then statistics of
reservoir features; the server adds them, chooses the ridge by leaving each client out, and solves.
Nothing is lost by that: the same model comes out as from all windows in one place. The settings
were compared by leaving out a third of the training subjects at a time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import RidgeClassifierCV

import catchment as ct
from catchment.arrays import Array, Integers
from catchment.errors import MissingDataError
from catchment_lab.datasets import load


def moments(clients: Mapping[str, Sequence[ct.Recording]]) -> tuple[Array, Integers]:
    """Return mean and standard deviation (n, 18) of every channel in each window, and its class."""
    windows = [window for held in clients.values() for window in held]
    X = [np.concatenate([window.u.mean(axis=0), window.u.std(axis=0)]) for window in windows]
    return np.array(X), np.array([np.argmax(w.y) for w in windows if w.y is not None])


def main() -> None:
    parser = argparse.ArgumentParser(description="UCI HAR, federated, over five seeds.")
    parser.add_argument("--quick", action="store_true", help="one seed instead of five")
    parser.add_argument("--data", metavar="DIR", help="data directory")
    arguments = parser.parse_args()
    try:
        data = load("uci_har", directory=arguments.data)
    except MissingDataError as error:
        sys.exit(str(error))
    (X, y), (X_test, y_test) = moments(data.train), moments(data.test)
    majority = DummyClassifier().fit(X, y).score(X_test, y_test)
    linear = RidgeClassifierCV(np.geomspace(1e-2, 1e3, 6)).fit(X, y).score(X_test, y_test)

    accuracy, macro_f1, apart = [], [], []
    for seed in range(1 if arguments.quick else 5):
        leak_rate = ct.LogUniform(0.05, 1.0)
        reservoir = ct.EchoState(120, seed=seed, leak_rate=leak_rate, segments=2)
        model = ct.federate(reservoir, data.train, classes=data.classes).model
        scores = ct.evaluate(model, data.test)
        assert scores.total is not None
        assert scores.total.counts is not None
        accuracy.append(scores.total.value)
        macro_f1.append(scores.total.counts.macro_f1)

        everything = [window for held in data.train.values() for window in held]
        ridge = float(model.readout.ridge)
        pooled = ct.fit(reservoir, everything, ridge=ridge, classes=data.classes)
        test = [window for held in data.test.values() for window in held]
        apart.append(np.abs(model.scores(test) - pooled.scores(test)).max())
    print(f"UCI HAR, accuracy on {len(y_test)} windows of {len(data.test)} unseen subjects")
    print(f"{'largest class':32} {majority:.4f}")
    print(f"{'ridge on channel means and sds':32} {linear:.4f}")
    spread = f"± {np.std(accuracy, ddof=1):.4f} (5 seeds)" if len(accuracy) > 1 else "(1 seed)"
    print(f"{'reservoir, N = 120, federated':32} {np.mean(accuracy):.4f} {spread}")
    print(f"{'its macro-F1':32} {np.mean(macro_f1):.4f}")
    print(f"largest difference of a score from pooled training: {max(apart):.1e}")


if __name__ == "__main__":
    main()
