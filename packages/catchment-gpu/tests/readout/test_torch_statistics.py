"""Statistics by torch have the digest of those of the compiled kernels."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch

from catchment.data import Recording
from catchment.errors import FingerprintError
from catchment.features import EchoState, Reservoir
from catchment.readout import SUMS, VARIABLE, RidgeStatistics, accumulate
from catchment_gpu.readout import Products, block_length, padded
from catchment_gpu.readout import statistics as torch_statistics
from tests.features.echo_state.devices import DEVICES, one_thread  # noqa: F401  # a fixture


def reservoir(bits: int) -> Reservoir:
    return Reservoir(units=25, inputs=2, leak_rate=0.5, seed=1, bits=bits)


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
    ("bits", "feature_bits"), [(15, 8), (15, 15), (20, 20), (24, 22), (24, 24)]
)
@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("pool", [None, "mean_std"])
def test_one_digest(
    bits: int, feature_bits: int, classes: bool, pool: str | None, device: str
) -> None:
    for bias in (False, True):
        features = EchoState.of(
            reservoir(bits),
            bias=bias,
            pool=pool,  # type: ignore[arg-type]
            washout=5,
            feature_bits=feature_bits,
        )
        data = recordings(classes=classes, per_step=pool is None)
        here, there = accumulate(features, data), accumulate(features, data, device=device)
        assert here == there
        assert here.digest() == there.digest()


def test_products_of_short_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_statistics, "takes_short", lambda device: True)
    features = EchoState.of(reservoir(15), bias=True, feature_bits=8)
    data = recordings(classes=True, per_step=True)
    assert accumulate(features, data, device="cpu").digest() == accumulate(features, data).digest()


def test_a_target_per_sequence_stands_for_every_step() -> None:
    features = EchoState.of(reservoir(20), feature_bits=12)
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
        EchoState.of(reservoir(20), feature_bits=8),
        recordings(classes=True, per_step=True),
    )
    plain = EchoState.of(Reservoir(units=10, inputs=2))
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


def plain_map(pool: str | None = None, **settings: object) -> EchoState:
    recipe = Reservoir(units=(12, 9), inputs=2, leak_rate=0.4, seed=2)
    return EchoState.of(recipe, pool=pool, washout=5, **settings)  # type: ignore[arg-type]


def assert_agree(one: RidgeStatistics, other: RidgeStatistics, tolerance: float = 1e-9) -> None:
    assert (one.n_rows, one.fingerprint) == (other.n_rows, other.fingerprint)
    assert one.weight == pytest.approx(other.weight, rel=tolerance)
    for name in SUMS:
        mine, theirs = getattr(one, name), getattr(other, name)
        assert np.abs(mine - theirs).max() <= tolerance * np.abs(theirs).max()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pool", [None, "mean_std", "last"])
@pytest.mark.parametrize("bias", [True, False])
def test_in_floating_point_statistics_agree(pool: str | None, bias: bool, device: str) -> None:
    features = plain_map(pool, bias=bias)
    data = recordings(classes=False, per_step=pool is None)
    there = accumulate(features, data, device=device)
    assert_agree(there, accumulate(features, data, deterministic=False))
    assert there.fingerprint == features.fingerprint + " any device"


def test_a_map_in_float32_gives_its_rows_on_the_cpu() -> None:
    features, data = plain_map(precision="float32"), recordings(classes=False, per_step=True)[:2]
    there = accumulate(features, data, device="cpu")
    known = [~np.isnan(s.y[5:]).any(axis=1) for s in data if s.y is not None]
    rows = features.rows([s.u for s in data])
    z = np.concatenate([z[k] for z, k in zip(rows, known, strict=True)])
    np.testing.assert_allclose(there.feature_sum, z.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(there.gram, (z.T @ z)[np.triu_indices(z.shape[1])], rtol=1e-9)


def test_statistics_of_any_device_add_to_their_like() -> None:
    features, data = plain_map(), recordings(classes=False, per_step=True)
    here, marked = accumulate(features, data), accumulate(features, data, deterministic=False)
    there = accumulate(features, data, device="cpu")
    assert (marked + there).n_rows == 2 * here.n_rows
    for one, other in ((here, there), (there, here), (marked, here)):
        with pytest.raises(FingerprintError, match="any device"):
            one + other


def test_in_fixed_point_any_device_is_no_mark() -> None:
    features = EchoState.of(reservoir(20), feature_bits=8)
    data = recordings(classes=True, per_step=True)
    assert accumulate(features, data, deterministic=False) == accumulate(features, data)


def test_the_environment_counts_in_floating_point_where_any_device_may_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features, data = plain_map(), recordings(classes=False, per_step=True)
    here = accumulate(features, data, deterministic=False)
    monkeypatch.setenv(VARIABLE, "cpu")
    there = accumulate(features, data, deterministic=False)
    assert_agree(here, there)
    assert here.gram.tolist() != there.gram.tolist()
    monkeypatch.setenv(VARIABLE, "tpu")
    with pytest.raises(ValueError, match="use 'cpu' or 'cuda'"):
        accumulate(features, data, deterministic=False)
    accumulate(features, data)
