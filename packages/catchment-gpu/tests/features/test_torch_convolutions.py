"""Random convolutions by torch: the very rows of the compiled loops, and the same digests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs torch")

import torch

from catchment import (
    NVAR,
    AppendNorm,
    Array,
    DiagonalReservoir,
    EchoState,
    FeatureUnion,
    Hydra,
    MiniRocket,
    Recording,
    WindowStatistics,
)
from catchment.features import DefaultMap, FeatureMap
from catchment.readout import accumulate
from catchment_gpu import form_of, rows_on
from catchment_gpu import rows as torch_rows
from tests.features.echo_state.devices import DEVICES, one_thread  # noqa: F401  # a fixture


def some_inputs(lengths: list[int], n_inputs: int, size: float, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    walks = [np.cumsum(rng.normal(size=(n, n_inputs)), axis=0) for n in lengths]
    return [size * (walk - walk.mean(axis=0)) for walk in walks]


def assert_same_rows(features: FeatureMap, inputs: list[Array], device: str = "cpu") -> None:
    form = form_of(features, torch.device(device))
    assert form is not None
    for here, there in zip(features.rows(inputs), rows_on(form, inputs), strict=True):
        assert here.shape == there.shape
        assert here.tobytes() == np.ascontiguousarray(there).tobytes()


LENGTHS = st.lists(st.sampled_from([1, 2, 5, 9, 17, 40, 40, 41]), min_size=1, max_size=4)
SIZES = st.sampled_from([0.0, 1.0, 100.0])


@given(
    lengths=LENGTHS,
    n_inputs=st.integers(1, 11),
    size=SIZES,
    n_features=st.sampled_from([1, 50, 84, 200]),
    seed=st.integers(0, 5),
    length=st.sampled_from([None, 30]),
    grid=st.sampled_from([8, 24, None]),
)
@settings(max_examples=15, deadline=None)
def test_minirocket(
    lengths: list[int],
    n_inputs: int,
    size: float,
    n_features: int,
    seed: int,
    length: int | None,
    grid: int | None,
) -> None:
    recipe = MiniRocket(n_features, seed=seed, length=length, bits=grid)
    features = recipe.build(n_inputs, per_step=False)
    assert_same_rows(features, some_inputs(lengths, n_inputs, size, seed))


@given(
    lengths=LENGTHS,
    n_inputs=st.integers(1, 11),
    size=SIZES,
    n_features=st.sampled_from([1, 50]),
    seed=st.integers(0, 5),
    length=st.sampled_from([None, 30]),
    grid=st.sampled_from([8, 24, None]),
)
@settings(max_examples=15, deadline=None)
def test_hydra(
    lengths: list[int],
    n_inputs: int,
    size: float,
    n_features: int,
    seed: int,
    length: int | None,
    grid: int | None,
) -> None:
    recipe = Hydra(n_features, seed=seed, length=length, bits=grid)
    features = recipe.build(n_inputs, per_step=False)
    assert_same_rows(features, some_inputs(lengths, n_inputs, size, seed))


@pytest.mark.parametrize(
    "recipe",
    [
        FeatureUnion(MiniRocket(30), MiniRocket(20, seed=1, bits=12)),
        FeatureUnion(MiniRocket(30), EchoState(8, pool="mean")),
        FeatureUnion(EchoState(8, pool="last"), MiniRocket(30, bits=24)),
        FeatureUnion(FeatureUnion(MiniRocket(5), EchoState(3)), WindowStatistics(), MiniRocket(9)),
    ],
)
def test_maps_side_by_side(recipe: FeatureMap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(torch_rows.NUMBERS, "cpu", 200)  # so that there are several blocks
    inputs = some_inputs([7, 30, 7, 12, 30], 2, 1.0, 0)
    assert_same_rows(recipe.build(2, per_step=False, classes=True), inputs)


@pytest.mark.parametrize(
    "recipe",
    [
        FeatureUnion(NVAR(3), DiagonalReservoir(7, washout=7)),
        AppendNorm(FeatureUnion(EchoState(5, washout=3), NVAR(2))),
        FeatureUnion(NVAR(2), EchoState(5, washout=4)),
    ],
)
def test_maps_side_by_side_with_a_row_per_step(
    recipe: FeatureMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(torch_rows.NUMBERS, "cpu", 500)
    inputs = some_inputs([12, 30, 12, 64], 2, 0.3, 0)
    features = recipe.build(2, per_step=True, classes=True)
    assert_same_rows(features, inputs)
    data = [Recording(u, np.eye(2)[np.arange(len(u)) % 2]) for u in inputs]
    assert accumulate(features, data, device="cpu").digest() == accumulate(features, data).digest()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("recipe", [MiniRocket(90), Hydra(30), DefaultMap(160), DefaultMap(50)])
@pytest.mark.parametrize("classes", [True, False])
def test_one_digest(recipe: FeatureMap, classes: bool, device: str) -> None:
    inputs = some_inputs([30, 30, 12, 300, 1], 2, 0.3, 2)
    inputs[1][:, 0] = 1.5  # a constant channel
    targets = np.eye(2)[[0, 1, 1, 0, 1]] if classes else np.arange(10.0).reshape(5, 2) / 7
    data = [
        Recording(u, y, weight=1.0 + k % 2, per_step=False)
        for k, (u, y) in enumerate(zip(inputs, targets, strict=True))
    ]
    features = recipe.build(2, per_step=False, classes=classes)
    for some in (data, data[:1], data[4:]):
        there = accumulate(features, some, device=device)
        assert there.digest() == accumulate(features, some).digest()


def test_inputs_that_are_not_finite_are_named() -> None:
    features = MiniRocket(10).build(1, per_step=False)
    form = form_of(features, torch.device("cpu"))
    assert form is not None
    good, bad = np.zeros((9, 1)), np.zeros((9, 1))
    bad[4] = np.nan
    with pytest.raises(ValueError, match="recording 1 is not finite at row 4"):
        rows_on(form, [good, bad])
    with pytest.raises(ValueError, match="recording 1 has 2 channels"):
        rows_on(form, [good, np.zeros((9, 2))])
