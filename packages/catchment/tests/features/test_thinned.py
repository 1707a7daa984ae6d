"""Statistics of some rows: those of the rows written out and counted off, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import catchment as ct
from catchment.features import NVAR, DiagonalReservoir, EchoState, FeatureMap, Thinned
from catchment.federation import Rows
from catchment.readout import Grid, RidgeStatistics, accumulate, accumulate_each

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
    grid = Grid.of(features, classes=False)
    return RidgeStatistics.from_states(
        np.concatenate(z),
        np.concatenate(y),
        weight=weight,
        fingerprint=features.fingerprint,
        grid=grid,
    )


@pytest.mark.parametrize("every", [1, 3, 8])
def test_statistics_are_those_of_the_rows_counted_off(inner: FeatureMap, every: int) -> None:
    features = Thinned(inner, every).build(2, per_step=True)
    given = data()
    expected = counted_off(features, given, every)
    assert expected.grid is not None
    assert accumulate(features, given) == expected
    for one, found in zip(given, accumulate_each(features, [[g] for g in given]), strict=True):
        assert found == counted_off(features, [one], every)


def test_predictions_are_made_for_every_step(inner: FeatureMap) -> None:
    features = Thinned(inner, every=4).build(2, per_step=True)
    plain = inner.build(2, per_step=True)
    u = RNG.normal(size=(60, 2))
    np.testing.assert_array_equal(features.rows([u])[0], plain.rows([u])[0])
    assert features.fingerprint != plain.fingerprint
    model = ct.fit(ct.Pipeline(ct.RAW, Thinned(inner, every=4)), data())
    assert model.predict(u).shape == (55, 2)


def test_other_thinnings_do_not_add_up() -> None:
    given = data()
    two, three = (
        accumulate(Thinned(EchoState(30), every=k).build(2, per_step=True), given) for k in (2, 3)
    )
    with pytest.raises(ValueError, match=r"(?i)different|not the same|fingerprint|map"):
        two + three


def test_missing_targets_stay_missing_and_one_target_stands_for_all_steps() -> None:
    features = Thinned(EchoState(10), every=2).build(1, per_step=True)
    y = np.arange(10.0)
    y[[1, 4]] = np.nan
    assert accumulate(features, [ct.Recording(np.arange(10.0), y)]).n_rows == 4
    assert accumulate(features, [ct.Recording(np.arange(10.0), np.ones(1))]).n_rows == 5


def test_rows_of_a_client_are_thinned_too() -> None:
    features = Thinned(DiagonalReservoir(12), every=5).build(2, per_step=True)
    given = [ct.Recording(one.u, one.y) for one in data((50, 70))]
    assert Rows.of(features, given).statistics() == accumulate(features, given)


def test_clients_learn_together_from_thinned_rows() -> None:
    clients = {f"c{k}": data((200,)) for k in range(3)}
    clients = {name: [ct.Recording(one.u, one.y) for one in held] for name, held in clients.items()}
    described = Thinned(EchoState(20), every=4)
    run = ct.federate(ct.Pipeline(ct.RAW, described), clients, ridge=1e-3)
    assert run.statistics.n_rows == 150
    assert described.describes(run.model.features, 2, per_step=True)


def test_a_map_with_a_row_per_recording_is_refused() -> None:
    with pytest.raises(ValueError, match="row per step"):
        Thinned(EchoState(10)).build(1, per_step=False)
    with pytest.raises(ValueError, match="every is 0"):
        Thinned(EchoState(10), every=0)
