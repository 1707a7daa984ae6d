"""Statistics whose classes grow, against those of targets that had the columns all along."""

from __future__ import annotations

import numpy as np
import pytest

import catchment as ct
from catchment.data import Recording
from catchment.readout import FixedPoint, RidgeStatistics, spread_targets

RNG = np.random.default_rng(3)
Z = RNG.integers(-16, 17, size=(40, 5)) / 16
Y = np.eye(3)[RNG.integers(0, 3, size=40)]
PLACES = (4, 0, 2)


@pytest.mark.parametrize("grid", [None, FixedPoint(4, ((5, 4),))])
def test_spread_targets_are_those_of_rows_with_more_columns(grid: FixedPoint | None) -> None:
    wide = np.zeros((40, 6))
    wide[:, PLACES] = Y
    spread = spread_targets(RidgeStatistics.from_states(Z, Y, fixed=grid), PLACES, 6)
    assert spread == RidgeStatistics.from_states(Z, wide, fixed=grid)


def test_whole_numbers_too_large_for_a_machine_word_are_spread_exactly() -> None:
    few = RidgeStatistics.from_states(Z, Y, fixed=FixedPoint(24, ((5, 24),)))
    many = few.scaled(2.0**45)
    assert many.cross.dtype == object
    assert spread_targets(many, PLACES, 6) == spread_targets(few, PLACES, 6).scaled(2.0**45)


def test_clients_that_name_classes_in_another_order_are_placed_by_name() -> None:
    def waves(classes: tuple[str, ...], seed: int) -> list[Recording]:
        rng = np.random.default_rng(seed)
        paces = {"fast": 3.0, "slow": 9.0}
        u = {c: np.sin(np.arange(60) / p) + 0.1 * rng.normal(size=60) for c, p in paces.items()}
        return [Recording.labeled(u[name], name, classes) for name in ("fast", "slow") * 5]

    here, there = ("fast", "slow"), ("slow", "fast")
    mixed = {"a": waves(here, 0), "b": waves(here, 1), "c": waves(there, 2)}
    alike = mixed | {"c": waves(here, 2)}
    ours, expected = (ct.federate(ct.EchoState(20), clients) for clients in (mixed, alike))
    assert ours.statistics.digest() == expected.statistics.digest()
    assert ours.model.classes == here
    for order in (here, there):
        total = ct.evaluate(ours.model, {"d": waves(order, 3)}).total
        assert total is not None
        assert total.value == 1.0
    alone = ct.fit(ct.EchoState(20), [*mixed["c"], *mixed["a"]])
    assert list(alone.predict([r.u for r in waves(here, 4)])) == ["fast", "slow"] * 5


def test_a_class_that_nobody_else_has_is_no_other_class() -> None:
    u = np.arange(9.0)
    with pytest.raises(ValueError, match=r"'jump', which is not among .*; pass classes with the"):
        Recording.labeled(u, "jump", ("jump", "run")).among(("walk", "run"))
