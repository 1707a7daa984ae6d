"""What a client's policy asks of the protections of a plan, and of its own memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from catchment.errors import RuleError
from catchment.federation.algorithm import Memory
from catchment.federation.protection import Masking, Protection
from catchment.privacy.dp.noise import GaussianNoise
from catchment.privacy.policy import Policy
from catchment.privacy.policy_file import NAME, read_policy
from catchment.privacy.secure_sum.client_store import FileMemory
from catchment.privacy.secure_sum.protection import SecureSum

Config = Mapping[str, bool | float | int | str]
Protections = Iterable[Protection]


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
    masks = [one for one in protections if isinstance(one, SecureSum)]
    if not masks and not policy.clear:
        raise RuleError(
            "policy",
            "the plan has no secure sum, and clear = false in this node's policy.toml: its "
            "statistics would leave in the clear; add a secure sum to the plan, or set clear = "
            "true",
        )
    for mask in masks:
        for name in ("min_clients", "rows_per_feature", "corrupt", "min_share"):
            asked, least = getattr(mask, name), getattr(policy, name)
            if asked < least:
                raise RuleError(
                    "policy",
                    f"the plan's secure sum has {name} = {asked:g}, this node's policy.toml asks "
                    f"for {least:g} or more; raise it in the plan",
                )


def check_memory(config: Config, memory: Memory, protections: Protections) -> None:
    """Raise RuleError if what is released would be noted where it does not last.

    A simulated node, which Flower gives a `partition-id`, does without.
    """
    needed = any(isinstance(one, Masking | GaussianNoise) for one in protections)
    lasts = isinstance(memory, FileMemory) or "partition-id" in config
    if needed and not lasts:
        raise RuleError(
            "policy",
            "the plan has a secure sum or noise, and this node has no folder to note releases in; "
            "name keys or memory in its node config",
        )
