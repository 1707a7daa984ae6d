"""Pooled features in fixed point against exact fractions, for sequences cut and whole."""

from __future__ import annotations

import math
from fractions import Fraction
from inspect import getmodule
from itertools import pairwise

import numpy as np
import pytest

from catchment import Array, Reservoir
from catchment.features import EchoState
from catchment.features.echo_state import Pool, Totals

LENGTHS = (9, 39, 40, 41, 100, 203)


def reservoir(bits: int, range: float = 8.0) -> Reservoir:
    rng = np.random.default_rng(1)
    return Reservoir.from_matrices(
        0.3 * rng.normal(size=(6, 6)),
        rng.normal(size=(6, 2)),
        leak_rate=[0.3, 1.0, 0.5, 0.1, 0.7, 0.2],
        activation=["tanh", "sin", "sigmoid", "relu", "identity", "tanh"],
        bits=bits,
        range=range,
        cut=(40, 20),
    )


def pooled(part: Array, pool: Pool, bits: int) -> list[list[float]]:
    """Return the rows of a part's steps (T, n) as the definition says, in integers."""
    if pool == "max":
        return [part.max(axis=0).tolist()]
    if pool == "last":
        return [part[-1].tolist()]
    T, means, deviations = len(part), [], []
    for column in part.T:
        k = [int(Fraction(float(x)) * 2**bits) for x in column]
        S1 = sum(k)
        m = S1 // T
        d, q = (S1 - T * m) / T, float(sum((x - m) ** 2 for x in k)) / T
        means.append(math.ldexp(S1 / T, -bits))
        deviations.append(math.ldexp(math.sqrt(q - d * d), -bits))
    return [means] if pool == "mean" else [means, deviations]


@pytest.mark.parametrize("pool", ["last", "mean", "mean_std", "max"])
@pytest.mark.parametrize(
    ("bits", "reach", "segments"), [(8, 8.0, 1), (15, 0.5, 3), (20, 8.0, 1), (24, 256.0, 3)]
)
def test_pooled_rows_are_exact_sums(bits: int, reach: float, segments: int, pool: Pool) -> None:
    network = reservoir(bits, reach)
    us = [0.1 * np.random.default_rng(k).normal(size=(T, 2)) for k, T in enumerate(LENGTHS)]
    steps = EchoState.of(network, bias=True, washout=5).rows(us)
    features = EchoState.of(network, bias=True, washout=5, pool=pool, segments=segments)
    for x, row in zip(steps, features.rows(us), strict=True):
        edges = [len(x) * k // segments for k in range(segments + 1)]
        expected = [z for f, last in pairwise(edges) for z in pooled(x[f:last], pool, bits)]
        np.testing.assert_array_equal(row[0], np.concatenate(expected))


@pytest.mark.parametrize("pool", ["last", "mean", "mean_std", "max"])
def test_company_threads_and_cuts_do_not_show(pool: Pool) -> None:
    features = EchoState.of(reservoir(20), pool=pool, segments=2, feature_bits=8)
    us = [np.random.default_rng(k).normal(size=(T, 2)) for k, T in enumerate(2 * LENGTHS)]
    alone = [features(u) for u in us]
    step = features.bounds / 2**8
    for threads in (1, 3):
        for one, other in zip(alone, features.rows(us, threads=threads), strict=True):
            assert one.tobytes() == other.tobytes()
            np.testing.assert_array_equal(np.rint(one / step) * step, one)
            assert (np.abs(one) <= features.bounds).all()


def test_a_constant_unit_has_no_deviation() -> None:
    still = Reservoir.from_matrices([[0.0]], [[0.0]], bias=[0.7], bits=20)
    row = EchoState.of(still, pool="mean_std", input=False)(np.zeros((1000, 1)))[0]
    assert row[0] == still.states([0.0])[0, 0]
    assert row[1] == 0.0


def test_a_part_too_long_for_exact_sums_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    totals = Totals("mean", np.array([8.0, 1.0]), [[0, 10]], 24)
    assert totals.most_steps == 2**25
    features = EchoState.of(reservoir(20), pool="mean")
    monkeypatch.setattr(getmodule(Totals), "Totals", _Few)
    with pytest.raises(ValueError, match="30 steps to pool"):
        features(np.zeros((30, 2)))


class _Few(Totals):
    most_steps = 20
