"""When statistics may leave a client in the clear: only when asked for, and never when thin.

Whoever runs a plan over a network, server or client, passes it through `networked` first. In a
simulation within one process nothing leaves anyone, and plans run as they are. What a node's own
policy asks of the protections of a plan, and of its memory, comes on top.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from catchment.errors import RuleError
from catchment.federation.algorithm import Memory, RoundContext, Upload
from catchment.federation.plan import Plan
from catchment.federation.protection import Protection
from catchment.privacy.dp.noise import GaussianNoise, Records
from catchment.privacy.policy import NAME, Policy, read_policy
from catchment.privacy.secure_aggregation.client_store import FileMemory
from catchment.privacy.secure_aggregation.protection import SecureAggregation
from catchment.wire import measured

S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")
Config = Mapping[str, bool | float | int | str]
Protections = Iterable[Protection]

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
                "statistics give recordings away, use secure aggregation"
            )

    def on_client(self, upload: Upload, context: RoundContext) -> Upload:
        """Return the upload itself, or raise RuleError if it is thin."""
        found = [(one.rows, one.sizes.get("features", 0)) for one in measured(upload)]
        if isinstance(upload, Records):  # all sequences of the client together
            apart = [one for record in upload.uploads() for one in measured(record)]
            features = apart[0].sizes.get("features", 0) if apart else 0
            found = [(sum(one.rows for one in apart), features)]
        for n_rows, n_features in found:
            if n_rows < self.rows_per_feature * n_features:
                raise RuleError(
                    "rows",
                    f"so few rows for {n_features} features would show what they were made "
                    f"from; in the clear this client sends {self.rows_per_feature:g} per feature "
                    "or more: add secure aggregation to the plan (by files with servers = 2), or "
                    "name a smaller map under [features]",
                )
        return upload


def networked(
    plan: Plan[S, U, R], *, allow_plain_statistics: bool = False, rows_per_feature: float = 20.0
) -> Plan[S, U, R]:
    """Return the plan as it may be run over a network.

    A plan with secure aggregation is returned as it is. Any other is refused, unless plain
    statistics are allowed: then it comes back with `PlainRules` before its own protections, and a
    warning says what the server will be able to see.

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
            f"the plan has no secure aggregation, and {NOT_ANONYMOUS}; add SecureAggregation to "
            "its protections, or pass allow_plain_statistics=True"
        )
    warnings.warn(NOT_ANONYMOUS, PlainStatisticsWarning, stacklevel=2)
    rules = PlainRules(rows_per_feature=rows_per_feature)
    return replace(plan, protections=(rules, *plan.protections))


def policy_of(config: Config, default: Policy | None = None) -> Policy:
    """Return the policy of a node by its node config: `policy`, or `policy.toml` in its `keys`.

    Parameters
    ----------
    default
        What holds where there is no such file.

    >>> policy_of({"allow-plain-statistics": True}).clear
    True
    """
    found = default or Policy()
    if "policy" in config:
        found = read_policy(str(config["policy"]))
    elif "keys" in config and (path := Path(str(config["keys"])) / NAME).exists():
        found = read_policy(path)
    return replace(found, clear=True) if config.get("allow-plain-statistics", False) else found


def check_floors(policy: Policy, protections: Protections) -> None:
    """Raise RuleError if protections ask for less than the owner of a node does."""
    masks = [one for one in protections if isinstance(one, SecureAggregation)]
    if not masks and not policy.clear:
        raise RuleError(
            "policy",
            "the plan has no secure aggregation, and clear = false in this node's policy.toml: its "
            "statistics would leave in the clear; add secure aggregation to the plan, or set "
            "clear = true",
        )
    for mask in masks:
        for name in ("min_clients", "rows_per_feature", "corrupt", "min_share"):
            asked, least = getattr(mask, name), getattr(policy, name)
            if asked < least:
                raise RuleError(
                    "policy",
                    f"the plan's secure aggregation has {name} = {asked:g}, this node's "
                    f"policy.toml asks for {least:g} or more; raise it in the plan",
                )


def check_memory(config: Config, memory: Memory, protections: Protections) -> None:
    """Raise RuleError if what is released would be noted where it does not last.

    A simulated node, which Flower gives a `partition-id`, does without.
    """
    needed = any(one.hides or isinstance(one, GaussianNoise) for one in protections)
    lasts = isinstance(memory, FileMemory) or "partition-id" in config
    if needed and not lasts:
        raise RuleError(
            "policy",
            "the plan has secure aggregation or noise, and this node has no folder to note "
            "releases in; name keys or memory in its node config",
        )
