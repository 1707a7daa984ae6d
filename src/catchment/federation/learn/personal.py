"""Readouts of one's own, computed on the client from the shared model and its own statistics.

With own statistics G_k, C_k and the shared readout W, two ways lead from shared to own:

    towards   (G_k + strength I) W_k = C_k + strength W
    mixed     (a G + (1 - a) w G_k + ridge I) W_k = a C + (1 - a) w C_k,    w = n / n_k

The first needs only the shared readout, which the client has anyway. The second also needs the
summed statistics G, C, and moves least where the others' data say most. In the first the constant
counts as a feature, so that the path begins at the shared readout itself.

How far to go is chosen on the client by leaving out stretches of its own data: no step at all,
which is the shared readout, or else the smallest step whose error is within a standard error of
the best (the difference is taken stretch by stretch; Breiman et al., 1984, section 3.4.3). Later
data of a client are less like its earlier data than stretches of these are like each other, so the
best step on stretches goes too far, and can do harm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from scipy.linalg import eigh

from catchment.arrays import Array
from catchment.federation.rows import Rows, augmented
from catchment.readout.readout import Readout
from catchment.readout.statistics import RidgeStatistics

STRENGTHS = tuple(float(x) for x in np.geomspace(1e3, 1e-4, 15))
SHARES = (0.98, 0.95, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.0)

Path = Callable[[RidgeStatistics], list[Readout]]


@dataclass(frozen=True, eq=False)
class Personal:
    """A readout of one's own, and the mean error of every step on left-out stretches.

    `step` counts from 0, which is the shared readout.
    """

    readout: Readout
    step: int
    errors: Array  # (S,)


def towards(own: RidgeStatistics, shared: Readout, strengths: Sequence[float]) -> list[Readout]:
    """Return the ridge readouts drawn to the shared one, one per strength.

    Parameters
    ----------
    own
        Statistics of the client.
    strengths
        Relative to the mean squared length of a feature column, so that 1 is an even pull.

    >>> own = RidgeStatistics.from_states(np.array([[1.0], [-1.0]]), np.array([[2.0], [-2.0]]))
    >>> shared = Readout(np.array([[0.0]]), np.zeros(1))
    >>> [float(r.weights[0, 0].round(3)) for r in towards(own, shared, [1e9, 1.0, 1e-9])]
    [0.0, 1.0, 2.0]
    """
    A, B = augmented(own)
    values, Q = eigh(A, check_finite=False)
    values = np.maximum(values, 0.0)
    unit = float(np.trace(A)) / len(A)
    inner, anchor = Q.T @ B, Q.T @ np.vstack([shared.weights, shared.intercept])
    readouts = []
    for strength in strengths:
        pull = strength * unit
        solved = Q @ ((inner + pull * anchor) / (values + pull)[:, None])
        readouts.append(Readout(solved[:-1], solved[-1]))
    return readouts


def mixed(
    total: RidgeStatistics,
    own: RidgeStatistics,
    shares: Sequence[float],
    ridge: float | Array = 1e-6,
) -> list[Readout]:
    """Return the readouts of mixtures of everybody's statistics and one's own, one per share.

    Parameters
    ----------
    total
        Statistics of all clients; it does not matter whether this one is among them.
    own
        Statistics of the client; weighed as if it had as many rows as all.
    shares
        Weights of the total, from 1, which is the shared solution, to 0, which is one's own.
    ridge
        Of the shared solution.

    >>> one = RidgeStatistics.from_states(np.array([[1.0], [-1.0]]), np.array([[2.0], [-2.0]]))
    >>> all_ = RidgeStatistics.from_states(np.array([[1.0], [-1.0]]), np.zeros((2, 1)))
    >>> [float(r.weights[0, 0].round(9)) for r in mixed(all_, one, [1.0, 0.5], 0.0)]
    [0.0, 1.0]
    """
    if own.weight <= 0 or total.weight <= 0:
        raise ValueError("a mixture needs rows on both sides; add data first")
    equal = own.scaled(total.weight / own.weight)
    mixtures = (total.scaled(a) + equal.scaled(1.0 - a) for a in shares)
    return [mixture.solve(ridge) for mixture in mixtures]


def personalise(shared: Readout, blocks: Sequence[Rows], path: Path, *, classes: bool) -> Personal:
    """Return the readout of one's own, its distance from the shared one chosen on left-out blocks.

    Parameters
    ----------
    shared
        The readout to begin from.
    blocks
        At least two stretches of the client's own rows, as `Rows.blocks` makes them.
    path
        From statistics to readouts further and further away from the shared one.
    classes
        Whether errors are wrong classes, or else squared errors.
    """
    own = [block.statistics() for block in blocks]
    if len(blocks) < 2:
        raise ValueError(f"there are {len(blocks)} blocks; leaving one out needs at least 2")
    whole = reduce(add, own)
    errors = np.array(
        [
            [_error(readout, block, classes) for readout in (shared, *path(whole - part))]
            for block, part in zip(blocks, own, strict=True)
        ]
    )
    rows = np.array([float(block.weight.sum()) for block in blocks])
    step = smallest_good_step(errors / rows[:, None], rows)
    readout = shared if step == 0 else path(whole)[step - 1]
    return Personal(readout, step, errors.sum(axis=0) / rows.sum())


def smallest_good_step(errors: Array, rows: Array) -> int:
    """Return the first step (of S) whose mean error is within a standard error of the best.

    Parameters
    ----------
    errors
        (B, S) mean errors of each block.
    rows
        (B,) rows in each.

    >>> smallest_good_step(np.array([[3.0, 2.0, 1.9], [3.1, 2.0, 2.1]]), np.array([5.0, 5.0]))
    1
    """
    best = int((rows @ errors).argmin())
    worse = errors - errors[:, [best]]
    spread = worse.std(axis=0, ddof=1) / np.sqrt(len(errors))
    good = worse.mean(axis=0) <= spread + 1e-12
    return min(best, int(good.argmax()))


def _error(readout: Readout, block: Rows, classes: bool) -> float:
    outputs = readout(block.z)
    if classes:
        wrong = outputs.argmax(axis=1) != block.y.argmax(axis=1)
        return float(block.weight @ wrong)
    return float(block.weight @ ((outputs - block.y) ** 2).sum(axis=1))
