"""Secret sharing against polynomials evaluated by hand and in fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment.privacy.secure_aggregation import PRIME, _weights, combine, share

secrets_ = st.integers(0, PRIME - 1)


def lagrange_at_zero(points: dict[int, int]) -> int:
    """Return the value at 0 of the polynomial through points, in fractions and then modulo."""
    total = 0
    for x, y in points.items():
        weight = Fraction(1)
        for other in points:
            if other != x:
                weight *= Fraction(other, other - x)
        total += y * weight.numerator * pow(weight.denominator, -1, PRIME)
    return total % PRIME


def test_the_field_is_the_one_we_say() -> None:
    assert PRIME == 2**521 - 1
    # Lucas and Lehmer: 2^p - 1 is prime exactly if s ends in 0 after p - 2 steps.
    s = 4
    for _ in range(521 - 2):
        s = (s * s - 2) % PRIME
    assert s == 0


@pytest.mark.parametrize(
    ("points", "secret"),
    [
        ({1: 8, 2: 11}, 5),  # 5 + 3x
        ({2: 1, 3: PRIME - 1}, 5),  # 5 - 2x
        ({1: 10, 2: 31, 3: 70}, 7),  # 7 - 6x + 9x^2
        ({5: 12345}, 12345),
    ],
)
def test_vectors_worked_out_by_hand(points: dict[int, int], secret: int) -> None:
    assert combine(points) == secret


def test_shares_are_values_of_the_polynomial_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([3, PRIME - 2])
    monkeypatch.setattr("secrets.randbelow", lambda bound: next(drawn))
    # 10 + 3x - 2x^2
    assert share(10, 3, [1, 2, 3, 7]) == [11, 8, 1, 10 + 21 - 98 + PRIME]


@settings(max_examples=60)
@given(secret=secrets_, data=st.data())
def test_any_threshold_of_shares_gives_the_secret(secret: int, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(1, 10_000), min_size=1, max_size=12, unique=True))
    t = data.draw(st.integers(1, len(places)))
    shares = dict(zip(places, share(secret, t, places), strict=True))
    for chosen in itertools.islice(itertools.combinations(places, t), 20):
        points = {x: shares[x] for x in chosen}
        assert combine(points) == lagrange_at_zero(points) == secret


@settings(max_examples=40)
@given(secret=secrets_, other=secrets_, t=st.integers(2, 8))
def test_one_share_less_fits_any_other_secret(secret: int, other: int, t: int) -> None:
    places = list(range(1, t + 1))
    shares = dict(zip(places, share(secret, t, places), strict=True))
    # A last share exists with which the same t - 1 shares give the other secret, whatever it is.
    known = {x: shares[x] for x in places[:-1]}
    weights = _weights(tuple(places))
    rest = sum(w * shares[x] for w, x in zip(weights, places[:-1], strict=False))
    last = (other - rest) * pow(weights[-1], -1, PRIME) % PRIME
    assert combine({**known, places[-1]: last}) == other


def test_shares_of_one_secret_are_fresh_each_time() -> None:
    assert share(1, 3, [1, 2, 3]) != share(1, 3, [1, 2, 3])
    assert share(1, 1, [1, 2, 3]) == [1, 1, 1]


@pytest.mark.parametrize(
    ("secret", "threshold", "places"),
    [
        (-1, 1, [1]),
        (PRIME, 1, [1]),
        (1, 0, [1]),
        (1, 2, [1]),
        (1, 1, [0, 1]),
        (1, 2, [1, 1]),
        (1, 1, [PRIME]),
    ],
)
def test_senseless_sharing_is_refused(secret: int, threshold: int, places: list[int]) -> None:
    with pytest.raises(ValueError, match=r"secret|threshold|places"):
        share(secret, threshold, places)
