"""Statistics of some rows: those of the rows written out and counted off, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import catchment as ct
from catchment.features import NVAR, DiagonalReservoir, EchoState, FeatureMap
from catchment.federation import describe
from catchment.federation.learn import FederatedRidge
from catchment.readout import (
    FixedPoint,
    RidgeStatistics,
    accumulate,
    accumulate_each,
    statistics_name,
)

KEPT = [
    0.6153197878014519,
    0.7498394898552173,
    0.8495826551106062,
    0.9130955086841205,
    0.9372443467877128,
    0.9227481147691928,
]
RNG = np.random.default_rng(8)
INNER: dict[str, FeatureMap] = {
    "echo state": EchoState(30, washout=5),
    "echo state with a constant": EchoState(30, washout=5, bias=True),
    "diagonal": DiagonalReservoir(24, washout=5),
    "delays": NVAR(4, washout=5),
}


@pytest.fixture(params=INNER)
def inner(request: pytest.FixtureRequest) -> FeatureMap:
    return INNER[request.param]


def data(lengths: tuple[int, ...] = (700, 40, 1300)) -> list[ct.Recording]:
    return [
        ct.Recording(RNG.normal(size=(n, 2)), RNG.normal(size=(n, 2)), weight=1.0 + k)
        for k, n in enumerate(lengths)
    ]


def counted_off(features: FeatureMap, given: list[ct.Recording], every: int) -> RidgeStatistics:
    """Return the statistics of every so many rows, taken from all of them."""
    z = [z[every - 1 :: every] for z in features.rows([one.u for one in given])]
    y = [one.y[features.washout :][every - 1 :: every] for one in given if one.y is not None]
    weight = np.repeat([one.weight for one in given], [len(part) for part in z])
    grid = FixedPoint.of(features, classes=False)
    return RidgeStatistics.from_states(
        np.concatenate(z),
        np.concatenate(y),
        weight=weight,
        fingerprint=statistics_name(features, row_stride=every),
        fixed=grid,
    )


@pytest.mark.parametrize("stride", [1, 3, 8])
def test_statistics_are_those_of_the_rows_counted_off(inner: FeatureMap, stride: int) -> None:
    features = inner.build(2, per_step=True)
    given = data()
    expected = counted_off(features, given, stride)
    assert expected.fixed is not None
    assert accumulate(features, given, row_stride=stride) == expected
    groups = [[one] for one in given]
    for group, found in zip(
        groups, accumulate_each(features, groups, row_stride=stride), strict=True
    ):
        assert found == counted_off(features, group, stride)


def test_missing_targets_stay_missing_and_one_target_stands_for_all_steps() -> None:
    features = EchoState(10).build(1, per_step=True)
    y = np.arange(10.0)
    y[[1, 4]] = np.nan
    assert accumulate(features, [ct.Recording(np.arange(10.0), y)], row_stride=2).n_rows == 4
    constant = ct.Recording(np.arange(10.0), np.ones(1))
    assert accumulate(features, [constant], row_stride=2).n_rows == 5


def clients() -> dict[str, list[ct.Recording]]:
    return {f"c{k}": [ct.Recording(one.u, one.y) for one in data((200,))] for k in range(3)}


def test_clients_learn_together_from_some_rows() -> None:
    held = clients()
    run = ct.federate(ct.Pipeline(ct.RAW, EchoState(20)), held, ridge=1e-3, row_stride=4)
    every = [one for group in held.values() for one in group]
    assert run.statistics == counted_off(run.model.features, every, 4)
    assert run.model.predict(every[0].u).shape == (200, 2)


def test_only_a_stride_that_is_set_is_in_a_plan() -> None:
    features = EchoState(10).build(2, per_step=True)
    plain, two = (FederatedRidge(features=features, row_stride=stride) for stride in (1, 2))
    assert "row_stride" not in str(describe(plain))
    assert "row_stride" in str(describe(two))


def test_strides_that_cannot_be_are_refused() -> None:
    steps, pooled = (EchoState(10).build(1, per_step=one) for one in (True, False))
    with pytest.raises(ValueError, match="row_stride is 0; give an integer, 1 or more"):
        FederatedRidge(features=steps, row_stride=0)
    with pytest.raises(ValueError, match="leave it out where a recording has one row"):
        FederatedRidge(features=pooled, row_stride=2)
    with pytest.raises(ValueError, match="goes on in a later round"):
        FederatedRidge(features=steps, row_stride=2, increments="new")


def test_a_file_of_the_time_when_it_was_a_map_is_read() -> None:
    model = ct.load(Path(__file__).parents[1] / "readout" / "data" / "thinned.safetensors")
    assert isinstance(model, ct.Model)
    assert isinstance(model.features, EchoState)
    assert model.statistics is not None
    name = statistics_name(model.features, row_stride=4)
    assert (model.statistics.n_rows, model.statistics.fingerprint) == (19, name)
    u = np.sin(np.arange(80.0) / 5)
    assert model.predict(u[:9]).ravel().tolist() == KEPT
