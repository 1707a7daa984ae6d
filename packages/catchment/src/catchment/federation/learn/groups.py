"""Groups of clients: sums that do not grow with the clients, from which a group can be left out.

To choose a ridge by clients left out the server must keep every client's statistics. Of a million
clients it keeps the sums of 32 groups instead. A client's group follows from the SHA-256 of its
name, so that it is the same in every run, on every engine, whoever else takes part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TypeVar

from catchment.federation.algorithm import Additive

N_GROUPS = 32
MANY = 1_000  # clients above which "auto" leaves out groups, not clients

V = TypeVar("V", bound=Additive)


def group_of(client: str) -> int:
    """Return a client's group, from 0 to 31.

    >>> [group_of(name) for name in ("ann", "bob", "cid")]
    [14, 26, 25]
    """
    digest = hashlib.sha256(client.encode()).digest()
    return int.from_bytes(digest[:8], "big") % N_GROUPS


def group_sums(by_client: Mapping[str, V]) -> dict[int, V]:
    """Return the sums of the groups that clients are in, from what each client gave.

    >>> import numpy as np
    >>> from catchment.readout.statistics import RidgeStatistics
    >>> s = RidgeStatistics.from_states(np.ones((3, 2)), np.ones((3, 1)))
    >>> {k: one.n_rows for k, one in group_sums({"ann": s, "bob": s, "cid": s}).items()}
    {14: 3, 25: 3, 26: 3}
    """
    sums: dict[int, V] = {}
    for name in sorted(by_client):
        pool(sums, group_of(name), by_client[name])
    return {group: sums[group] for group in sorted(sums)}


def pool(sums: dict[int, V], group: int, new: V) -> None:
    """Add statistics to those of a group."""
    sums[group] = sums[group] + new if group in sums else new
