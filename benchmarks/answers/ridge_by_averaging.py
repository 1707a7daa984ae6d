"""Ridge regression of several owners: averaged coefficients, FedAvg, and sums, beside pooled data.

    python -m benchmarks.answers.ridge_by_averaging      # results/answers_ridge.json, half a minute
    python -m benchmarks.answers.ridge_by_averaging --rounds 1 5 --out /tmp      # small

The data are scikit-learn's diabetes (clients by body mass index) and digits (two digits a client);
the oracle is its `Ridge` on all training rows in one place.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

import catchment as ct
from benchmarks.record import RESULTS, write
from catchment import Array
from catchment.features import FeatureMap

RIDGE, LOCAL_STEPS, ROUNDS = 1.0, 10, (1, 10, 100, 1000)
Weights = tuple[Array, Array]


@dataclass(frozen=True)
class Columns(FeatureMap):
    """The columns of a table as they are, a row per step."""

    channels: int
    per_step = True

    @property
    def n_features(self) -> int:
        return self.channels

    @property
    def bounds(self) -> Array:
        return np.full(self.channels, np.inf)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return list(inputs)


@dataclass(frozen=True)
class Problem:
    """Rows of each client, test rows, and whether targets are classes."""

    clients: tuple[tuple[Array, Array], ...]
    X: Array
    y: Array
    classes: bool

    def score(self, weights: Weights) -> float:
        """Return accuracy of classes, else R²."""
        predicted = self.X @ weights[0] + weights[1]
        if self.classes:
            return float((predicted.argmax(axis=1) == self.y.argmax(axis=1)).mean())
        return float(1 - ((self.y - predicted) ** 2).sum() / ((self.y - self.y.mean()) ** 2).sum())


def diabetes() -> Problem:
    """Return eight clinics, each with patients of another body mass index."""
    X, y = load_diabetes(return_X_y=True)
    X = X * np.sqrt(len(X))  # columns of deviation 1
    train, X_test, target, y_test = train_test_split(X, y[:, None], test_size=0.25, random_state=0)
    order = np.array_split(np.argsort(train[:, 2], kind="stable"), 8)
    return Problem(tuple((train[k], target[k]) for k in order), X_test, y_test, classes=False)


def digits() -> Problem:
    """Return five writers, each with two of the ten digits."""
    X, label = load_digits(return_X_y=True)
    y = np.eye(10)[label]
    train, X_test, target, y_test = train_test_split(X / 16, y, test_size=0.25, random_state=0)
    held = [np.isin(target.argmax(axis=1), (2 * k, 2 * k + 1)) for k in range(5)]
    return Problem(tuple((train[k], target[k]) for k in held), X_test, y_test, classes=True)


def pooled(problem: Problem) -> Weights:
    X, y = (np.concatenate(side) for side in zip(*problem.clients, strict=True))
    return _fitted(X, y)


def _fitted(X: Array, y: Array) -> Weights:
    found = Ridge(alpha=RIDGE).fit(X, y)
    return found.coef_.reshape(y.shape[1], -1).T, np.atleast_1d(found.intercept_)


def averaged(problem: Problem) -> Weights:
    """Return the mean, by rows, of the coefficients that each client fits for itself."""
    fits = [_fitted(X, y) for X, y in problem.clients]
    return _mean(fits, [len(X) for X, _ in problem.clients])


def _mean(fits: Sequence[Weights], rows: Sequence[int]) -> Weights:
    share = np.asarray(rows) / sum(rows)
    coefficients, intercept = zip(*fits, strict=True)
    return np.tensordot(share, coefficients, 1), np.tensordot(share, intercept, 1)


def fedavg(problem: Problem, n_rounds: int) -> Weights:
    """Return FedAvg's model: clients take gradient steps on their own loss from the last mean."""
    rows = [len(X) for X, _ in problem.clients]
    with_constant = [np.c_[X, np.ones(len(X))] / np.sqrt(len(X)) for X, _ in problem.clients]
    rate = 1 / (max(np.linalg.norm(Z, 2) for Z in with_constant) ** 2 + RIDGE / sum(rows))
    W = np.zeros((problem.X.shape[1], problem.y.shape[1]))
    b = np.zeros(problem.y.shape[1])
    for _ in range(n_rounds):
        fits = []
        for X, y in problem.clients:
            V, c = W, b
            for _ in range(LOCAL_STEPS):
                wrong = X @ V + c - y
                # The penalty is shared by rows, so that losses add up to the pooled one.
                V, c = (
                    V - rate * (X.T @ wrong / len(X) + RIDGE / sum(rows) * V),
                    c - rate * wrong.mean(axis=0),
                )
            fits.append((V, c))
        W, b = _mean(fits, rows)
    return W, b


def summed(problem: Problem) -> tuple[Weights, int]:
    """Return the model of `FederatedRidge`, and the bytes of a client's upload."""
    clients = {f"client-{k}": [ct.Recording(X, y)] for k, (X, y) in enumerate(problem.clients)}
    learn = ct.FederatedRidge(
        features=Columns(problem.X.shape[1]), ridge=RIDGE, store_per_client=False
    )
    found = ct.federate(ct.Plan(algorithm=learn), clients)
    readout = found.model.readout
    sent = found.records[0].bytes_up // len(clients)
    return (readout.weights, readout.intercept), sent


def compared(problem: Problem, rounds: Sequence[int]) -> dict[str, Any]:
    """Return score, distance from the pooled coefficients and rounds of every method."""
    oracle = pooled(problem)
    ours, sent = summed(problem)
    found = [
        ("pooled data, scikit-learn", 0, oracle),
        ("averaged coefficients", 1, averaged(problem)),
        *(("FedAvg", n, fedavg(problem, n)) for n in rounds),
        ("sums, catchment", 1, ours),
    ]
    size = np.linalg.norm(oracle[0])
    rows = [
        {
            "method": method,
            "rounds": n_rounds,
            "score": round(problem.score(weights), 4),
            "distance": float(np.linalg.norm(weights[0] - oracle[0]) / size),
        }
        for method, n_rounds, weights in found
    ]
    return {"clients": len(problem.clients), "bytes a client": sent, "methods": rows}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, nargs="+", default=ROUNDS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    found = {make.__name__: compared(make(), given.rounds) for make in (diabetes, digits)}
    head = {"scikit-learn": version("scikit-learn"), "ridge": RIDGE, "local steps": LOCAL_STEPS}
    write("answers_ridge", head | found, folder=given.out)


if __name__ == "__main__":
    main()
