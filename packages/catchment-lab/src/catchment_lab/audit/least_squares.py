"""Levenberg and Marquardt's method, small and quick: attacks solve thousands of small problems."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from catchment import Array

Residual = Callable[[Array], tuple[Array, Array]]


def minimise(residual: Residual, start: Array, *, steps: int = 60) -> tuple[Array, float]:
    """Return where the sum of squares is locally least, and the sum there.

    Parameters
    ----------
    residual
        Returns residuals (m,) and their derivatives (m, n) at a point (n,).
    start
        (n,) where to begin.

    >>> point, least = minimise(lambda v: (v**2 - 2.0, np.diag(2 * v)), np.array([1.0]))
    >>> float(point[0].round(6)), least < 1e-20
    (1.414214, True)
    """
    at = start.astype(np.float64)
    r, J = residual(at)
    cost, damping = float(r @ r), 1e-3
    for _ in range(steps):
        A, g = J.T @ J, J.T @ r
        scale = np.diag(A).max(initial=0.0)
        if not np.isfinite(cost) or scale == 0 or np.abs(g).max() <= 1e-15 * np.sqrt(cost * scale):
            break
        for _ in range(8):
            move = np.linalg.solve(A + damping * scale * np.eye(len(at)), g)
            r_next, J_next = residual(at - move)
            cost_next = float(r_next @ r_next)
            if cost_next < cost:
                break
            damping *= 8
        else:
            break
        small = np.abs(move).max() <= 1e-14 * (1 + np.abs(at).max())
        at, r, J, cost, damping = at - move, r_next, J_next, cost_next, max(damping / 8, 1e-16)
        if small:
            break
    return at, cost
