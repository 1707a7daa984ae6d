"""Rows of a whole recording from the features of its steps; in fixed point by exact sums.

A deviation in fixed point is `catchment.features.echo_state.run`'s: the sum of the squares of
integers d = k - m is exact there. Here d is split, d = 2^16 h + l, the sums of h h, h l and
l l are exact in float64, and carries are brought up before the two halves are added, which rounds
once, as the conversion of that sum to float64 does.
"""

from __future__ import annotations

from catchment_edge.onnx.values import Value

HALF = 2.0**16


def pooled(z: Value, n: Value, pool: str, *, digits: int | None) -> Value:
    """Return the features (B, F or 2 F) of recordings from those (B, T, n_base) of their steps.

    Parameters
    ----------
    n
        T, as a fraction.
    digits
        Of the states' grid; None if there is none, or fractions are float32.
    """
    builder = z.builder
    if pool == "last":
        return z.take(-1, axis=1)
    if pool == "max":
        return z.max(axis=1)
    if digits is not None:
        total = z.sum(axis=1)
        mean = total / n
        if pool == "mean":
            return mean
        return builder.concat([mean, exact_deviation(z, total, n, digits)], axis=-1)
    if pool == "mean":
        return z.sum(axis=1) / n
    # About the first step, for accuracy.
    first = z.part(0, 1, axis=1)
    about = z - first
    shift = about.sum(axis=1) / n
    variance = (about * about).sum(axis=1) / n - shift * shift
    return builder.concat([first.squeeze(1) + shift, variance.at_least(0.0).sqrt()], axis=-1)


def exact_deviation(z: Value, total: Value, n: Value, digits: int) -> Value:
    """Return standard deviations (B, F) of steps (B, T, F) in fixed point with sums `total`."""
    unit = 2.0**digits
    S1 = total * unit
    m = (S1 / n).floor()
    squares = sum_of_squares(z * unit - m.unsqueeze(1))
    d = (S1 - n * m) / n
    return (squares / n - d * d).sqrt() * (1.0 / unit)


def sum_of_squares(d: Value) -> Value:
    """Return the sums (B, F) over steps of squares of integers (B, T, F), rounded once."""
    h = (d * (1.0 / HALF)).floor()
    l = d - h * HALF
    high, cross, low = ((one * other).sum(axis=1) for one, other in ((h, h), (h, l), (l, l)))
    # The sum is high 2^32 + cross 2^17 + low; what of the last two passes 2^32 goes to the first.
    above = (cross * 2.0**-15).floor()
    up = (low * 2.0**-32).floor()
    rest = (cross - above * 2.0**15) * 2.0**17 + (low - up * 2.0**32)
    carry = (rest * 2.0**-32).floor()
    return (high + above + up + carry) * 2.0**32 + (rest - carry * 2.0**32)
