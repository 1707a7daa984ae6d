"""Quantiles of additive histograms against the sorted values themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from catchment.errors import UploadError
from catchment.readout import Counts, log_edges
from catchment.wire import Message


@pytest.mark.parametrize("probability", [0.01, 0.5, 0.9, 0.999])
def test_a_quantile_is_the_sorted_value_up_to_a_bins_width(probability: float) -> None:
    rng = np.random.default_rng(1)
    values = rng.lognormal(size=(1000, 3))
    parts = [Counts.of(part, log_edges()) for part in np.split(values, [10, 10, 700])]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    true = np.sort(values, axis=0)[math.ceil(probability * 1000 - 1e-9) - 1]
    found = total.quantile(probability)
    assert (found >= true).all()
    assert (found <= true * 10 ** (1 / 64) * (1 + 1e-8)).all()
    assert total - parts[3] - parts[0] == parts[2] + parts[1]
    assert total == Counts.of(values, log_edges())


def test_the_conformal_rank_covers_new_values_as_often_as_it_says() -> None:
    # Whatever the distribution: coverage over new draws is at least p, and beyond n there is none.
    rng = np.random.default_rng(2)
    edges = np.linspace(0, 1, 2001)
    draws = rng.beta(0.3, 2.0, size=(20, 4000))
    radius = Counts.of(draws[:19], edges).conformal(0.9)
    rank = np.sort(draws[:19], axis=0)[math.ceil(0.9 * 20) - 1]
    np.testing.assert_allclose(radius, rank, atol=1 / 2000 + 1e-12)
    assert (draws[19] <= radius).mean() == pytest.approx(0.9, abs=0.02)
    assert np.isinf(Counts.of(draws[:8], edges).conformal(0.9)).all()


def test_values_outside_the_edges_are_counted_and_missing_ones_are_not() -> None:
    counts = Counts.of([-5.0, 0.0, 1.0, np.nan, np.inf], [0.0, 1.0, 2.0])
    assert counts.counts.tolist() == [[2, 1, 0, 1]]
    assert counts.n_values.tolist() == [4]
    assert counts.quantile(0.5).tolist() == [0.0]
    assert np.isinf(Counts.zero([0.0, 1.0]).quantile(0.5)).all()


def test_counts_travel_and_other_edges_do_not_add() -> None:
    counts = Counts.of([0.5, 1.5], [0.0, 1.0, 2.0])
    assert Counts.from_message(Message.from_bytes(counts.parts().to_bytes())) == counts
    with pytest.raises(UploadError, match="edges"):
        counts + Counts.of([0.5], [0.0, 1.0, 2.5])
    sent = counts.parts()
    forged = Message(sent.kind, sent.facts, (sent.arrays[0], -sent.arrays[1]))
    with pytest.raises(UploadError, match="negative"):
        Counts.from_message(forged)
