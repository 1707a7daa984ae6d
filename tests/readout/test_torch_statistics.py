"""Statistics by torch have the digest of those of the compiled kernels."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from tests.features.echo_state.devices import DEVICES, one_thread  # noqa: F401  # a fixture

from catchment.data.recording import Recording
from catchment.errors import MissingExtraError
from catchment.features.echo_state.recipe import Recipe
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.readout import torch_statistics
from catchment.readout.accumulation import accumulate
from catchment.readout.device import VARIABLE
from catchment.readout.torch_gram import Products, block_length, padded


def reservoir(bits: int) -> Reservoir:
    return Reservoir.from_recipe(Recipe(units=25, inputs=2, leak_rate=0.5, seed=1, grid=bits))


def recordings(*, classes: bool, per_step: bool) -> list[Recording]:
    rng = np.random.default_rng(4)
    found = []
    for k, n_steps in enumerate((40, 25, 25, 61)):
        u = rng.normal(size=(n_steps, 2))
        y = (
            np.eye(3)[rng.integers(0, 3, n_steps)]
            if classes
            else rng.normal(size=(n_steps, 3)) * 99
        )
        if per_step:
            y[k + 9] = np.nan
        weight = 3.0 if k == 2 else 1.0
        found.append(Recording(u, y if per_step else y[0], weight=weight, per_step=per_step))
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("bits", "feature_grid"), [(15, 8), (15, 15), (20, 20), (24, 22), (24, 24)]
)
@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("pool", [None, "mean_std"])
def test_one_digest(
    bits: int, feature_grid: int, classes: bool, pool: str | None, device: str
) -> None:
    for bias in (False, True):
        features = EchoStateMap(
            reservoir(bits),
            bias=bias,
            pool=pool,  # type: ignore[arg-type]
            washout=5,
            feature_grid=feature_grid,
        )
        data = recordings(classes=classes, per_step=pool is None)
        here, there = accumulate(features, data), accumulate(features, data, device=device)
        assert here == there
        assert here.digest() == there.digest()


def test_products_of_short_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_statistics, "takes_short", lambda device: True)
    features = EchoStateMap(reservoir(15), bias=True, feature_grid=8)
    data = recordings(classes=True, per_step=True)
    assert accumulate(features, data, device="cpu").digest() == accumulate(features, data).digest()


def test_a_target_per_sequence_stands_for_every_step() -> None:
    features = EchoStateMap(reservoir(20), feature_grid=12)
    data = [*recordings(classes=True, per_step=True), *recordings(classes=True, per_step=False)]
    assert accumulate(features, data, device="cpu").digest() == accumulate(features, data).digest()


@pytest.mark.parametrize("largest", [256, 2048])
def test_blocks_are_as_long_as_sums_stay_exact(largest: int) -> None:
    rng = np.random.default_rng(0)
    k = np.rint(rng.normal(size=(9, 5000)) * largest / 4).clip(-largest, largest)
    E = torch.zeros((9, padded(5000)), dtype=torch.float16)
    E[:, :5000] = torch.from_numpy(k)
    size = block_length(E)
    assert size == (2048 if largest == 256 else 0)
    products = Products(9, torch.device("cpu"))
    products.add(E, largest=largest)
    whole = k.astype(np.int64)
    np.testing.assert_array_equal(products.total(), whole @ whole.T)


def test_totals_beyond_int64() -> None:
    k = torch.full((1, 4), 2.0**21, dtype=torch.float64)
    products = Products(1, torch.device("cpu"))
    products.bound = (1 << 62) - 1
    products.sums += (1 << 62) - 1
    products.add(k, largest=1 << 21)
    products.bound = 1 << 62
    products.sums += (1 << 62) - 1
    assert products.total().tolist() == [[(1 << 63) - 2 + 4 * (1 << 42)]]


def test_the_environment_names_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    features, data = (
        EchoStateMap(reservoir(20), feature_grid=8),
        recordings(classes=True, per_step=True),
    )
    plain = EchoStateMap(Reservoir.from_recipe(Recipe(units=10, inputs=2)))
    digest = accumulate(features, data).digest()
    without = accumulate(plain, data)
    monkeypatch.setenv(VARIABLE, "cpu")
    assert accumulate(features, data).digest() == digest
    assert accumulate(plain, data) == without
    monkeypatch.setenv(VARIABLE, "cuda:99")
    with pytest.raises(ValueError, match=r"torch sees \d+ GPUs here"):
        accumulate(features, data)
    monkeypatch.setenv(VARIABLE, "tpu")
    with pytest.raises(ValueError, match="use 'cpu' or 'cuda'"):
        accumulate(features, data)


def test_a_map_without_a_grid_is_refused() -> None:
    plain = EchoStateMap(Reservoir.from_recipe(Recipe(units=10, inputs=2)))
    with pytest.raises(ValueError, match="the features have no grid"):
        accumulate(plain, recordings(classes=True, per_step=True), device="cpu")


def test_torch_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    features, data = (
        EchoStateMap(reservoir(20), feature_grid=8),
        recordings(classes=True, per_step=True),
    )
    monkeypatch.delitem(sys.modules, "catchment.readout.torch_statistics")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"catchment\[torch\]"):
        accumulate(features, data, device="cuda")
