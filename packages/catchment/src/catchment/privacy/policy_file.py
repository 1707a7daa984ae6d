"""A client's policy as a file of its owner: `policy.toml` beside the client's keys."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from catchment.privacy.policy import OwnData, Policy

NAME = "policy.toml"

TEMPLATE = """\
# What this node allows, whatever a plan or the server asks for. The file is the node's own: nobody
# else can change it. A line with a # before it shows the setting that holds without it.

# Plans that this node takes part in, by the fingerprint that `catchment flower fingerprint PLAN`
# prints, and the public key of somebody whose signature under a plan (`catchment flower sign`) will
# do as well. With neither, any plan that keeps the rest of this file.
# plans = []
# signer = ""
# algorithms = []              # names as in [learn], such as "ridge"; all if empty

# The least that a plan may ask for: clients in a sum, and rows for every feature.
min_clients = {min_clients}
rows_per_feature = {rows_per_feature}
# corrupt = 0.2                # share of all clients that may work with the server, at least
# min_share = 0.5              # share of all clients that a round must have
# clear = false                # true: statistics may leave without a secure sum

# Releases of this node's data, which it notes in its ledger (`catchment flower ledger`).
# exact = "same clients"       # sums without noise: "same clients", "any clients" or "never"
# exact_sums = 200             # how many of them, in all plans together
# changed_data = false         # true: data that were released may be released changed
# epsilon = 1.0                # what all releases with noise may tell; as the first plan said if
# delta = 1e-6                 # neither is given

# Scores of models.
# evaluations = 1              # models that are scored: of each plan if plans or signer is given,
#                              # else of all plans together
# score_rows = 10              # fewest rows behind a score

# Plans that these data may not fit. A refusal says that they do not, which is an answer, too.
# misfits = 5

# Code that runs here: "mine", the library installed on this node, with the plan that is sent; or
# "any" Python that the server sends. If apps are listed, these and no others are run, as they are;
# `catchment flower fingerprint APP` prints the SHA-256 of one.
# code = "mine"
# apps = []
# maps = []                    # feature maps of one's own that are built here, as "module:Class"

# This node's files. Each part has an account of its own in the ledger: "all" files are one, or each
# "file", each "folder", or each day of a column of dates (parts = "date"). What was released must
# not change: declare what comes later as parts. Columns that are named here are read in no other
# way: inputs = ["x"], label = "y", target = ["z"], time = "t", recording = "" (for none).
# [data]
# parts = "all"
# date = ""
"""


def template(*, min_clients: int = 10, rows_per_feature: float = 20.0) -> str:
    """Return a policy file that explains itself.

    >>> parse_policy(template(min_clients=5)).min_clients
    5
    """
    return TEMPLATE.format(min_clients=min_clients, rows_per_feature=float(rows_per_feature))


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
    ValueError: policy.toml has no setting 'exact_sum'; choose from exact, exact_sums, ...
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
    known = [field.name for field in fields(kind)]
    for key in table:
        if key not in known:
            raise ValueError(f"{name} has no setting {key!r}; choose from {', '.join(known)}")
    return {key: _typed(kind, key, value) for key, value in table.items()}


def _typed(kind: type[Policy | OwnData], key: str, value: object) -> Any:
    """Return a setting as the policy has it; ValueError if it is of another type."""
    default = getattr(kind, key)
    if isinstance(default, tuple) or (kind is OwnData and key in ("inputs", "target")):
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ValueError(f'{key} is {value!r}; give a list of texts, such as ["..."]')
        return tuple(value)
    if kind is OwnData:
        default = ""
    if default is None or isinstance(default, float):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{key} is {value!r}; give a number")
        return float(value)
    if type(value) is not type(default):
        wanted = {bool: "true or false", int: "a whole number", str: "a text"}[type(default)]
        raise ValueError(f"{key} is {value!r}; give {wanted}")
    return value
