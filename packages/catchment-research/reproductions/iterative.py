"""Federated averaging of the readout by gradient steps, many rounds at once.

With all rows in each step a client's steps are affine in the readout it was sent, V -> M V + N, and
so is a round of the federation, with the clients' M and N averaged by their rows. Thousands of
rounds are then a few products of small matrices; they give what `GradientAveraging` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from catchment import Array, single_blas_thread
from catchment.federation import augmented
from catchment.readout import Readout, RidgeStatistics
from catchment_research.learn import largest_eigenvalue
from reproductions.cells import Chosen, Subjects, accuracy, summed

Affine = tuple[Array, Array]


@dataclass(frozen=True, kw_only=True)
class Averaging:
    """How clients train between rounds.

    Parameters
    ----------
    local_steps
        Gradient steps on all of a client's rows in a round.
    learning_rate
        Relative to the largest curvature of the client's rows.
    """

    local_steps: int
    learning_rate: float


@dataclass(frozen=True, eq=False)
class Curve:
    """A training by rounds: the readout after some of them, with its validation accuracy."""

    averaging: Averaging
    after: dict[int, Chosen]

    @property
    def last(self) -> Chosen:
        return self.after[max(self.after)]


def best_curve(
    train: Subjects,
    validation: Subjects,
    *,
    ridge: float,
    rounds: Sequence[int],
    tried: Sequence[Averaging],
) -> Curve:
    """Return the training whose last readout does best on the validation subjects.

    Of equals it is the one that does best over all rounds looked at: the quickest.

    Parameters
    ----------
    ridge
        Of the exact readout: the error that the steps descend is the one it minimizes.
    rounds
        After which to look.
    """
    curves = []
    for averaging in tried:
        path = readouts_after(train, averaging, ridge=ridge, rounds=rounds)
        after = {n: Chosen(r, ridge, accuracy(r, validation)) for n, r in path.items()}
        curves.append(Curve(averaging, after))
    return max(curves, key=lambda c: (c.last.accuracy, sum(a.accuracy for a in c.after.values())))


def readouts_after(
    train: Subjects, averaging: Averaging, *, ridge: float, rounds: Sequence[int]
) -> dict[int, Readout]:
    """Return the averaged readout after each of these rounds, from zeros."""
    total = summed(train).weight
    clients = [train[name].statistics for name in sorted(train)]
    with single_blas_thread():
        M, N = _mean([_steps(s, averaging, ridge / total) for s in clients], clients)
        V, found = np.zeros_like(N), {}
        for before, n in pairwise((0, *sorted(rounds))):
            several = _repeated((M, N), n - before)
            V = several[0] @ V + several[1]
            found[n] = Readout(V[:-1].copy(), V[-1].copy())
    return found


def _steps(statistics: RidgeStatistics, averaging: Averaging, ridge: float) -> Affine:
    """Return what a client's steps of a round make of a readout."""
    A, B = augmented(statistics)
    A = A + np.diag(np.append(np.full(len(A) - 1, ridge), 0.0))
    step = averaging.learning_rate / largest_eigenvalue(A)
    return _repeated((np.eye(len(A)) - step * A, step * B), averaging.local_steps)


def _repeated(step: Affine, times: int) -> Affine:
    """Return an affine step taken this often, by squaring.

    >>> half = np.array([[0.5]]), np.array([[1.0]])
    >>> [part.item() for part in _repeated(half, 3)]
    [0.125, 1.75]
    """
    (M, N), done = step, None
    while times:
        if times % 2:
            done = (M, N) if done is None else (M @ done[0], M @ done[1] + N)
        M, N, times = M @ M, M @ N + N, times // 2
    assert done is not None
    return done


def _mean(steps: Sequence[Affine], clients: Sequence[RidgeStatistics]) -> Affine:
    weights = np.array([s.weight for s in clients]) / sum(s.weight for s in clients)
    M = sum((w * M for w, (M, _) in zip(weights, steps, strict=True)), np.zeros(()))
    N = sum((w * N for w, (_, N) in zip(weights, steps, strict=True)), np.zeros(()))
    return M, N
