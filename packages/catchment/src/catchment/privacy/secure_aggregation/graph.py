"""Who masks with whom: everybody up to 100 clients, a random ring of k neighbors above.

A client's two secrets are shared among its neighbors and itself, t shares open one, and an honest
holder gives a share of one of the two. A server that lies shows holders different sets of clients,
half of them one with the client and half of them one without. With c holders that work with the
server, who give both, it opens both secrets if 2t <= k + 1 + c. So

    the split    2t > k + 1 + c, where no honest client has more than c corrupt holders;
    the cut      t > k/2 + 1 + c', where no half of an honest client's neighborhood has more than
                 c' corrupt ones: an honest client signs only a set with t of its holders in it, so
                 a server cannot declare that many lost that the ring comes apart;
    connected    corrupt and lost ones by themselves do not cut the ring (Bell et al., CCS 2020);
    liveness     every client has at least t surviving holders of its shares.

Each holds but for 2^-40 over all clients, liveness but for 2^-20. On the full graph c is simply the
number of corrupt clients, the first line needs no luck, and it says more: no two sets get t
signatures. On the ring it says that no client's two secrets are opened. That views which differ
from one part of the ring to another cannot give the sum over a part is not proved; whoever must
have it sets `neighbors` to the number of clients.

The clients stand in a circle and each is joined to k/2 on either side. The order is a hash of
numbers that all clients committed to before any of them was shown, so that nobody chooses it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import lru_cache

FULL = 100  # clients up to which everybody masks with everybody
MOST = 600  # neighbors; more would be no cheaper than everybody
PRIVACY, LIVENESS = 2.0**-40, 2.0**-20


def threshold(n_holders: int, n_corrupt: int = 0) -> int:
    """Return two thirds of the holders of shares, or more where so many are corrupt.

    >>> threshold(10), threshold(30), threshold(50, 20)
    (7, 20, 36)
    """
    return max(-(-2 * n_holders // 3), (n_holders + n_corrupt) // 2 + 1)


@lru_cache(maxsize=64)
def degree(n_clients: int, n_corrupt: int, *, lost: float = 0.1) -> tuple[int, int]:
    """Return the number of neighbors and the threshold for a round of this many clients.

    Parameters
    ----------
    n_corrupt
        Clients of the round that may work together with the server.
    lost
        Fraction of clients that may drop out.

    >>> degree(10, 2), degree(1000, 200)
    ((9, 7), (202, 157))
    """
    gone = math.floor(lost * n_clients)
    for k in range(2, min(MOST, n_clients - 2) + 1, 2) if n_clients > FULL else ():
        if _falls_apart(n_clients, n_corrupt + gone, k) >= PRIVACY:
            continue
        c = corrupt_among(n_clients, n_corrupt, k)
        t = max((k + 1 + c) // 2 + 1, uncut(n_clients, n_corrupt, k))
        if t <= k and n_clients * _tails(n_clients - 1, gone, k)[k - t + 1] < LIVENESS:
            return k, t
    return n_clients - 1, threshold(n_clients, n_corrupt)


def uncut(n_clients: int, n_corrupt: int, k: int) -> int:
    """Return the least threshold with which no part of a ring is cut off; above k + 1: none is.

    With two neighbors two corrupt clients around an honest one take all its masks off.

    >>> uncut(1000, 200, 202), uncut(12, 2, 2), uncut(12, 0, 0)
    (157, 4, 2)
    """
    return k // 2 + 2 + corrupt_among(n_clients, n_corrupt, k // 2)


@lru_cache(maxsize=4096)
def corrupt_among(n_clients: int, n_corrupt: int, n_drawn: int) -> int:
    """Return how many corrupt ones no honest client has among this many neighbors.

    But for 2^-40 over all clients and both sides of each; with everybody drawn, that is all.

    >>> corrupt_among(1000, 200, 100), corrupt_among(12, 4, 11)
    (54, 4)
    """
    bad = min(n_corrupt, n_clients - 1)
    tails = _tails(n_clients - 1, bad, n_drawn)
    most = min(bad, n_drawn)
    while most and 2 * n_clients * tails[most] < PRIVACY:
        most -= 1
    return most


def neighbors(members: Sequence[int], me: int, k: int, seed: bytes) -> tuple[int, ...]:
    """Return the neighbors of a member, in ascending order.

    Parameters
    ----------
    members
        Numbers of all clients of the round.
    k
        How many neighbors each has: even, or all others.
    seed
        What the order of the circle is drawn from.

    >>> neighbors([0, 1, 2, 3], 1, 3, b"")
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


def _tails(population: int, marked: int, draws: int) -> list[float]:
    """Return, for 0 to draws + 1, the chance that draws hold that many marked ones or more."""
    whole = _log_comb(population, draws)
    tails = [0.0] * (draws + 2)
    for hits in range(min(draws, marked), -1, -1):
        rest = draws - hits
        if rest <= population - marked:
            log = _log_comb(marked, hits) + _log_comb(population - marked, rest) - whole
            tails[hits] = math.exp(log)
        tails[hits] += tails[hits + 1]
    return tails


def _log_comb(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _falls_apart(n_clients: int, unhelpful: int, k: int) -> float:
    """Return a bound on the chance that corrupt and lost clients cut the circle in two.

    That takes two runs of k/2 of them, at any two places.
    """
    if unhelpful < k:
        return 0.0
    runs = math.comb(unhelpful, k) / math.comb(n_clients, k)
    return n_clients**2 / 2 * runs
