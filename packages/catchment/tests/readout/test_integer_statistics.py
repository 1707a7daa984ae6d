"""Statistics in fixed point are exact: sums by Python's own integers, and rows in any order."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from catchment import Array, EchoState, Recording
from catchment.engine import run_locally
from catchment.errors import CoarseTargetsWarning, IntegrityError, UploadError
from catchment.features import FeatureMap, in_fixed_point
from catchment.federation import Plan, RoundContext, Tally, check_statistics, learn
from catchment.federation.learn import FederatedRidge
from catchment.readout import (
    SUMS,
    FixedPoint,
    Gram,
    RidgeStatistics,
    accumulate,
    accumulate_each,
    integers,
    statistics_of,
    target_pieces,
)
from catchment.wire import Message, measured

pytestmark = pytest.mark.processor

COUNTS = st.integers(1, 4)


@dataclass(frozen=True)
class Data:
    """Rows in fixed point with targets, and the integers that they are."""

    fixed: FixedPoint
    z: Array
    y: Array

    @classmethod
    def drawn(
        cls, seed: int, n: int, F: int, K: int, bits: int, *, classes: bool, small: bool = False
    ) -> Data:
        rng = np.random.default_rng(seed)
        digits = bits - rng.integers(-3, 4, size=F)
        fixed = FixedPoint.from_digits(bits, digits, classes=classes)
        most = 2 ** (bits - 2 if small else bits)
        k = rng.integers(-most, most + 1, size=(n, F))
        y = rng.integers(0, 2, (n, K)) if classes else rng.normal(size=(n, K)) * 10.0 ** (seed % 7)
        return cls(fixed, np.ldexp(k.astype(float), -digits), y.astype(np.float64))

    def statistics(self, rows: Any = slice(None), weight: Array | None = None) -> RidgeStatistics:
        return RidgeStatistics.from_states(
            self.z[rows], self.y[rows], weight=weight, fingerprint="f", fixed=self.fixed
        )


def sums_of(data: Data, weight: Sequence[int]) -> dict[str, list[int]]:
    """Return every sum by Python's own rationals, in the units of the fixed."""
    t = data.fixed.target_digits
    units = [Fraction(2) ** int(d) for d in data.fixed.digits]
    k = [[Fraction(v) * u for v, u in zip(row, units, strict=True)] for row in data.z.tolist()]
    y = [[round(Fraction(v) * 2**t) for v in row] for row in data.y.tolist()]
    F, K = data.z.shape[1], data.y.shape[1]
    rows = range(len(k))
    found = {
        "feature_sum": [sum(weight[r] * k[r][i] for r in rows) for i in range(F)],
        "target_sum": [sum(weight[r] * y[r][j] for r in rows) for j in range(K)],
        "gram": [
            sum(weight[r] * k[r][i] * k[r][j] for r in rows) for i in range(F) for j in range(i, F)
        ],
        "cross": [
            sum(weight[r] * k[r][i] * y[r][j] for r in rows) for i in range(F) for j in range(K)
        ],
        "target_gram": [
            sum(weight[r] * y[r][i] * y[r][j] for r in rows) for i in range(K) for j in range(i, K)
        ],
    }
    return {name: [int(v) for v in values] for name, values in found.items()}


def held(statistics: RidgeStatistics) -> dict[str, list[int]]:
    return {name: [int(v) for v in getattr(statistics, name).ravel()] for name in SUMS}


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(0, 30),
    F=COUNTS,
    K=COUNTS,
    bits=st.integers(4, 24),
    classes=st.booleans(),
    weighted=st.booleans(),
)
def test_sums_are_those_of_rational_arithmetic(
    seed: int, n: int, F: int, K: int, bits: int, classes: bool, weighted: bool
) -> None:
    data = Data.drawn(seed, n, F, K, bits, classes=classes)
    weight = np.random.default_rng(seed).integers(0, 4, n) if weighted else np.ones(n, int)
    found = data.statistics(weight=weight.astype(float) if weighted else None)
    assert held(found) == sums_of(data, weight.tolist())
    assert (found.n_rows, found.weight) == (n, weight.sum())


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    bits=st.sampled_from([4, 8, 12, 20, 24]),
    classes=st.booleans(),
)
def test_no_split_and_no_order_shows(seed: int, cuts: list[int], bits: int, classes: bool) -> None:
    data = Data.drawn(seed, 60, 3, 2, bits, classes=classes)
    order = np.random.default_rng(seed).permutation(60)
    parts = [data.statistics(rows) for rows in np.split(order, sorted(cuts))]
    whole = data.statistics()
    assert reduce(add, parts) == whole
    assert reduce(add, reversed(parts)).digest() == whole.digest()
    for part in parts:
        assert whole - part + part == whole
        assert ((whole + part) - part).digest() == whole.digest()
    rest = reduce(add, parts[1:]) if parts[1:] else whole - parts[0]
    assert whole - parts[0] == rest
    assert (whole - parts[0]).digest() == rest.digest()


@pytest.mark.parametrize("layout", ["rows", "steps"])
@pytest.mark.parametrize(("bits", "classes"), [(8, True), (8, False), (20, True), (24, False)])
def test_no_block_size_shows(bits: int, classes: bool, layout: str) -> None:
    data = Data.drawn(1, 3000, 7, 2, bits, classes=classes)
    (pieces,), places = target_pieces([data.y], data.fixed)
    rows = np.column_stack([data.z, pieces, np.ones(len(data.z))])
    whole = rows.T.copy() if layout == "rows" else rows.T
    expected = data.statistics()
    for size in (1, 17, 512, 3000):
        total = Gram(data.fixed.n_features + pieces.shape[1] + 1, data.fixed)
        for start in range(0, 3000, size):
            total.add(whole[:, start : start + size])
        found = statistics_of(
            total.result(),
            3000,
            data.fixed,
            places,
            constant=False,
            fingerprint="f",
        )
        assert found == expected
    assert held(expected) == sums_of(data, [1] * 3000)


def test_a_constant_first_feature_counts_as_any_other() -> None:
    data = Data.drawn(0, 500, 4, 2, 8, classes=True)
    data.z[:, 0] = 1.0
    fixed = FixedPoint(
        8, ((1, 7), *FixedPoint.from_digits(8, data.fixed.digits[1:], classes=True).runs)
    )
    found = replace(data, fixed=fixed)
    assert held(found.statistics()) == sums_of(found, [1] * 500)


def test_sums_overflow_into_larger_integers_and_come_back() -> None:
    data = Data.drawn(3, 20, 2, 1, 24, classes=True)
    data.z[:] = np.ldexp(1.0, 24 - data.fixed.digits)
    one = data.statistics()
    large = one.scaled(2**12)
    assert one.gram.dtype == np.int64
    assert large.gram.dtype == object
    assert large.gram.tolist() == [20 * 2**60] * 3
    back = large - replace(one.scaled(2**12 - 1), n_rows=0)
    assert back.gram.dtype == np.int64
    assert (back.gram == one.gram).all()
    assert large.floats.gram[0] == 2.0**12 * one.floats.gram[0]
    assert Message.from_bytes(large.parts().to_bytes()).arrays[3].dtype == np.int64
    assert RidgeStatistics.from_message(large.parts()) == large


def test_long_sums_stay_exact() -> None:
    total = Gram(3, FixedPoint(24, ((2, 0),)))
    Z = np.full((3, 4096), 2.0**24 - 1)
    Z[-1] = 1.0
    for _ in range(20):
        total.add(Z)
    assert total.result()[0, :2].tolist() == [20 * 4096 * (2**24 - 1) ** 2] * 2


def test_large_sums_of_targets_leave_the_gram_matrix_in_int64() -> None:
    data = Data.drawn(6, 30, 120, 1, 16, classes=False)
    one, two = data.statistics(slice(20)), data.statistics(slice(20, 30))
    for found in (one + two, data.statistics() - two, pickle.loads(pickle.dumps(one)) + two):
        assert found.target_gram.dtype == object  # squares of targets, up to 2^116
        # Python's integers take five times the memory, and a hundred times as long to add.
        arrays = [value for value in vars(found).values() if isinstance(value, np.ndarray)]
        assert sum(values.size for values in arrays if values.dtype == object) <= 121
    assert one + two == data.statistics()
    assert data.statistics() - two == one
    with pytest.raises(ValueError, match="is not nothing"):
        one - data.statistics(slice(10, 30))


def test_many_rows_of_few_features_and_a_constant_sum_beyond_int64() -> None:
    rng = np.random.default_rng(0)
    held = [Recording(u, np.roll(u, 1)) for u in rng.normal(size=(2, 20_000, 1))]
    features = EchoState(4, bias=True).build(1, per_step=True)
    whole = accumulate(features, held)
    assert whole.digest() == reduce(add, (accumulate(features, [one]) for one in held)).digest()
    z = np.vstack(features.rows([one.u for one in held]))
    triangle = (z.T @ z)[np.triu_indices(z.shape[1])]
    assert whole.floats.gram[0] == whole.n_rows == len(z)
    np.testing.assert_allclose(whole.floats.gram, triangle, rtol=1e-9, atol=1e-6)


@given(a=st.integers(-(2**80), 2**80), b=st.integers(-(2**80), 2**80), m=st.integers(3, 5))
def test_integer_arrays_are_pythons_own(a: int, b: int, m: int) -> None:
    one, two = (integers.canonical(np.array([v, 1], dtype=object)) for v in (a, b))
    assert integers.added(one, two).tolist() == [a + b, 2]
    assert integers.added(one, integers.multiplied(two, -1)).tolist() == [a - b, 0]
    assert integers.multiplied(one, 3).tolist() == [3 * a, 3]
    assert (integers.added(one, two).dtype == np.int64) == (-(2**63) <= a + b < 2**63)
    both = integers.added(np.array([one, one]).T, np.array([two, np.ones(2, int)]).T)
    assert both.tolist() == [[a + b, a + 1], [2, 2]]
    limbs = integers.to_limbs(one, m) + integers.to_limbs(two, m) - integers.to_limbs(two, m)
    assert integers.from_limbs(limbs).tolist() == one.tolist()
    summed = integers.to_limbs(one, m) + integers.to_limbs(two, m)
    assert integers.from_limbs(summed).tolist() == [a + b, 2]
    assert integers.from_limbs(integers.to_limbs(one, integers.count_limbs(one))).tolist() == [a, 1]


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**62, 2**63, -(2**63) - 1])
def test_edges_of_int64(value: int) -> None:
    one = integers.canonical(np.array([value], dtype=object))
    assert integers.added(one, np.array([1])).tolist() == [value + 1]
    assert integers.added(one, np.array([-1])).tolist() == [value - 1]
    assert integers.multiplied(one, -1).tolist() == [-value]
    assert integers.from_limbs(integers.to_limbs(one, 2)).tolist() == [value]


@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("bits", [8, 20])
def test_solves_as_scikit_learn_does(bits: int, classes: bool) -> None:
    data = Data.drawn(5, 200, 4, 2, bits, classes=classes)
    ours = data.statistics().solve(0.5)
    theirs = Ridge(alpha=0.5, solver="svd").fit(data.z, data.y)
    np.testing.assert_allclose(ours.weights, theirs.coef_.T, rtol=1e-8)
    np.testing.assert_allclose(ours.intercept, theirs.intercept_, rtol=1e-8)
    plain = RidgeStatistics.from_states(data.z, data.y)
    for name in SUMS:
        np.testing.assert_allclose(
            getattr(data.statistics().floats, name), getattr(plain, name), rtol=1e-9, atol=1e-6
        )


def test_whole_and_fine_targets_add_and_compare_by_value() -> None:
    data = Data.drawn(6, 30, 3, 2, 12, classes=True)
    fine = replace(data, fixed=replace(data.fixed, target_digits=36))
    coarse, finer = data.statistics(), fine.statistics()
    assert coarse == finer
    assert coarse.digest() == finer.digest()
    assert (coarse + finer) - coarse == finer
    assert (coarse + finer).fixed == finer.fixed
    other = replace(fine, y=fine.y + 0.5).statistics()
    assert coarse != other
    assert (coarse + other) - other == coarse


def test_rows_without_a_target_are_left_out() -> None:
    data = Data.drawn(7, 40, 3, 2, 8, classes=True)
    gaps = data.y.copy()
    gaps[::3, 1] = np.nan
    known = ~np.isnan(gaps).any(axis=1)
    assert replace(data, y=gaps).statistics() == data.statistics(known)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"z": np.array([[0.3]])}, "not in fixed point of"),
        ({"z": np.array([[2.0]])}, "not in fixed point of"),
        ({"y": np.array([[0.5]])}, "integers up to 256"),
        ({"y": np.array([[512.0]])}, "integers up to 256"),
        ({"y": np.array([[2.0**40]]), "digits": 36}, "below 2\\^40"),
        ({"weight": np.array([0.5])}, "weights are integers"),
    ],
)
def test_what_is_not_whole_is_refused(change: dict[str, Any], message: str) -> None:
    given_ = {"z": np.array([[0.5]]), "y": np.array([[1.0]])} | change
    fixed = FixedPoint(8, ((1, 8),), given_.pop("digits", 0))
    with pytest.raises(ValueError, match=message):
        RidgeStatistics.from_states(**given_, fixed=fixed)


def test_what_was_never_added_cannot_be_taken_out() -> None:
    data = Data.drawn(8, 20, 2, 1, 8, classes=True)
    with pytest.raises(ValueError, match="is not nothing"):
        data.statistics(slice(10)) - data.statistics(slice(10, 20))
    with pytest.raises(ValueError, match="float64 do not add"):
        data.statistics() + data.statistics().floats
    with pytest.raises(ValueError, match="do not add"):
        data.statistics() + replace(data, fixed=FixedPoint(12, data.fixed.runs)).statistics()


@pytest.mark.parametrize(("bits", "classes"), [(8, True), (16, False), (24, True), (24, False)])
def test_travels_and_is_kept(bits: int, classes: bool) -> None:
    data = Data.drawn(9, 50, 3, 2, bits, classes=classes)
    one, two = data.statistics(slice(20)), data.statistics(slice(20, 50))
    sent = [Message.from_bytes(s.parts().to_bytes()) for s in (one, two)]
    assert RidgeStatistics.from_message(sent[0]) == one
    shapes = [[a.shape for a in parts.arrays] for parts in sent]
    assert shapes[0] == shapes[1]
    arrays = tuple(a + b for a, b in zip(sent[0].arrays, sent[1].arrays, strict=True))
    summed = RidgeStatistics.from_message(replace(sent[0], arrays=arrays))
    assert summed == one + two
    assert summed.digest() == (one + two).digest()
    assert [m.sizes for m in measured(one)] == [{"features": 3, "targets": 2}]
    tally = Tally.of(one, "a") + Tally.of(two, "b")
    assert tally == Tally.of(one, "a") + Tally.of(two, "b")


@pytest.mark.parametrize(
    ("number", "array", "error"),
    [
        (0, np.array([3.0]), IntegrityError),
        (0, np.array([3.5, 3.0]), UploadError),
        (0, np.array([3.0, np.nan]), UploadError),
        (0, np.array([-3.0, 3.0]), UploadError),
        (1, np.zeros((1, 2)), UploadError),
        (1, np.zeros((2, 2), np.int64), UploadError),
        (3, np.zeros((1, 3), np.int64), UploadError),
        (3, np.full((2, 3), 2**63 - 1), UploadError),
        (4, np.zeros((1, 9, 1), np.int64), UploadError),
        (2, np.zeros((), np.int64), UploadError),
    ],
)
def test_malformed_uploads_are_refused(number: int, array: Any, error: type[Exception]) -> None:
    sent = Data.drawn(9, 5, 2, 1, 24, classes=True).statistics().parts()
    arrays = tuple(array if k == number else old for k, old in enumerate(sent.arrays))
    with pytest.raises(error):
        RidgeStatistics.from_message(replace(sent, arrays=arrays))


@pytest.mark.parametrize(
    "text", ["", "[8]", "[8,[[2,8]],7]", "[99,[[2,8]],0]", "[8,[[-1,8]],0]", 3]
)
def test_malformed_fixed_points_are_refused(text: Any) -> None:
    sent = Data.drawn(9, 5, 2, 1, 8, classes=True).statistics().parts()
    with pytest.raises(IntegrityError):
        RidgeStatistics.from_message(replace(sent, facts={**sent.facts, "grid": text}))


def test_digests_differ_where_values_do() -> None:
    data = Data.drawn(10, 5, 2, 1, 8, classes=True)
    one = data.statistics()
    others = [
        data.statistics(slice(4)),
        replace(one, fingerprint="g"),
        replace(one, weight=6.0),
        replace(one, gram=one.gram + 1),
        one.floats,
        replace(one.floats, gram=one.floats.gram + 1),
    ]
    assert len({s.digest() for s in (one, *others)}) == 7
    assert all(s != one for s in others)


# Maps


def echo_state(bits: int | None, *, per_step: bool, units: int = 20) -> EchoState:
    """Return a map whose features lie in fixed point of so many bits, or in float64."""
    states = None if bits is None else 24
    described = EchoState(units, seed=1, washout=5, bits=states, feature_bits=bits, range=8.0)
    built = described.build(2, per_step=per_step)
    assert isinstance(built, EchoState)
    return built


def recordings(
    n: int, *, per_step: bool, classes: bool, lengths: Sequence[int] = (40, 60, 300), seed: int = 0
) -> list[Recording]:
    rng = np.random.default_rng(seed)
    found = []
    for k in range(n):
        u = rng.normal(size=(lengths[k % len(lengths)], 2))
        if classes:
            label = np.eye(3)[k % 3]
            y = np.tile(label, (len(u), 1)) if per_step else label
        else:
            y = rng.normal(size=(len(u), 3)) if per_step else rng.normal(size=3)
        if per_step and k % 4 == 1:
            y[7:9] = np.nan
        found.append(Recording(u, y, float(1 + (k % 5 == 2)), per_step=per_step))
    return found


def from_rows(features: EchoState, data: Sequence[Recording], *, classes: bool) -> Any:
    fixed = FixedPoint.of(features, classes=classes)
    assert fixed is not None
    parts = []
    for s in data:
        (z,) = features.rows([s.u])
        assert s.y is not None
        y = s.y[features.washout :] if s.per_step else np.tile(s.y, (len(z), 1))
        parts.append(
            RidgeStatistics.from_states(
                z,
                y,
                weight=np.full(len(z), s.weight),
                fingerprint=features.fingerprint,
                fixed=fixed,
            )
        )
    return reduce(add, parts)


@pytest.mark.parametrize("bits", [8, 12, 24])
@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("per_step", [True, False])
def test_accumulate_is_the_sum_over_rows(bits: int, classes: bool, per_step: bool) -> None:
    features = echo_state(bits, per_step=per_step)
    data = recordings(11, per_step=per_step, classes=classes)
    expected = from_rows(features, data, classes=classes)
    for threads in (1, 2, 4):
        assert accumulate(features, data, threads=threads, classes=classes) == expected
    assert accumulate(features, data[::-1]).digest() == expected.digest()
    alone = [accumulate(features, [s], threads=1, classes=classes) for s in data]
    assert reduce(add, alone) == expected
    each = accumulate_each(features, [[s] for s in data], classes=classes)
    assert [s.digest() for s in each] == [s.digest() for s in alone]
    rows = list[Array]()
    assert accumulate(features, data, classes=classes, rows=rows) == expected
    assert {z.shape[1] for z in rows} == {features.n_features}


@pytest.mark.parametrize(("bits", "classes"), [(8, True), (20, False), (24, False)])
def test_threads_help_with_one_long_recording(bits: int, classes: bool) -> None:
    features = echo_state(bits, per_step=True)
    data = recordings(1, per_step=True, classes=classes, lengths=(9000,))
    one = accumulate(features, data, threads=1, classes=classes)
    assert {accumulate(features, data, threads=k, classes=classes).digest() for k in (2, 4)} == {
        one.digest()
    }
    plain = accumulate(echo_state(None, per_step=True), data)
    np.testing.assert_allclose(one.floats.gram, plain.gram, rtol=0, atol=9000 * 2.0 ** (6 - bits))


@pytest.mark.parametrize("classes", [True, False])
def test_a_federation_in_fixed_point_solves_its_sum(classes: bool) -> None:
    features = echo_state(12, per_step=True)
    names = ("a", "b", "c") if classes else None
    algorithm = FederatedRidge(features=features, ridge=0.1, classes=names)
    clients = {f"c{k}": recordings(3, per_step=True, classes=classes, seed=k) for k in range(3)}
    total: Tally[RidgeStatistics] | None = None
    for name, data in clients.items():
        context = RoundContext(0, tuple(clients), client=name)
        sent = algorithm.client_update(Message("nothing"), partial(iter, data), context)
        got = algorithm.read_update(Message.from_bytes(sent.parts().to_bytes()), context)
        total = got if total is None else total + got
    assert total is not None
    state = algorithm.server_update(algorithm.start(), total, RoundContext(0, tuple(clients)))
    every = [s for data in clients.values() for s in data]
    pooled = accumulate(features, every)
    assert state.total == pooled
    assert state.readout is not None
    np.testing.assert_array_equal(state.readout.weights, pooled.solve(0.1).weights)
    again = algorithm.server_update(state, total, RoundContext(1, tuple(clients)))
    assert again.total == pooled + pooled


def test_uploads_are_held_to_the_plans_bits() -> None:
    data = Data.drawn(11, 30, 3, 2, 8, classes=True)
    sent = data.statistics()
    check_statistics(sent, fingerprint="f", state_bound=16.0, fixed=data.fixed)
    for wrong in (None, replace(data.fixed, target_digits=36)):
        with pytest.raises(UploadError, match="the plan asks for"):
            check_statistics(sent, fingerprint="f", fixed=wrong)
    heavy = sent.scaled(100)
    with pytest.raises(UploadError, match="larger than rows"):
        check_statistics(
            replace(heavy, weight=30.0), fingerprint="f", state_bound=1e9, fixed=data.fixed
        )


# Machines

SCRIPT = """
import hashlib, sys
from dataclasses import dataclass
import numpy as np
from catchment import Recording
from catchment.features import FeatureMap
from catchment.readout import accumulate

@dataclass(frozen=True)
class Products(FeatureMap):
    bits: int = 8
    n_features = 61
    bounds = np.full(61, 2.0)
    per_step = True
    def compute_rows(self, inputs, threads):
        return [u[:, :1] * (1 + np.arange(61)) / 61 + u[:, 1:2] / 2 for u in inputs]

rng = np.random.default_rng(0)
data = [Recording(rng.integers(-64, 65, (700, 2)) / 64, rng.integers(-9, 9, 700) / 8)
        for _ in range(4)]
found = hashlib.sha256()
for bits in (8, 12, 20, 24):
    for threads in (1, 2, 4):
        s = accumulate(Products(bits), data[:: 1 if threads > 1 else -1], threads=threads)
        t = accumulate(Products(bits), [Recording(r.u, r.y > 0) for r in data])
        found.update((s.digest() + t.digest() if threads == 1 else "").encode())
        if threads == 1: first = s.digest()
        assert s.digest() == first
print(found.hexdigest())
"""


@pytest.mark.long
def test_one_digest_on_every_kind_of_processor() -> None:
    kinds: list[dict[str, str]] = [{}, {"NUMBA_CPU_NAME": "generic"}]
    kinds += [
        {"OPENBLAS_CORETYPE": name} for name in ("Haswell", "SkylakeX", "Sandybridge", "Prescott")
    ]
    digests = set()
    for kind in kinds:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, **kind},
            capture_output=True,
            text=True,
            check=False,
        )
        # A processor that lacks a kernel's instructions cannot run it.
        if done.returncode < 0 and "OPENBLAS_CORETYPE" in kind:
            continue
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout.strip())
    assert len(digests) == 1


def test_an_own_map_in_fixed_point() -> None:
    @dataclass(frozen=True)
    class Powers(FeatureMap):
        n_features = 3
        bounds = np.array([1.0, 1.0, 8.0])
        bits = 12

        def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
            return [np.array([[u.mean(), (u**2).mean(), 8 * u.max()]]) for u in inputs]

    features = Powers()
    rng = np.random.default_rng(0)
    data = [Recording(rng.uniform(size=20), np.array([k % 2.0])) for k in range(9)]
    total = accumulate(features, data)
    assert total.fixed == FixedPoint(12, ((2, 12), (1, 9)), 0)
    assert accumulate(features, data[4:]) + accumulate(features, data[:4]) == total
    assert accumulate(features, data, classes=False).fixed == FixedPoint(12, ((2, 12), (1, 9)), 36)


@dataclass(frozen=True)
class Summary(FeatureMap):
    """Six numbers of a recording, in fixed point."""

    bits: int = 12
    n_features = 6
    bounds = np.full(6, 2.0)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        told = [(u.mean(), u.std(), *u[:2, 0], *np.tanh([u.max(), u.min()])) for u in inputs]
        return [np.array([row]) / 4 for row in told]


SUMMARY, CLASSES = Summary(), ("a", "b")


def ridge(**settings_: Any) -> FederatedRidge:
    return FederatedRidge(features=SUMMARY, classes=CLASSES, **settings_)


@pytest.mark.parametrize(
    ("algorithm", "whole"),
    [
        (ridge(ridge="leave-one-client-out"), True),
        (ridge(ridge="gcv", store_per_client=False), True),
        (ridge(ridge="leave-one-client-out", standardize=True), True),
        (ridge(ridge=0.1, increments=2), True),
        (learn.Candidates(features=(SUMMARY, Summary(8)), classes=CLASSES), True),
        (learn.Candidates(features=(SUMMARY,), classes=CLASSES, store_per_client=False), True),
        (learn.PersonalReadouts(ridge=ridge(ridge=0.1)), True),
        (learn.ReadoutAveraging(features=SUMMARY, classes=CLASSES), False),
    ],
)
def test_algorithms_take_a_map_in_fixed_point(algorithm: Any, whole: bool) -> None:
    rng = np.random.default_rng(0)
    clients = {
        f"c{i}": [
            Recording.labeled(rng.normal(size=20) / 2 + (k % 2) / 2, k % 2, 2) for k in range(14)
        ]
        for i in range(6)
    }
    plan = Plan(algorithm=algorithm, rounds=algorithm.requirements.rounds)
    done = run_locally(plan, clients)
    assert all(record.n_used == 6 for record in done.records)
    if whole:
        state = getattr(done.state, "shared", done.state)
        total = getattr(state.total, "members", {0: state.total})
        assert all(s.fixed is not None for s in total.values())


def test_targets_of_which_fixed_point_keeps_little_are_named() -> None:
    rng = np.random.default_rng(0)
    z = in_fixed_point(rng.uniform(-1, 1, (20, 2)), np.array([12, 12]), 12)
    fixed = FixedPoint(12, ((2, 12),), 36)
    with pytest.warns(CoarseTargetsWarning, match="1e-09, of which .* keep 68.7 steps"):
        RidgeStatistics.from_states(z, np.full((20, 1), 1e-9), fixed=fixed)
    RidgeStatistics.from_states(z, np.full((20, 1), 1e-4), fixed=fixed)
    RidgeStatistics.from_states(z, np.zeros((20, 1)), fixed=fixed)


@pytest.mark.parametrize("value", [2**62, 2**62 + 1, 2**63 - 1, -(2**63), 2**63, 2**102 + 1])
def test_no_limb_that_is_kept_is_larger_than_a_reader_accepts(value: int) -> None:
    values = integers.canonical(np.array([value, 1], dtype=object))
    limbs = integers.to_limbs(values, integers.count_limbs(values))
    assert integers.largest(limbs) <= integers.LARGEST_LIMB
    assert integers.from_limbs(limbs).tolist() == [value, 1]


def test_statistics_of_this_process_are_read_as_their_message_would_be() -> None:
    """The very value where it may be sent as it is; what may not be is refused."""
    data = Data.drawn(3, 40, 3, 2, 8, classes=True)
    made = RidgeStatistics.from_states(data.z, data.y, fixed=data.fixed)
    parts = made.parts()
    read = parts.as_read(made)
    assert read is not None
    assert RidgeStatistics.from_message(read) is made
    sent = RidgeStatistics.from_message(Message.from_bytes(parts.to_bytes()))
    assert sent.digest() == made.digest()
    # Other arrays in the place of those that were sent: what is read is theirs.
    more = tuple(np.array(array) for array in parts.arrays)
    more[1][0, 0] += 1
    changed = RidgeStatistics.from_message(replace(read, arrays=more))
    assert changed.feature_sum[0] == made.feature_sum[0] + 1
    wide = replace(made, feature_sum=made.feature_sum + (1 << 62) + 10**6)
    told = wide.parts().as_read(wide)
    assert told is not None
    with pytest.raises(UploadError, match="more than it can be"):
        RidgeStatistics.from_message(told)
