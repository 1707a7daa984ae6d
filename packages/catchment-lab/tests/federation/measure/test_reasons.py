"""Reasons are named where numbers support them, and only for somebody who is badly served."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from catchment_lab.diagnose import ChannelShift, ClassShift, Served
from catchment_lab.diagnose.reasons import reasons

OTHERS = dict(enumerate([0.9, 0.92, 0.91, 0.88, 0.93]))
BASE = Served(
    "dan",
    "accuracy",
    0.6,
    200,
    "by a model",
    {f"p{k}": value for k, value in OTHERS.items()},
    names=("a", "b", "c"),
)
ORDINARY = ChannelShift("x", 0.0, 0.0, 0.1, 1.0, 1.0, 0.1, 0.1, 0.1, 0.2, 0.0, 0.0)


def names(found: Served) -> list[str]:
    return [one.name for one in reasons(found)]


def test_nothing_is_named_without_support_or_for_one_served_as_others_are() -> None:
    assert names(replace(BASE, channels=(ORDINARY,))) == []
    other = replace(ORDINARY, spread_ratio=9.7, spread_shift=40.0, distance=0.8)
    assert names(replace(BASE, channels=(other,))) == ["another unit"]
    assert names(replace(BASE, channels=(other,), value=0.9)) == []


def test_a_unit_is_known_by_its_factor_either_way() -> None:
    large = replace(ORDINARY, spread_ratio=1010.0, spread_shift=40.0, distance=0.8)
    small = replace(ORDINARY, name="y", spread_ratio=0.0111, spread_shift=-40.0, distance=0.8)
    (one,) = reasons(replace(BASE, channels=(large, small)))
    assert "x has 1,010 times the others' spread, as thousandths of the others' unit" in one.words
    assert "y has 0.0111 times the others' spread, as the others' having hundredths" in one.words


def test_a_mix_of_hard_classes() -> None:
    others = np.array([[90, 10, 0], [40, 60, 0], [0, 0, 300]])
    own = np.array([[10, 0, 0], [78, 110, 0], [0, 0, 2]])
    classes = (
        ClassShift("a", 0.05, 0.2, 10),
        ClassShift("b", 0.94, 0.2, 188),
        ClassShift("c", 0.01, 0.6, 2),
    )
    found = replace(BASE, confusion=own, others_confusion=others, classes=classes)
    (one,) = reasons(found)
    assert one.name == "another mix of classes"
    assert "94 % b against 20 %" in one.words
    expected = (10 * 0.9 + 188 * 0.6 + 2 * 1.0) / 200
    assert f"{100 * expected:.1f} %" in one.words


def test_dead_channels_gaps_and_odd_recordings() -> None:
    dead = replace(ORDINARY, name="y", spread_ratio=0.001)
    gappy = replace(ORDINARY, name="z", missing=0.4)
    odd = (*((k, 1, 20) for k in range(9)), (9, 20, 20))
    found = replace(BASE, channels=(dead, gappy), recordings=odd)
    assert set(names(found)) == {"a dead channel", "missing values", "a few odd recordings"}
    many = tuple((k, 15, 20) for k in range(10))
    assert names(replace(BASE, recordings=many)) == []


def test_what_is_left_is_unlike_inputs() -> None:
    far = replace(ORDINARY, mean_shift=8.0, distance=0.8)
    assert names(replace(BASE, channels=(far,))) == ["inputs unlike everybody's"]
    unit = replace(ORDINARY, name="y", spread_ratio=9.7, spread_shift=40.0, distance=0.8)
    assert names(replace(BASE, channels=(far, unit))) == ["another unit"]


def test_errors_are_better_the_smaller_they_are() -> None:
    others = {f"p{k}": value for k, value in enumerate([0.3, 0.31, 0.32, 0.29])}
    base = Served("dan", "NRMSE", 1.2, 300, "by a model", others)
    assert names(replace(base, line=(-2.0, 0.0, 0.3))) == ["a target of the other sign"]
    assert names(replace(base, line=(1000.0, 0.0, 0.3))) == ["a target in another unit"]
    assert names(replace(base, line=(1.1, 0.0, 1.15))) == []
    assert names(replace(base, value=0.31)) == []
