"""Weighted sums and tallies: sums in any order, and nothing but finite numbers."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.errors import CatchmentError, FederationError, UploadError
from catchment.federation import Tally, WeightedSum
from catchment.wire import Message

numbers = st.floats(-1e6, 1e6)
pairs = st.lists(st.tuples(numbers, st.floats(0.01, 100.0)), min_size=1, max_size=8)


@given(pairs=pairs)
def test_the_mean_is_numpys_weighted_average(pairs: list[tuple[float, float]]) -> None:
    values = [WeightedSum.of((np.array([x]), np.array([[x, -x]])), w) for x, w in pairs]
    total = reduce(add, values)
    expected = np.average([x for x, _ in pairs], weights=[w for _, w in pairs])
    first, second = total.mean()
    np.testing.assert_allclose(first, [expected], rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(second, [[expected, -expected]], rtol=1e-9, atol=1e-6)
    assert total.n_clients == len(pairs)


@given(pairs=pairs)
def test_a_sum_survives_the_journey(pairs: list[tuple[float, float]]) -> None:
    total = reduce(add, (WeightedSum.of((np.array([x]),), w) for x, w in pairs))
    got = WeightedSum.from_message(Message.from_bytes(total.parts().to_bytes()))
    assert (got.weight, got.n_clients) == (total.weight, total.n_clients)
    np.testing.assert_array_equal(got.arrays[0], total.arrays[0])


def test_nothing_has_no_mean() -> None:
    with pytest.raises(FederationError, match="there is no mean"):
        WeightedSum.of((np.ones(2),), 0.0).mean()


def test_other_shapes_do_not_add() -> None:
    with pytest.raises(UploadError, match="do not add"):
        WeightedSum.of((np.ones(2),), 1.0) + WeightedSum.of((np.ones(3),), 1.0)
    with pytest.raises(UploadError, match="do not add"):
        WeightedSum.of((np.ones(2),), 1.0) + WeightedSum.of((), 1.0)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (WeightedSum((np.array([np.nan]),), 1.0), "not-finite"),
        (WeightedSum((np.ones(1),), np.inf), "not-finite"),
        (WeightedSum((np.ones(1),), -1.0), "count"),
        (WeightedSum((np.ones(1),), 1.0, -2), "count"),
    ],
)
def test_sums_that_cannot_be_are_refused(value: WeightedSum, code: str) -> None:
    with pytest.raises(UploadError) as caught:
        WeightedSum.from_message(value.parts())
    assert caught.value.code == code


def test_malformed_sums_are_refused() -> None:
    good = WeightedSum.of((np.ones(1),), 1.0).parts()
    with pytest.raises(CatchmentError):
        WeightedSum.from_message(good).expect((1,), (1,))
    with pytest.raises(CatchmentError):
        WeightedSum.from_message(Message("other", {}, good.arrays))
    with pytest.raises(CatchmentError):
        WeightedSum.from_message(Message("weighted-sum", {}, (np.ones(3), np.ones(1))))


@given(values=st.dictionaries(st.text(), st.integers(), min_size=1, max_size=8))
def test_a_tally_knows_the_sum_and_who_gave_what(values: dict[str, int]) -> None:
    total = reduce(add, (Tally(value, {name: value}) for name, value in values.items()))
    assert total.total == sum(values.values())
    assert dict(total.by_client) == values
