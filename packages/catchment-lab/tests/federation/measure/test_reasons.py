"""Reasons are named where numbers support them, and only for somebody who is badly served."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from catchment_lab.diagnose import (
    ChannelShift,
    ClassShift,
    Evidence,
    FeatureShift,
    PersonalTrial,
    Tried,
)
from catchment_lab.diagnose.reasons import reasons

BASE = Evidence("accuracy", 0.6, 200, [0.9, 0.92, 0.91, 0.88, 0.93], names=("a", "b", "c"))
ORDINARY = ChannelShift("x", 0.0, 0.0, 0.1, 1.0, 1.0, 0.1, 0.1, 0.1, 0.2, 0.0, 0.0, 1.0)


def names(found: Evidence) -> list[str]:
    return [one.name for one in reasons(found)]


def test_nothing_is_named_without_support_or_for_one_served_as_others_are() -> None:
    assert names(replace(BASE, channels=[ORDINARY])) == []
    mended = [Tried("another unit", "x", "y", 0.6, 0.9, 200)]
    assert names(replace(BASE, tried=mended)) == ["another unit"]
    assert names(replace(BASE, tried=mended, value=0.9)) == []


def test_a_change_that_helps_by_chance_is_not_named() -> None:
    few = [Tried("another unit", "x", "y", 0.6, 0.8, 10)]
    assert names(replace(BASE, tried=few)) == []
    worse = [Tried("another unit", "x", "y", 0.6, 0.5, 200)]
    assert names(replace(BASE, tried=worse)) == []


def test_an_exact_reason_comes_before_a_vague_one_and_alone() -> None:
    both = [
        Tried("another level or spread", "x", "y", 0.6, 0.91, 200),
        Tried("a turned sensor", "x", "y", 0.6, 0.9, 200),
    ]
    assert names(replace(BASE, tried=both)) == ["a turned sensor"]


def test_a_mix_of_hard_classes() -> None:
    others = np.array([[90, 10, 0], [40, 60, 0], [0, 0, 300]])
    own = np.array([[10, 0, 0], [78, 110, 0], [0, 0, 2]])
    classes = [
        ClassShift("a", 0.05, 0.2, 10),
        ClassShift("b", 0.94, 0.2, 188),
        ClassShift("c", 0.01, 0.6, 2),
    ]
    found = replace(BASE, confusion=own, others_confusion=others, classes=classes)
    (one,) = reasons(found)
    assert one.name == "another mix of classes"
    assert "94 % b against 20 %" in one.words
    expected = (10 * 0.9 + 188 * 0.6 + 2 * 1.0) / 200
    assert f"{100 * expected:.1f} %" in one.words


def test_dead_channels_gaps_and_odd_recordings() -> None:
    dead = replace(ORDINARY, name="y", spread_ratio=0.001)
    gappy = replace(ORDINARY, name="z", missing=0.4)
    odd = [(k, 1, 20) for k in range(9)] + [(9, 20, 20)]
    found = replace(BASE, channels=[dead, gappy], recordings=odd)
    assert set(names(found)) == {"a dead channel", "missing values", "a few odd recordings"}
    many = [(k, 15, 20) for k in range(10)]
    assert names(replace(BASE, recordings=many)) == []


def test_what_is_left_is_unlike_inputs_or_a_way_of_their_own() -> None:
    far = replace(ORDINARY, mean_shift=8.0, distance=0.8)
    off = FeatureShift(3.0, 0.3, 0.5, (("mean_x", 9.0),))
    trial = PersonalTrial(0.6, 0.9, 0.8, 100, 100)
    assert names(replace(BASE, channels=[far], features=off)) == ["inputs unlike everybody's"]
    assert names(replace(BASE, personal=trial)) == ["a way of their own"]
    mended = [Tried("another unit", "x", "y", 0.6, 0.9, 200)]
    assert names(replace(BASE, channels=[far], personal=trial, tried=mended)) == ["another unit"]


def test_errors_are_better_the_smaller_they_are() -> None:
    base = Evidence("NRMSE", 1.2, 300, [0.3, 0.31, 0.32, 0.29])
    assert names(replace(base, line=(-2.0, 0.0, 0.3))) == ["a target of the other sign"]
    assert names(replace(base, line=(1000.0, 0.0, 0.3))) == ["a target in another unit"]
    assert names(replace(base, line=(1.1, 0.0, 1.15))) == []
    assert names(replace(base, value=0.31)) == []
