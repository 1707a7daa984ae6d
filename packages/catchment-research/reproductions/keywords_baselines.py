"""What a new keyword is compared with: pooled ridge, and a readout fine-tuned where it came up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from catchment import Array

BATCH, MOST_EPOCHS = 5, 100


def pooled_outputs(
    z: Array, said: Sequence[str], names: Sequence[str], ridge: float, tests: Array
) -> Array:
    """Return scikit-learn's ridge outputs for test rows, all rows in one place."""
    from sklearn.linear_model import Ridge

    spread = z.std(axis=0)
    spread[spread == 0] = 1.0
    y = np.array([[float(one == name) for name in names] for one in said])
    fitted = Ridge(alpha=ridge, solver="cholesky").fit(z / spread, y)
    return np.asarray(fitted.predict(tests / spread))


@dataclass(frozen=True, eq=False)
class Softmax:
    """A softmax readout: weights (F + 1, K) of standardized features and a one."""

    weights: Array
    mean: Array
    spread: Array

    def rows(self, z: Array) -> Array:
        return np.column_stack([(z - self.mean) / self.spread, np.ones(len(z))])

    def scores(self, z: Array) -> Array:
        return np.asarray(self.rows(z) @ self.weights)

    def __call__(self, z: Array) -> Array:
        return self.scores(z)


def softmax_of(z: Array, said: Sequence[str], names: Sequence[str]) -> Softmax:
    """Return scikit-learn's logistic regression on all rows in one place: where tuning begins."""
    from sklearn.linear_model import LogisticRegression

    mean, spread = z.mean(axis=0), z.std(axis=0)
    labels = [names.index(one) for one in said]
    fitted = LogisticRegression(max_iter=500).fit((z - mean) / spread, labels)
    return Softmax(np.vstack([fitted.coef_.T, fitted.intercept_]), mean, spread)


def fine_tuned(
    start: Softmax, z: Array, *, epochs: int | None, rate: float = 0.01, seed: int = 0
) -> Softmax:
    """Return the readout with one more class, after stochastic gradient descent on its rows alone.

    Parameters
    ----------
    z
        (n, F) rows of the new class.
    epochs
        How many; until all rows are right if None, the kindest moment to stop.
    rate
        Of the descent.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(60, 2)) + np.repeat([[0.0, 0.0], [6.0, 0.0], [3.0, 6.0]], 20, axis=0)
    >>> start = softmax_of(z, [*"a" * 20, *"b" * 20, *"c" * 20], ("a", "b", "c"))
    >>> new = z[:20] - [0.0, 9.0]
    >>> tuned = fine_tuned(start, new, epochs=100, rate=1.0)
    >>> bool((tuned(new).argmax(axis=1) == 3).mean() > 0.9)
    True
    """
    rng = np.random.default_rng(seed)
    W = np.column_stack([start.weights, start.weights.mean(axis=1)])
    rows, new = start.rows(z), W.shape[1] - 1
    for _ in range(MOST_EPOCHS if epochs is None else epochs):
        if epochs is None and ((rows @ W).argmax(axis=1) == new).all():
            break
        for part in np.array_split(rng.permutation(len(rows)), max(1, len(rows) // BATCH)):
            scores = rows[part] @ W
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p[:, new] -= 1.0
            W -= rate * rows[part].T @ p / len(part)
    return Softmax(W, start.mean, start.spread)
