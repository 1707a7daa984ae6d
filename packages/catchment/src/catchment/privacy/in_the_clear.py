"""When statistics may leave a client in the clear: only when asked for, and never when thin.

Whoever runs a plan over a network, server or client, passes it through `networked` first. In a
simulation within one process nothing leaves anyone, and plans run as they are.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TypeVar

from catchment.errors import RuleError
from catchment.federation.algorithm import Turn, Upload
from catchment.federation.plan import Plan
from catchment.federation.protection import Protection
from catchment.privacy.dp.per_sequence import Records
from catchment.structure import measured

S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")

FEWEST_ROWS_PER_FEATURE = 5.0

NOT_ANONYMOUS = (
    "statistics are not anonymous: a server that sees one client's own can rebuild its inputs when "
    "it has fewer rows than features, reads its class counts and class means, and can test "
    "whether a recording was used"
)


class PlainStatisticsWarning(UserWarning):
    """Statistics leave clients in the clear, as was asked for."""


@dataclass(frozen=True, kw_only=True)
class PlainRules(Protection):
    """A client's refusal to send thin statistics in the clear; it changes nothing else.

    The rule is empirical. It guards against the reconstruction of sequences, not against class
    counts, class means or tests of membership, which every plain upload gives away.

    Parameters
    ----------
    rows_per_feature
        Fewest rows per feature in an upload, at least 5.
    """

    rows_per_feature: float = 20.0

    def __post_init__(self) -> None:
        if not self.rows_per_feature >= FEWEST_ROWS_PER_FEATURE:
            raise ValueError(
                f"rows_per_feature is {self.rows_per_feature}; below {FEWEST_ROWS_PER_FEATURE:g} "
                "statistics give sequences away, use a secure sum"
            )

    def on_client(self, upload: Upload, turn: Turn) -> Upload:
        """Return the upload itself, or raise RuleError if it is thin."""
        for n_rows, n_features in _rows_and_features(upload):
            if n_rows < self.rows_per_feature * n_features:
                raise RuleError(
                    "rows",
                    f"so few rows for {n_features} features would show what they were made "
                    f"from; in the clear this client sends {self.rows_per_feature:g} per feature "
                    "or more: use a secure sum",
                )
        return upload


def _rows_and_features(upload: Upload) -> list[tuple[float, int]]:
    """Return the rows behind each of an upload's statistics, and their features."""
    if not isinstance(upload, Records):
        return [(found.rows, found.sizes.get("features", 0)) for found in measured(upload)]
    counts = [found for one in upload.uploads() for found in measured(one)]
    if not counts:
        return []
    return [(sum(found.rows for found in counts), counts[0].sizes.get("features", 0))]


def networked(
    plan: Plan[S, U, R], *, allow_plain_statistics: bool = False, rows_per_feature: float = 20.0
) -> Plan[S, U, R]:
    """Return the plan as it may be run over a network.

    A plan with a secure sum is returned as it is. Any other is refused, unless plain statistics are
    allowed: then it comes back with `PlainRules` before its own protections, and a warning says
    what the server will be able to see.

    Parameters
    ----------
    allow_plain_statistics
        Whether the server may see each client's own upload.
    rows_per_feature
        Fewest rows per feature that a client then sends, at least 5.
    """
    if plan.masking is not None:
        return plan
    if not allow_plain_statistics:
        raise ValueError(
            f"the plan has no secure sum, and {NOT_ANONYMOUS}; add SecureSum to its protections, "
            "or pass allow_plain_statistics=True"
        )
    warnings.warn(NOT_ANONYMOUS, PlainStatisticsWarning, stacklevel=2)
    rules = PlainRules(rows_per_feature=rows_per_feature)
    return replace(plan, protections=(rules, *plan.protections))
