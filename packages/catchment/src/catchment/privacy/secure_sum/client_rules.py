"""What a client of a secure sum refuses to do, whoever asks.

Each rule is checked by every client on its own, from the plan it agreed to, from its own data and
from what it remembers; none needs to know anything of another client's data. The rules on rows are
empirical: they guard against the reconstruction of sequences, not against tests of membership.
"""

from __future__ import annotations

import re

from catchment.errors import RuleError
from catchment.structure import measured

FEWEST_CLIENTS = 3
FEWEST_ROWS_PER_FEATURE = 2.0
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def is_name(text: str) -> bool:
    """Return whether a text may name a client or a federation: no paths, no surprises.

    >>> is_name("subject-07"), is_name("../x"), is_name(".."), is_name("")
    (True, False, False, False)
    """
    return _NAME.fullmatch(text) is not None and text not in (".", "..")


def check_clients(n_clients: int, min_clients: int) -> None:
    """Refuse a round of too few clients.

    >>> check_clients(2, 3)
    Traceback (most recent call last):
    catchment.errors.RuleError: the round has 2 clients, this client asks for 3 or more; ...
    """
    if n_clients < min_clients:
        raise RuleError(
            "clients",
            f"the round has {n_clients} clients, this client asks for {min_clients} or more; wait "
            "until more are there",
        )


def check_share(n_clients: int, n_registered: int, min_share: float) -> None:
    """Refuse a round of too small a part of those who are registered.

    A server chooses who is asked, and so could fill a small round with those who work with it.

    >>> check_share(12, 40, 0.5)
    Traceback (most recent call last):
    catchment.errors.RuleError: the round has 12 of 40 registered clients, this client asks for ...
    """
    if n_clients < min_share * n_registered:
        raise RuleError(
            "share",
            f"the round has {n_clients} of {n_registered} registered clients, this client asks "
            f"for {min_share:.0%} of them or more; wait until more are there, or register fewer",
        )


def check_threshold(threshold: int, n_holders: int, n_corrupt: int) -> None:
    """Refuse a threshold with which a server could open both secrets of one client.

    It shows half of the honest holders a set with the client and half of them one without; those
    who work with it give a share of each.

    >>> check_threshold(8, 12, 4)
    Traceback (most recent call last):
    catchment.errors.RuleError: 8 shares of 12 open a secret, and 4 holders may work with the ...
    """
    if not n_holders + n_corrupt < 2 * threshold or threshold > n_holders:
        raise RuleError(
            "threshold",
            f"{threshold} shares of {n_holders} open a secret, and {n_corrupt} holders may work "
            f"with the server; {(n_holders + n_corrupt) // 2 + 1} to {n_holders} shares must be "
            "needed",
        )


def check_ring(threshold: int, n_neighbours: int, least: int) -> None:
    """Refuse a ring of which those who work with the server could cut off a part.

    >>> check_ring(1, 0, 2)
    Traceback (most recent call last):
    catchment.errors.RuleError: 1 shares of 1 open a secret; in a ring of 0 neighbours 2 must be ...
    """
    if threshold < least:
        raise RuleError(
            "neighbours",
            f"{threshold} shares of {n_neighbours + 1} open a secret; in a ring of {n_neighbours} "
            f"neighbours {least} must be needed, or a few clients could be summed by themselves; "
            "ask for more neighbours",
        )


def check_rows(upload: object, *, rows_per_feature: float, min_clients: int) -> None:
    """Refuse to send statistics of so few rows that the cohort's sum may be too thin.

    With every client above `rows_per_feature * features / min_clients` and at least `min_clients`
    of them, the sum has `rows_per_feature` rows per feature, and no client needs to know another's
    count. Values that do not count rows, or have no features, pass.

    >>> from catchment.readout.statistics import RidgeStatistics
    >>> check_rows(RidgeStatistics.zero(6, 1), rows_per_feature=20, min_clients=10)
    Traceback (most recent call last):
    catchment.errors.RuleError: too few rows for 6 features, this client sends 12 or more; ...
    """
    for found in measured(upload):
        n_features = found.sizes.get("features", 0)
        least = rows_per_feature * n_features / min_clients
        if not found.rows >= least:
            raise RuleError(
                "rows",
                f"too few rows for {n_features} features, this client sends {least:.0f} or more; "
                "collect more data before taking part, or use fewer features",
            )
