"""Shamir's secret sharing over the field of 2^521 - 1 elements.

A secret is the value at 0 of a random polynomial of degree t - 1, a share its value elsewhere: t
shares give the secret by Lagrange's formula, fewer give nothing (Shamir, CACM 1979).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache

PRIME = 2**521 - 1
SHARE_BYTES = 66


def share(secret: int, threshold: int, places: Sequence[int]) -> list[int]:
    """Return one share of a secret for each place, any `threshold` of which give it back.

    Parameters
    ----------
    secret
        From 0 to the prime.
    places
        Distinct whole numbers above 0, where the polynomial is evaluated.

    >>> shares = share(42, 2, [1, 2, 3])
    >>> combine({1: shares[0], 3: shares[2]})
    42
    """
    if not 0 <= secret < PRIME:
        raise ValueError("a secret to be shared must lie from 0 to 2^521 - 2")
    if not 1 <= threshold <= len(places):
        raise ValueError(
            f"the threshold is {threshold} for {len(places)} shares; pass 1 to {len(places)}"
        )
    if len(set(places)) != len(places) or not all(0 < x < PRIME for x in places):
        raise ValueError("the places of shares must be distinct whole numbers above 0")
    coefficients = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    return [_value(secret, coefficients, x) for x in places]


def combine(shares: Mapping[int, int]) -> int:
    """Return the secret from shares by place; as many as the threshold, or it is a random number.

    >>> combine({1: 5, 2: 7})  # 3 + 2 x
    3
    """
    places = tuple(sorted(shares))
    weights = _weights(places)
    return sum(w * shares[x] for w, x in zip(weights, places, strict=True)) % PRIME


def _value(secret: int, coefficients: Sequence[int], x: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value + coefficient) * x % PRIME
    return (value + secret) % PRIME


@lru_cache(maxsize=256)
def _weights(places: tuple[int, ...]) -> tuple[int, ...]:
    """Return Lagrange's weights at 0: the products of x_m / (x_m - x_j) over m other than j."""
    product = 1
    denominators = []
    for x in places:
        product = product * x % PRIME
        below = x
        for other in places:
            if other != x:
                below *= other - x
        denominators.append(below % PRIME)
    # One inversion for all of them: of their product, taken apart again from the end.
    running = [1]
    for below in denominators:
        running.append(running[-1] * below % PRIME)
    inverse = pow(running[-1], -1, PRIME)
    weights = []
    for below, before in zip(reversed(denominators), reversed(running[:-1]), strict=True):
        weights.append(product * inverse * before % PRIME)
        inverse = inverse * below % PRIME
    return tuple(reversed(weights))
