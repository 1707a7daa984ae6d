"""Factors that no data can have are refused."""

from __future__ import annotations

import numpy as np

from catchment import Array
from catchment.errors import UploadError
from catchment.federation import check_origin, check_statistics
from catchment_research.factors.factors import NUMBERS as FACTOR_NUMBERS
from catchment_research.factors.factors import RidgeFactors


def check_factors(
    factors: RidgeFactors,
    *,
    fingerprint: str,
    n_features: int | None = None,
    n_targets: int | None = None,
    state_bound: float | Array | None = None,
    constant: bool = False,
    one_hot: bool = False,
) -> None:
    """Raise UploadError, with a code of its own, for factors that no data can have.

    A triangle with a diagonal that is not negative is a factor of some rows; what its rows amount
    to is checked as statistics are.

    Parameters
    ----------
    fingerprint, n_features, n_targets, state_bound, constant, one_hot
        As for `check_statistics`.

    >>> factors = RidgeFactors.from_states(np.eye(3), np.ones((3, 1)), fingerprint="f")
    >>> check_factors(factors, fingerprint="f")
    >>> check_factors(factors, fingerprint="f", n_features=4)
    Traceback (most recent call last):
    catchment.errors.UploadError: 3 features came, 4 are planned
    """
    check_origin(factors, fingerprint, n_features, n_targets)
    numbers = [getattr(factors, name) for name in FACTOR_NUMBERS]
    if not all(np.isfinite(one).all() for one in numbers):
        raise UploadError("not-finite", "the factors hold NaN or infinite numbers")
    if (factors.inner.diagonal() < 0).any():
        raise UploadError("factors", "the diagonal of a factor cannot be negative")
    filled = any(one.any() for one in numbers)
    if filled and not (factors.n_rows > 0 and factors.weight > 0):
        raise UploadError(
            "count",
            f"{factors.n_rows} rows of weight {factors.weight:g} cannot have a factor that is not "
            "zero",
        )
    # Squares of what is beyond float64 are refused as not finite.
    with np.errstate(over="ignore", invalid="ignore"):
        statistics = factors.statistics
    check_statistics(
        statistics,
        fingerprint=fingerprint,
        state_bound=state_bound,
        constant=constant,
        one_hot=one_hot,
    )
