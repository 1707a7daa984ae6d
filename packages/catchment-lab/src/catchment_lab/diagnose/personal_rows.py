"""A readout of one's own from few rows: in as many dimensions as there are rows, not features.

The readout that is drawn to the shared one differs from it only along the rows themselves, so that
with a basis Q of these (features divided by their spread, and the constant) it is

    W_k = W + Q V,    (Q'A Q + strength I) V = Q'B - Q'A W

with A, B the client's mean moments. What comes out is what `catchment.federation.learn.personal`
computes from sums, but for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from scipy.linalg import eigh, qr

from catchment.arrays import Array, Booleans
from catchment.federation import Rows
from catchment.federation.learn import STRENGTHS, Personal, smallest_good_step
from catchment.readout import Readout, for_raw_features, for_scaled_features, scale_of


def own_readout_of_rows(
    shared: Readout, blocks: Sequence[Rows], *, classes: bool, standardise: bool
) -> Personal:
    """Return the readout that a client makes for itself, its distance chosen on left-out blocks.

    Parameters
    ----------
    shared
        The readout to begin from.
    blocks
        At least two stretches of the client's own rows.
    classes
        Whether errors are wrong classes, or else squared errors.
    standardise
        Whether features are divided by their spread first.
    """
    if len(blocks) < 2:
        raise ValueError(f"there are {len(blocks)} blocks; leaving one out needs at least 2")
    space = _RowSpace.of(shared, blocks, standardise)
    number = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    errors = []
    for k in range(len(blocks)):
        out = number == k
        steps = [np.zeros((space.c.shape[1], space.y.shape[1])), *space.path(~out)]
        errors.append([space.error(V, out, classes) for V in steps])
    rows = np.array([float(block.weight.sum()) for block in blocks])
    every = np.array(errors)
    step = smallest_good_step(every / rows[:, None], rows)
    readout = shared if step == 0 else space.readout(space.path(number >= 0)[step - 1])
    return Personal(readout, step, every.sum(axis=0) / rows.sum())


@dataclass(frozen=True, eq=False)
class _RowSpace:
    """Rows as coordinates c (n, r) in a basis (F + 1, r) of themselves, and W's outputs of them."""

    basis: Array
    anchor: Array  # (F + 1, K), the shared readout for divided features
    c: Array
    y: Array
    weight: Array
    shared: Array  # (n, K), the shared readout's outputs
    scale: Array | None

    @classmethod
    def of(cls, shared: Readout, blocks: Sequence[Rows], standardise: bool) -> _RowSpace:
        scale = scale_of(reduce(add, (block.statistics() for block in blocks)), standardise)
        z = np.concatenate([block.z for block in blocks])
        drawn_to = shared if scale is None else for_scaled_features(shared, scale)
        a = np.hstack([z if scale is None else z / scale, np.ones((len(z), 1))])
        basis = qr(a.T, mode="economic", check_finite=False)[0]
        anchor = np.vstack([drawn_to.weights, drawn_to.intercept])
        y, weight = (
            np.concatenate([block.y for block in blocks]),
            np.concatenate([block.weight for block in blocks]),
        )
        return cls(basis, anchor, a @ basis, y, weight, a @ anchor, scale)

    def path(self, which: Booleans) -> list[Array]:
        """Return the steps V (r, K) of some rows, one per strength."""
        c, weight = self.c[which], self.weight[which]
        total = weight.sum()
        A = (c * weight[:, None]).T @ c / total
        B = (c * weight[:, None]).T @ (self.y[which] - self.shared[which]) / total
        values, Q = eigh(A, check_finite=False)
        unit = float(np.trace(A)) / len(self.basis)
        inner = Q.T @ B
        return [
            Q @ (inner / (np.maximum(values, 0.0) + strength * unit)[:, None])
            for strength in STRENGTHS
        ]

    def error(self, V: Array, which: Booleans, classes: bool) -> float:
        """Return the weighted sum of errors of a step on some rows."""
        outputs, y = self.shared[which] + self.c[which] @ V, self.y[which]
        if classes:
            each = (outputs.argmax(axis=1) != y.argmax(axis=1)).astype(np.float64)
        else:
            each = ((outputs - y) ** 2).sum(axis=1)
        return float(self.weight[which] @ each)

    def readout(self, V: Array) -> Readout:
        solved = self.anchor + self.basis @ V
        made = Readout(solved[:-1], solved[-1])
        return made if self.scale is None else for_raw_features(made, self.scale)
