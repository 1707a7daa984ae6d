"""Japanese Vowels: who speaks, from 7 to 29 frames of 12 coefficients; the publisher's split.

    python examples/japanese_vowels.py [--quick] [--data DIR]

All settings are the classifier's own but the number of units; they were compared by five-fold
cross-validation on the 270 training utterances. The ridge is chosen by generalized
cross-validation on the same utterances.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from catchment.arrays import Array, Integers
from catchment.data import Recording
from catchment.errors import MissingDataError
from catchment.sklearn import EchoStateClassifier
from catchment_lab.datasets import load


def utterances(clients: dict[str, list[Recording]]) -> tuple[list[Array], Integers]:
    """Return inputs (T, 12) and the number of the speaker of each utterance."""
    flat = [s for sequences in clients.values() for s in sequences]
    return [s.u for s in flat], np.array([np.argmax(s.y) for s in flat if s.y is not None])


def summaries(u: Array) -> Array:
    """Return mean, deviation, extremes, first and last frame (72,) of an utterance (T, 12)."""
    return np.concatenate([u.mean(0), u.std(0), u.min(0), u.max(0), u[0], u[-1]])


def main() -> None:
    parser = argparse.ArgumentParser(description="Japanese Vowels over five seeds.")
    parser.add_argument("--quick", action="store_true", help="two seeds instead of five")
    parser.add_argument("--data", metavar="DIR", help="data directory")
    arguments = parser.parse_args()
    try:
        data = load("japanese_vowels", directory=arguments.data)
    except MissingDataError as error:
        sys.exit(str(error))
    (X, y), (X_test, y_test) = utterances(data.train), utterances(data.test)

    mean, mean_test = (np.array([u.mean(axis=0) for u in part]) for part in (X, X_test))
    majority = DummyClassifier().fit(mean, y).score(mean_test, y_test)
    linear = RidgeClassifierCV(np.geomspace(1e-6, 1e3, 19)).fit(mean, y).score(mean_test, y_test)
    six, six_test = (np.array([summaries(u) for u in part]) for part in (X, X_test))
    scaled = make_pipeline(StandardScaler(), RidgeClassifierCV(np.geomspace(1e-6, 1e3, 19)))
    stronger = scaled.fit(six, y).score(six_test, y_test)
    reservoir = [
        EchoStateClassifier(120, random_state=seed).fit(X, y).score(X_test, y_test)
        for seed in range(2 if arguments.quick else 5)
    ]
    print(f"Japanese Vowels, accuracy on {len(y_test)} test utterances of {len(set(y))} speakers")
    print(f"{'largest class':28} {majority:.4f}")
    print(f"{'ridge on the mean frame':28} {linear:.4f}")
    print(f"{'ridge on six summaries':28} {stronger:.4f}")
    spread = f"± {np.std(reservoir, ddof=1):.4f} ({len(reservoir)} seeds)"
    print(f"{'reservoir, N = 120':28} {np.mean(reservoir):.4f} {spread}")


if __name__ == "__main__":
    main()
