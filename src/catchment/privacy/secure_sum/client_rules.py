"""What a client of a secure sum refuses to do, whoever asks.

Each rule is checked by every client on its own, from the plan it agreed to, from its own data and
from what it remembers; none needs to know anything of another client's data. The rules on rows are
empirical: they guard against the reconstruction of sequences, not against tests of membership.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

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
    catchment.errors.RuleError: the round has 2 clients, this client asks for 3 or more
    """
    if n_clients < min_clients:
        raise RuleError(
            "clients",
            f"the round has {n_clients} clients, this client asks for {min_clients} or more",
        )


def check_threshold(threshold: int, n_neighbours: int) -> None:
    """Refuse a threshold with which a server could ask for both shares of one client.

    >>> check_threshold(5, 9)
    Traceback (most recent call last):
    catchment.errors.RuleError: 5 shares of 10 open a secret; more than half of them must be needed
    """
    if not n_neighbours + 1 < 2 * threshold:
        raise RuleError(
            "threshold",
            f"{threshold} shares of {n_neighbours + 1} open a secret; "
            "more than half of them must be needed",
        )


def check_rows(upload: object, *, rows_per_feature: float, min_clients: int) -> None:
    """Refuse to send statistics of so few rows that the cohort's sum may be too thin.

    With every client above `rows_per_feature * features / min_clients` and at least `min_clients`
    of them, the sum has `rows_per_feature` rows per feature, and no client needs to know another's
    count. Values that do not count rows, or have no features, pass.

    >>> from catchment.readout.statistics import RidgeStatistics
    >>> check_rows(RidgeStatistics.zero(6, 1), rows_per_feature=20, min_clients=10)
    Traceback (most recent call last):
    catchment.errors.RuleError: 0 rows for 6 features, this client sends 12 or more; collect ...
    """
    for found in measured(upload):
        n_features = found.sizes.get("features", 0)
        least = rows_per_feature * n_features / min_clients
        if not found.rows >= least:
            raise RuleError(
                "rows",
                f"{found.rows} rows for {n_features} features, this client sends {least:.0f} or "
                "more; collect more data before taking part, or use fewer features",
            )


def check_cohort(now: Collection[str], past: Iterable[Collection[str]], min_clients: int) -> None:
    """Refuse a cohort whose sum, compared with an earlier one, tells of too few clients.

    Cohorts must be equal, have nobody in common, or differ by `min_clients` clients or more.

    >>> check_cohort("abc", ["abc", "def"], 3)
    >>> check_cohort("abc", ["abcd"], 3)
    Traceback (most recent call last):
    catchment.errors.RuleError: this cohort differs from an earlier one by 1 client, which ...
    """
    for before in map(set, past):
        changed = len(before.symmetric_difference(now))
        if changed and changed < min_clients and before.intersection(now):
            raise RuleError(
                "cohort",
                f"this cohort differs from an earlier one by {changed} "
                f"client{'s' * (changed > 1)}, which two sums would give away; ask the same "
                f"clients again, or {min_clients} others",
            )
