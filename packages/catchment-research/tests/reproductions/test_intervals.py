"""Intervals over people and seeds, against scipy's bootstrap and against what they should cover."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from reproductions.intervals import deviation, over_people, paired


def people(rights: np.ndarray) -> dict[str, tuple[float, float]]:
    return {f"p{k:02d}": (float(right), 20.0) for k, right in enumerate(rights)}


def test_the_interval_over_people_is_that_of_scipy() -> None:
    rights = np.random.default_rng(3).binomial(20, np.linspace(0.5, 0.95, 15))
    ours = over_people([people(rights)])
    theirs = scipy.stats.bootstrap(
        (rights / 20,), np.mean, method="percentile", n_resamples=4000, rng=np.random.default_rng(0)
    ).confidence_interval
    assert ours.value == rights.mean() / 20
    assert abs(ours.low - theirs.low) < 0.01
    assert abs(ours.high - theirs.high) < 0.01


def test_a_paired_interval_leaves_out_what_makes_people_hard() -> None:
    rng = np.random.default_rng(5)
    hard = rng.integers(5, 15, 20)
    better, worse = [people(hard + 2)], [people(hard)]
    assert paired(better, worse).settled
    assert paired(better, worse).low == pytest.approx(0.1)
    alone = over_people(better), over_people(worse)
    assert alone[0].low < alone[1].high
    assert not paired(worse, worse).settled


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(200):
        skill = rng.beta(8, 3, 25)
        inside = over_people([people(rng.binomial(20, skill))])
        held += inside.low <= 8 / 11 <= inside.high
    assert 180 <= held <= 198


def test_seeds_that_differ_widen_the_interval() -> None:
    one, other = people(np.full(10, 10)), people(np.full(10, 16))
    assert over_people([one, one]).low == over_people([one, one]).high == 0.5
    both = over_people([one, other])
    assert both.low == 0.5
    assert both.high == 0.8


def test_bad_input_is_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="nobody to draw"):
        over_people([])
    with pytest.raises(ValueError, match="different people"):
        over_people([{"a": (1, 1)}, {"b": (1, 1)}])
    with pytest.raises(ValueError, match="cannot be paired"):
        paired([{"a": (1, 1)}], [{"b": (1, 1)}])


def test_a_deviation_divides_by_n_less_one() -> None:
    values = [0.1, 0.4, 0.35]
    assert deviation(values) == pytest.approx(scipy.stats.tstd(values))
    assert np.isnan(deviation([1.0]))
