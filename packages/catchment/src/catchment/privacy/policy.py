"""What the owner of a client allows, whatever a plan or a server asks for.

Statistics leave a client in the clear only when that was asked for, and never when thin: whoever
runs a plan over a network, server or client, passes it through `networked` first. In a simulation
within one process nothing leaves anyone, and plans run as they are. What a node's own policy asks
of the protections of a plan, and of its memory, comes on top.
"""

from __future__ import annotations

import re
import tomllib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_type_hints

from catchment.arrays import (
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Probability,
    check_fields,
    check_type,
)
from catchment.data.units import PartsBy
from catchment.errors import RuleError, nearest
from catchment.federation.algorithm import Memory, RoundContext, Upload
from catchment.federation.plan import Plan, R, S, U
from catchment.federation.protection import Protection
from catchment.privacy.dp.noise import Records
from catchment.privacy.secure_aggregation.client_store import FileMemory
from catchment.privacy.secure_aggregation.protection import SecureAggregation
from catchment.wire import measured

Config = Mapping[str, bool | float | int | str]
Protections = Iterable[Protection]

NAME = "policy.toml"
FEWEST_ROWS_PER_FEATURE = 5.0
NOT_ANONYMOUS = (
    "statistics are not anonymous: a server that sees one client's own can rebuild its inputs when "
    "it has fewer rows than features, reads its class counts and class means, and can test "
    "whether a recording was used"
)


@dataclass(frozen=True, kw_only=True)
class OwnData:
    """What the owner of a node says about its files.

    Parameters
    ----------
    parts
        What has an account of its own in the ledger: "all" the node's files together, each "file",
        each "folder", or each day of a column of dates ("date"). All exact releases of a part go
        with one set of clients and with the same other parts, all noise about it adds up, and once
        released it must not change. Files that come later are parts of their own with "file".
    date
        That column, as text that begins with 2026-01-31 or as dates.
    inputs, label, target, time, recording
        The columns that a plan must name as these; any if not given. An empty text is for none.

    >>> OwnData(time="t").differs({"time": "y"})
    "time = 'y', and [data] in this node's policy.toml has 't'"
    """

    parts: PartsBy = "all"
    date: str = ""
    inputs: tuple[str, ...] | None = None
    label: str | None = None
    target: tuple[str, ...] | None = None
    time: str | None = None
    recording: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if (self.parts == "date") != bool(self.date):
            raise ValueError(
                f"parts is {self.parts!r} and date is {self.date!r}; a column of dates goes with "
                'parts = "date"'
            )

    def differs(self, plan: Mapping[str, tuple[str, ...] | str | None]) -> str:
        """Return in which column a plan reads the data otherwise, and how; nothing if in none."""
        for name, asked in plan.items():
            wanted = getattr(self, name)
            if wanted is not None and _names(wanted) != _names(asked):
                return f"{name} = {asked!r}, and [data] in this node's policy.toml has {wanted!r}"
        return ""


def _names(columns: tuple[str, ...] | str | None) -> tuple[str, ...]:
    found = (columns,) if isinstance(columns, str) else columns or ()
    return tuple(one for one in found if one)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A client's own limits on what is released of its data.

    Parameters
    ----------
    exact
        Sums without noise: only ever with the one set of clients of the first ("same clients"),
        with any ("any clients"), or not at all ("never"). Sums over different sets can be
        subtracted, and three sets are enough to be left with one client; no comparison of pairs
        prevents it.
    exact_sums
        How many sums without noise the same data may go into, in all plans together.
    changed_data
        Whether data may go into a sum that were released before and have changed since: the
        difference of the two sums may be of the new rows alone.
    epsilon, delta
        What all releases with noise together may tell; if not given, what the first plan with
        noise said.
    plans, signer
        Fingerprints of the plans that the client takes part in (`catchment flower fingerprint`),
        and the public Ed25519 key, in hexadecimal, of somebody whose signature under a plan
        (`catchment flower sign`) will do as well; any plan if neither is given.
    algorithms
        Names of the algorithms that it takes part in, as plans call them; all if empty.
    min_clients, rows_per_feature
        Least of either that a plan's secure aggregation, or its clear statistics, may ask for. The
        rows count for every upload, averages of weights and gradients too.
    corrupt, min_share
        Least of either that a plan's secure aggregation may assume: the share of the registered
        clients that may work with a server that lies, and the share of them in a round. With 0 a
        plan gives up what protects from a server that shows clients different sets.
    clear
        Whether statistics may leave without secure aggregation.
    evaluations
        How many models the client scores: of each plan where `plans` or `signer` say which there
        are, and else of all plans together, which a server can vary at will. To be asked again for
        the same model, with the same data, is no new one: the answer is the same.
    score_rows
        Fewest rows behind a score. A score of one row is that row.
    misfits
        How many plans the node's data may not fit. Its refusal tells the server that they do not,
        and nothing else; after so many no other plan is tried.
    code, apps
        What a node runs: "mine", the library that is installed on it, with the plan that is sent;
        or "any" Python that the server sends. If apps are listed, by their SHA-256, these are run
        and no others.
    maps
        Feature maps of one's own, as `module:Class`, that a plan may have built here; those of the
        library always.
    data
        How the node's files are read, and what of them has an account of its own.

    >>> Policy(exact="never").exact
    'never'
    """

    exact: Literal["same clients", "any clients", "never"] = "same clients"
    exact_sums: NonNegativeInt = 200
    changed_data: bool = False
    epsilon: NonNegativeFloat | None = None
    delta: Probability | None = None
    plans: tuple[str, ...] = ()
    signer: str = ""
    algorithms: tuple[str, ...] = ()
    min_clients: PositiveInt = 3
    rows_per_feature: NonNegativeFloat = 2.0
    corrupt: Fraction = 0.2
    min_share: Fraction = 0.5
    clear: bool = False
    evaluations: NonNegativeInt = 1
    score_rows: PositiveInt = 10
    misfits: NonNegativeInt = 5
    code: Literal["mine", "any"] = "mine"
    apps: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()
    data: OwnData = field(default_factory=OwnData)

    def __post_init__(self) -> None:
        check_fields(self)
        if (self.epsilon is None) != (self.delta is None):
            raise ValueError(
                f"epsilon is {self.epsilon} and delta is {self.delta}; give both or neither"
            )
        hashes = {"plans": self.plans, "apps": self.apps, "signer": (self.signer or "0" * 64,)}
        for name, texts in hashes.items():
            for text in texts:
                if not re.fullmatch(r"[0-9a-f]{64}", text):
                    raise ValueError(
                        f"{name} has {text[:80]!r}; give 64 hexadecimal digits in small letters"
                    )


def template(*, min_clients: int = 10, rows_per_feature: float = 20.0) -> str:
    """Return a policy file that explains itself.

    >>> parse_policy(template(min_clients=5)).min_clients
    5
    """
    text = Path(__file__).with_name(NAME).read_text(encoding="utf-8")
    return text.format(min_clients=min_clients, rows_per_feature=float(rows_per_feature))


def read_policy(path: str | Path) -> Policy:
    """Return the policy of a file; FileNotFoundError if there is none."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no policy {path}; check the path, or leave policy out")
    return parse_policy(path.read_text(encoding="utf-8"), str(path))


def parse_policy(text: str, name: str = NAME) -> Policy:
    """Return the policy of a text in TOML.

    >>> parse_policy('exact_sums = 3').exact_sums
    3
    >>> parse_policy('exact_sum = 3')
    Traceback (most recent call last):
    ValueError: policy.toml has no setting 'exact_sum'; did you mean 'exact_sums'?
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name} is not valid TOML: {error}") from error
    own = table.pop("data", {})
    try:
        if not isinstance(own, dict):
            raise ValueError(f"data is {own!r}; write a table, [data]")
        data = OwnData(**_settings(OwnData, own, f"[data] in {name}"))
        return Policy(**_settings(Policy, table, name), data=data)
    except ValueError as error:
        text = str(error)
        raise ValueError(text if name in text else f"{name}: {text}") from error


def _settings(kind: type[Policy | OwnData], table: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a table's settings as the policy has them; ValueError if one is of another type."""
    hints, known = get_type_hints(kind, include_extras=True), [one.name for one in fields(kind)]
    found = {}
    for key, value in table.items():
        if key not in known:
            raise ValueError(f"{name} has no setting {key!r}; {nearest(key, known)}")
        check_type(value, hints[key], key)
        found[key] = tuple(value) if isinstance(value, list) else value
    return found


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
    needed = any(one.hides or one.is_noise for one in protections)
    lasts = isinstance(memory, FileMemory) or "partition-id" in config
    if needed and not lasts:
        raise RuleError(
            "policy",
            "the plan has secure aggregation or noise, and this node has no folder to note "
            "releases in; name keys or memory in its node config",
        )
