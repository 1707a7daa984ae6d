"""Solved readouts in fixed point against rational arithmetic: each is the true one, rounded."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from catchment import Array
from catchment.readout import (
    ExactSystem,
    FixedPoint,
    RidgeStatistics,
    chosen_readout,
    scale_of,
    solve_readout,
)

CASES = {
    "numbers": (24, (20, 24), 36),
    "numbers of few digits": (12, (12,), 36),
    "classes": (8, (8, 5), 0),
    "far apart": (20, (2, 30), 36),
}


def sums(
    case: str, *, seed: int = 0, n: int = 40, F: int = 7, K: int = 3, mean: float = 0.2
) -> RidgeStatistics:
    """Return statistics of random rows; the last feature does not vary."""
    bits, kinds, target_digits = CASES[case]
    rng = np.random.default_rng(seed)
    digits = np.array([kinds[j % len(kinds)] for j in range(F)])
    k = np.rint(np.clip(rng.normal(mean, 0.2, (n, F)), -1, 1) * 2.0**bits)
    k[:, 1] = np.rint(0.9 * k[:, 0] + 0.1 * k[:, 1])
    k[:, -1] = 3.0
    z = np.ldexp(k, -digits)
    y = np.eye(K)[rng.integers(0, K, n)] if target_digits == 0 else rng.normal(size=(n, K))
    grid = FixedPoint.from_digits(bits, digits, classes=target_digits == 0)
    return RidgeStatistics.from_states(z, y, fixed=grid)


def oracle(
    s: RidgeStatistics, ridges: Array, intercept: bool, scale: Array | None
) -> tuple[Array, Array]:
    """Return the rounded solution of the equations, by elimination in fractions."""
    assert s.fixed is not None
    F, K = s.cross.shape
    z = [Fraction(1, 1) / 2 ** int(d) for d in s.fixed.digits]
    y = Fraction(1, 2**s.fixed.target_digits)
    n = int(s.weight)
    G = [[Fraction(0)] * F for _ in range(F)]
    pairs = [(i, j) for i in range(F) for j in range(i, F)]
    for (i, j), value in zip(pairs, s.gram.tolist(), strict=True):
        G[i][j] = G[j][i] = value * z[i] * z[j]
    C = [[int(s.cross[i, k]) * z[i] * y for k in range(K)] for i in range(F)]
    a, t = [int(s.feature_sum[i]) * z[i] for i in range(F)], [int(v) * y for v in s.target_sum]
    kept = [i for i in range(F) if not intercept or n * G[i][i] != a[i] * a[i]]
    if intercept:
        C = [[C[i][k] - a[i] * t[k] / n for k in range(K)] for i in range(F)]
        G = [[G[i][j] - a[i] * a[j] / n for j in range(F)] for i in range(F)]
    weights, offset = np.zeros((F, K)), np.zeros(K)
    for k, ridge in enumerate(ridges.tolist()):
        d = np.ones(F) if scale is None else scale
        A = [[G[i][j] for j in kept] + [C[i][k]] for i in kept]
        for row, i in enumerate(kept):
            A[row][row] += Fraction(float(d[i] * d[i] * ridge))
        w = _eliminated(A)
        weights[kept, k] = [float(value) for value in w]
        if intercept:
            rest = sum(a[i] * value for i, value in zip(kept, w, strict=True))
            offset[k] = float((t[k] - rest) / n)
    return weights, offset


def _eliminated(A: list[list[Fraction]]) -> list[Fraction]:
    n = len(A)
    for i in range(n):
        for j in range(n):
            if j != i:
                factor = A[j][i] / A[i][i]
                A[j] = [x - factor * p for x, p in zip(A[j], A[i], strict=True)]
    return [A[i][n] / A[i][i] for i in range(n)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("ridge", [1e-9, 0.3, 1e5])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("standardize", [True, False])
def test_every_number_is_the_true_one_rounded_once(
    case: str, ridge: float, intercept: bool, standardize: bool
) -> None:
    for seed in range(3):
        s = sums(case, seed=seed)
        scale = scale_of(s, standardize)
        readout = solve_readout(s, ridge, intercept=intercept, scale=scale)
        weights, offset = oracle(s, np.full(3, ridge), intercept, scale)
        np.testing.assert_array_equal(readout.weights, weights)
        np.testing.assert_array_equal(readout.intercept, offset)


def test_float64_does_not_find_these_bits() -> None:
    s = sums("numbers")
    weights, _ = oracle(s, np.full(3, 0.3), True, None)
    assert (solve_readout(s.floats, 0.3).weights != weights).any()


def test_large_means_cost_no_digit() -> None:
    """Where means are a thousand deviations, centered moments in float64 lose six digits."""
    s = sums("numbers", mean=0.9)
    weights, offset = oracle(s, np.full(3, 1e-3), True, None)
    readout = solve_readout(s, 1e-3)
    np.testing.assert_array_equal(readout.weights, weights)
    np.testing.assert_array_equal(readout.intercept, offset)


def test_sums_beyond_int64_are_solved_too() -> None:
    s = sums("numbers").scaled(2**20)
    assert s.gram.dtype == object
    weights, offset = oracle(s, np.full(3, 7.0), True, None)
    readout = solve_readout(s, 7.0)
    np.testing.assert_array_equal(readout.weights, weights)
    np.testing.assert_array_equal(readout.intercept, offset)


def test_a_target_of_zeros_and_weights_that_are_zero() -> None:
    """Features and targets that have nothing to do with each other, exactly."""
    z = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    y = np.column_stack([z[:, 0], np.zeros(4)])
    grid = FixedPoint.from_digits(8, np.array([8, 8]), classes=False)
    readout = solve_readout(RidgeStatistics.from_states(z, y, fixed=grid), 1.0)
    np.testing.assert_array_equal(readout.weights, [[0.8, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(readout.intercept, [0.0, 0.0])


def test_a_ridge_that_float64_cannot_tell_is_solved_as_long_as_digits_come() -> None:
    s = sums("numbers", n=4, F=9)
    with pytest.warns(match="smallest that sums of products can tell"):
        found = solve_readout(s, 1e-13)
    np.testing.assert_array_equal(found.weights, oracle(s, np.full(3, 1e-13), True, None)[0])


def test_a_factor_of_another_matrix_finds_no_digits() -> None:
    s = sums("numbers")
    system = ExactSystem.of(s, 0.3, None, intercept=True)
    A = s.moments()[0] + 0.3 * np.eye(7)
    found = system.solved(lambda right: np.asarray(np.linalg.solve(A, right), float))
    assert found is not None
    np.testing.assert_array_equal(found[0], solve_readout(s, 0.3).weights)
    assert system.solved(lambda right: right / 1e3) is None


def test_a_chosen_ridge_is_solved_the_same_way() -> None:
    s = sums("numbers")
    for standardize in (True, False):
        choice, readout = chosen_readout(s, "gcv", standardize=standardize)
        assert choice is not None
        scale = scale_of(s, standardize)
        weights, _ = oracle(s, np.full(3, float(readout.ridge)), True, scale)
        np.testing.assert_array_equal(readout.weights, weights)
