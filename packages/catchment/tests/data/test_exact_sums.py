"""Exact sums against Python's own integers, and their bits on several processors."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction
from inspect import getmodule

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment import Array
from catchment.data import Moments, Scaler, root
from catchment.readout import integers

NUMBERS = st.floats(-(2.0**40), 2.0**40, exclude_min=True, exclude_max=True)


def reference(values: Array) -> tuple[int, int, int]:
    """Return count, sum in 2^-60 and sum of squares in 2^-120, of numbers without a fraction."""
    whole = [round(Fraction(value) * 2**60) for value in values.tolist() if value == value]
    return len(whole), sum(whole), sum(k * k for k in whole)


@given(st.lists(st.one_of(NUMBERS, st.just(math.nan), st.floats(-1, 1)), max_size=40))
def test_the_sums_are_those_of_whole_numbers(values: list[float]) -> None:
    sums = Moments.of([np.array(values, dtype=float).reshape(-1, 1)])
    assert (sums.count[0], sums.total[0], sums.squares[0]) == reference(
        np.array(values, dtype=float)
    )


@pytest.mark.parametrize("exponents", [(-70, 40), (-1, 1), (19, 21), (-21, -19), (39, 40)])
def test_long_columns_of_any_size(exponents: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    u = rng.uniform(-1, 1, (1500, 2)) * 2.0 ** rng.integers(*exponents, (1500, 2), endpoint=True)
    u[rng.random(u.shape) < 0.05] = np.nan
    u[7] = np.array([2.0, -1.0]) ** exponents[0] / 2
    sums = Moments.of(np.split(u, [3, 500, 1012]))
    for k in range(2):
        assert (sums.count[k], sums.total[k], sums.squares[k]) == reference(u[:, k])


def test_more_rows_than_64_bits_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getmodule(Moments), "_ROWS", 300)
    u = np.random.default_rng(0).normal(0, 1e6, (2000, 3))
    total = Moments.of([u, u[::-2]]).total
    both = np.concatenate([u, u[::-2]])
    assert total.tolist() == [reference(both[:, k])[1] for k in range(3)]


def test_no_order_and_no_memory_layout_matters() -> None:
    u = np.random.default_rng(0).normal([0, 1e9, 1e-9], [1e-3, 1e5, 1e-10], (5000, 3))
    turned = np.random.default_rng(1).permutation(u)
    frozen = np.asfortranarray(turned)
    frozen.flags.writeable = False
    assert Moments.of([u]) == Moments.of([turned]) == Moments.of([frozen])


@pytest.mark.parametrize("value", [2.0**40, -1e13, 1e90])
def test_numbers_out_of_reach_are_refused_by_their_place(value: float) -> None:
    u = np.zeros((700, 2))
    u[:5, 0] = np.nan
    u[600, 1] = value
    with pytest.raises(ValueError, match=r"channel 1 has .* at row 600; .* change the unit"):
        Moments.of([u])


@given(NUMBERS, NUMBERS)
def test_mean_and_deviation_are_rounded_once(one: float, other: float) -> None:
    moments = Moments.of([[[one]] * 3 + [[other]]])
    exact = [Fraction(round(Fraction(v) * 2**60), 2**60) for v in (one, one, one, other)]
    mean = sum(exact) / 4
    assert moments.mean.tolist() == [float(mean)]
    spread = sum((value - mean) ** 2 for value in exact) / 4
    if spread * 10**12 > mean**2 + spread:
        below, above = (Fraction(np.nextafter(moments.deviation[0], end)) for end in (0, np.inf))
        here = Fraction(moments.deviation[0])
        assert ((below + here) / 2) ** 2 <= spread <= ((above + here) / 2) ** 2


@given(st.fractions(min_value=0))
def test_the_root_is_correctly_rounded(value: Fraction) -> None:
    assert root(value * value) == float(value)


@given(st.lists(st.integers(-(2**140), 2**140), min_size=1), st.integers(1, 1000))
def test_limbs_add(values: list[int], n: int) -> None:
    limbs = integers.to_limbs(np.array(values, object), 4, 32)
    assert ((limbs[:-1] >= 0) & (limbs[:-1] < 2**32)).all()
    assert integers.from_limbs(n * limbs, 32).tolist() == [n * value for value in values]


PROGRAM = """
import hashlib
import numpy as np
from catchment import Plan, Recording, federate
from catchment.federation.learn import FederatedScaling

rng = np.random.default_rng(0)
data = {
    name: [Recording(rng.normal([0.1, 900.0, -1e-7], [1.0, 3.0, 1e-8], (n, 3))) for n in (70, 800)]
    for name in "abc"
}
scaled = federate(Plan(algorithm=FederatedScaling(channels=3)), data).result
rows = b"".join(one.u.tobytes() for held in data.values() for one in scaled.apply(held))
print(scaled.fingerprint, hashlib.sha256(rows).hexdigest())
"""


@pytest.mark.long
def test_every_processor_has_the_same_scaler_and_the_same_scaled_rows() -> None:
    found = set()
    for machine in (
        {},
        {"NUMBA_CPU_NAME": "generic", "OPENBLAS_CORETYPE": "Prescott"},
        {"NUMBA_CPU_NAME": "haswell", "OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "1"},
        {"NUMBA_CPU_NAME": "nehalem", "NUMBA_OPT": "0"},
    ):
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM],
            env={**os.environ, **machine},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(run.stdout)
    assert len(found) == 1, found


def test_scaling_is_one_subtraction_and_one_division() -> None:
    u = np.random.default_rng(0).normal(3, 2, (300, 2))
    scaler = Scaler(np.array([0.1, 3.3]), np.array([1.7, 0.3]))
    expected = [[(v - m) / s for v, m, s in zip(r, (0.1, 3.3), (1.7, 0.3), strict=True)] for r in u]
    assert scaler(u).tolist() == expected
