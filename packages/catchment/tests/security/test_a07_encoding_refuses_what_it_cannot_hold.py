"""A7: NaN, infinities and numbers out of range never reach a sum; the rest comes back exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.errors import TooFewClientsError
from catchment.privacy.secure_aggregation import Ring, decode, encode
from tests.security.fleet import Fleet, released

RING = Ring()
signs = st.sampled_from([-1.0, 1.0])


@settings(max_examples=500)
@given(x=st.floats(2.0**-28, 2.0**46, exclude_max=True), sign=signs)
def test_ordinary_numbers_come_back_exactly(x: float, sign: float) -> None:
    assert decode(encode(np.array([sign * x]), RING), RING)[0] == sign * x


@settings(max_examples=500)
@given(x=st.floats(0.0, 2.0**-28), sign=signs)
def test_small_numbers_are_off_by_half_a_unit_at_most(x: float, sign: float) -> None:
    back = decode(encode(np.array([sign * x]), RING), RING)[0]
    assert abs(Fraction(float(back)) - Fraction(sign * x)) <= Fraction(1, 2**81)


@settings(max_examples=200)
@given(x=st.floats(allow_nan=True, allow_infinity=True), n=st.integers(1, 1000))
def test_whatever_is_not_below_the_limit_is_refused(x: float, n: int) -> None:
    fits = bool(np.isfinite(x)) and abs(x) < RING.limit(n)
    if fits:
        assert encode(np.array([x]), RING, n_clients=n).shape == (2, 1)
    else:
        with pytest.raises(ValueError, match="must be finite and below"):
            encode(np.array([x]), RING, n_clients=n)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2.0**47, -1e300])
@pytest.mark.parametrize("place", [0, 57, 99])
def test_one_bad_number_among_many_is_found(bad: float, place: int) -> None:
    x = np.ones(100)
    x[place] = bad
    with pytest.raises(ValueError, match="look for what blew up"):
        encode(x, RING)


@pytest.mark.parametrize("bad", [np.nan, -1e90, 1e14])
def test_a_client_with_a_bad_number_does_not_upload_and_the_others_go_on(bad: float) -> None:
    fleet = Fleet.drawn(5)
    fleet.vectors = {**fleet.vectors, "c002": np.array([1.0, bad, 2.0])}
    result = fleet.run()
    assert [(r.client, r.code) for r in result.records[0].refused] == [("c002", "refused")]
    others = [c for c in fleet.vectors if c != "c002"]
    np.testing.assert_array_equal(released(result), fleet.expected(others))


def test_numbers_beyond_the_compact_ring_are_not_clipped() -> None:
    fleet = Fleet.drawn(4, bits=64, bound=100.0)
    fleet.vectors = {name: np.full(3, 1.0) for name in fleet.vectors}
    fleet.vectors["c001"] = np.full(3, 99.0)
    result = fleet.run()
    assert "below 64" in result.records[0].refused[0].reason
    np.testing.assert_array_equal(released(result), 3.0)


def test_nobody_within_range_means_no_sum() -> None:
    fleet = Fleet.drawn(4)
    fleet.vectors = {name: np.full(3, np.nan) for name in fleet.vectors}
    with pytest.raises(TooFewClientsError, match="must be finite"):
        fleet.run()


def test_counts_are_exact_beyond_floats_and_refused_where_their_sum_could_wrap() -> None:
    from catchment.privacy.secure_aggregation import Outline, encoded
    from catchment.wire import Message

    counts = Message("counts", {}, (np.array([2**53 + 1, -(2**60) - 1]),))
    for ring in (Ring(), Ring(64, 20)):
        (back,) = Outline.of(counts).fill(encoded(counts, ring, n_clients=7), ring).arrays
        np.testing.assert_array_equal(back, counts.arrays[0])
        with pytest.raises(ValueError, match="has 61 bits and is above 1024819115206086200"):
            encoded(counts, ring, n_clients=9)
