"""Monomials of delays against scikit-learn's polynomial features."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

from catchment import Array
from catchment.errors import ClippingWarning
from catchment.features import NVAR

RNG = np.random.default_rng(2)


def delayed(u: Array, delays: int, stride: int) -> Array:
    padded = np.vstack([np.zeros(((delays - 1) * stride, u.shape[1])), u])
    ends = np.arange(len(u)) + (delays - 1) * stride
    return np.hstack([padded[ends - d * stride] for d in range(delays)])


@pytest.mark.parametrize(("channels", "delays", "stride", "order"), [
    (1, 10, 1, 2), (3, 4, 2, 2), (2, 3, 5, 3), (1, 5, 1, 1),
])  # fmt: skip
def test_rows_are_polynomials_of_delays(
    channels: int, delays: int, stride: int, order: int
) -> None:
    features = NVAR(delays, stride, order, washout=3, bits=None).build(channels, per_step=True)
    u = RNG.normal(size=(90, channels))
    expected = PolynomialFeatures(order).fit_transform(delayed(u, delays, stride))[3:]
    (z,) = features.rows([u])
    assert z.shape == expected.shape
    np.testing.assert_allclose(z, expected, atol=2e-5, rtol=0)


def test_inputs_in_fixed_point_have_exact_products_and_loud_ones_are_cut_off() -> None:
    features = NVAR(2, bits=None).build(1, per_step=True)
    with pytest.warns(ClippingWarning, match="scale the inputs"):
        (z,) = features.rows([[0.5 + 2.0**-22, 100.0]])
    x = 0.5 + 2.0**-22
    np.testing.assert_array_equal(z, [[1, x, 0, x * x, 0, 0], [1, 8, x, 64, 8 * x, x * x]])


def test_too_many_features_and_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="ask for fewer delays"):
        NVAR(100, order=3).build(3, per_step=True)
    with pytest.raises(ValueError, match="order is 4; give an integer, 1 or more, at most 3"):
        NVAR(order=4)
