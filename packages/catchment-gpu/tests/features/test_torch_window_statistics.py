"""Window statistics, the norm of inputs and the default map by torch: the CPU's very rows."""

from __future__ import annotations

import math
from inspect import getmodule

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs torch")

import torch

from catchment import EchoState, WindowStatistics
from catchment.errors import ClippingWarning
from catchment.features import AppendNorm, DefaultMap, inputs_with_norm
from catchment_gpu import form_of, log2_of, normed, quotient, root, rows_on
from tests.features.echo_state.devices import one_thread  # noqa: F401  # a fixture
from tests.features.test_torch_convolutions import assert_same_rows, some_inputs

LENGTHS = st.lists(st.sampled_from([1, 2, 3, 5, 64, 65, 300, 777]), min_size=1, max_size=4)
pytestmark = pytest.mark.filterwarnings("ignore::catchment.errors.ClippingWarning")


@given(
    lengths=LENGTHS,
    n_inputs=st.integers(1, 4),
    size=st.sampled_from([0.0, 0.1, 1.0, 30.0]),
    range=st.sampled_from([5.3, 8.0, 64.0]),
    correlations=st.booleans(),
    grid=st.sampled_from([8, 24, None]),
    seed=st.integers(0, 9),
)
@example([777], 3, 1e3, 64.0, True, None, 0)
@settings(max_examples=20, deadline=None)
def test_window_statistics(
    lengths: list[int],
    n_inputs: int,
    size: float,
    range: float,
    correlations: bool,
    grid: int | None,
    seed: int,
) -> None:
    recipe = WindowStatistics(correlations=correlations, range=range, bits=grid)
    inputs = some_inputs(lengths, n_inputs, size, seed)
    inputs[0][:, -1] = np.sign(inputs[0][:, -1])
    assert_same_rows(recipe.build(n_inputs, per_step=False), inputs)


@pytest.mark.parametrize("n_inputs", [1, 3])
@pytest.mark.parametrize("columns", [40, 170])
def test_the_default_map(n_inputs: int, columns: int) -> None:
    for classes in (True, False):
        features = DefaultMap(columns).build(n_inputs, per_step=False, classes=classes)
        assert_same_rows(features, some_inputs([30, 4, 30, 300], n_inputs, 1.0, 1))


def test_the_norm_for_a_map_with_a_form_in_blocks() -> None:
    from catchment import FeatureUnion

    recipe = AppendNorm(FeatureUnion(WindowStatistics(), EchoState(5)))
    assert_same_rows(recipe.build(2, per_step=False), some_inputs([30, 4, 30], 2, 1.0, 1))


@given(n_inputs=st.sampled_from([1, 3, 700]), size=st.floats(0.0, 1e3), seed=st.integers(0, 9))
@settings(max_examples=20, deadline=None)
def test_the_norm(n_inputs: int, size: float, seed: int) -> None:
    u = np.random.default_rng(seed).normal(size=(9, n_inputs)) * size
    x = np.rint(np.clip(u, -64.0, 64.0) * 2**16).astype(np.int64)
    length = np.floor(np.sqrt((x * x).sum(axis=1))) - math.isqrt(n_inputs << 32)
    expected = np.column_stack([u, length / 2**16])
    assert inputs_with_norm(u).tobytes() == expected.tobytes()
    assert normed(torch.from_numpy(u)).numpy().tobytes() == expected.tobytes()


def test_sums_of_products_too_large_for_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    features = WindowStatistics(range=8.0, bits=None).build(3, per_step=False)
    inputs = some_inputs([100, 100], 3, 1.0, 0)
    monkeypatch.setattr(getmodule(log2_of), "EXACT", 7 << 32)  # so that seven steps fit
    assert_same_rows(features, inputs)


@given(st.lists(st.integers(1, 2**62 - 1), min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_logarithms(values: list[int]) -> None:
    exact = np.floor(np.log2(np.array(values, dtype=np.longdouble)) * 4096)
    found = log2_of(torch.tensor(values)).numpy()
    # A mantissa of 30 digits is squared twelve times, so the last digit may be one too low.
    assert ((exact - found >= 0) & (exact - found <= 1)).all()


@given(st.lists(st.floats(0.0, 1e300), min_size=1, max_size=9), st.integers(1, 10**6))
@settings(max_examples=50, deadline=None)
def test_roots_and_quotients_are_rounded_correctly(values: list[float], divisor: int) -> None:
    x = torch.tensor(values, dtype=torch.float64)
    assert root(x).tolist() == [float(np.sqrt(v)) for v in values]
    assert quotient(x, divisor).tolist() == [v / divisor for v in values]


def test_inputs_beyond_the_range_are_told_of() -> None:
    form = form_of(WindowStatistics().build(1, per_step=False), torch.device("cpu"))
    assert form is not None
    with pytest.warns(ClippingWarning, match="beyond 8 and were cut off"):
        rows_on(form, [np.full((9, 1), 9.0)])
