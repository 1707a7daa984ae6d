"""Who masks with whom: everybody up to 100 clients, a random ring of k neighbours above.

With k neighbours and thresholds t the round must survive that (Bell et al., CCS 2020)

    privacy    no client has t or more corrupt ones among those who hold shares of its secrets,
               and the honest survivors hang together, each but for 2^-40 over all clients;
    liveness   every client has at least t surviving holders of its shares, but for 2^-20.

The clients stand in a circle in an order drawn anew in each round and each is joined to k/2 on
either side. The order is a hash of the round's public number, so that each client draws its own
neighbours and a server cannot choose them, only draw again by using up round numbers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import lru_cache

FULL = 100  # clients up to which everybody masks with everybody
PRIVACY, LIVENESS = 2.0**-40, 2.0**-20


def threshold(n_holders: int) -> int:
    """Return two thirds of the holders of shares, rounded up.

    >>> threshold(10), threshold(30)
    (7, 20)
    """
    return -(-2 * n_holders // 3)


@lru_cache(maxsize=32)
def degree(n_clients: int, *, corrupt: float = 0.2, lost: float = 0.1) -> tuple[int, int]:
    """Return the number of neighbours and the threshold for a round of this many clients.

    Parameters
    ----------
    corrupt
        Fraction of clients that may work together with the server.
    lost
        Fraction of clients that may drop out.

    >>> degree(10), degree(1000)
    ((9, 7), (68, 43))
    """
    if n_clients <= FULL:
        return n_clients - 1, threshold(n_clients)
    bad = math.floor(corrupt * n_clients)
    gone = math.floor(lost * n_clients)
    for k in range(2, n_clients - 1, 2):
        if _falls_apart(n_clients, bad + gone, k) >= PRIVACY:
            continue
        for t in range(k // 2 + 1, k + 1):
            private = n_clients * _at_least(n_clients - 1, bad, k, t) < PRIVACY
            if private and 2 * t > k + 1:
                if n_clients * _at_least(n_clients - 1, gone, k, k - t + 1) < LIVENESS:
                    return k, t
                break
    return n_clients - 1, threshold(n_clients)


def neighbours(members: Sequence[int], me: int, k: int, seed: bytes) -> tuple[int, ...]:
    """Return the neighbours of a member, in ascending order.

    Parameters
    ----------
    members
        Numbers of all clients of the round.
    k
        How many neighbours each has: even, or all others.
    seed
        What the order of the circle is drawn from.

    >>> neighbours([0, 1, 2, 3], 1, 3, b"")
    (0, 2, 3)
    """
    if k >= len(members) - 1:
        return tuple(sorted(set(members) - {me}))
    place, circle = _circle(tuple(members), seed)
    n, p = len(circle), place[me]
    near = {circle[(p + step) % n] for step in range(-(k // 2), k // 2 + 1)}
    return tuple(sorted(near - {me}))


@lru_cache(maxsize=4)
def _circle(members: tuple[int, ...], seed: bytes) -> tuple[dict[int, int], list[int]]:
    def drawn(member: int) -> bytes:
        return hashlib.sha256(seed + member.to_bytes(8, "little")).digest()

    circle = sorted(members, key=drawn)
    return {member: place for place, member in enumerate(circle)}, circle


def _at_least(population: int, marked: int, draws: int, least: int) -> float:
    """Return the chance that draws without replacement hold `least` or more marked ones."""
    if least > min(draws, marked):
        return 0.0
    whole = math.comb(population, draws)
    tail = sum(
        math.comb(marked, hits) * math.comb(population - marked, draws - hits)
        for hits in range(least, min(draws, marked) + 1)
    )
    return tail / whole


def _falls_apart(n_clients: int, unhelpful: int, k: int) -> float:
    """Return a bound on the chance that corrupt and lost clients cut the circle in two.

    That takes two runs of k/2 of them, at any two places.
    """
    if unhelpful < k:
        return 0.0
    runs = math.comb(unhelpful, k) / math.comb(n_clients, k)
    return n_clients**2 / 2 * runs
