"""A node's half of a plan file: its name, its own files, and what it answers with them.

The node config says all that a node must know:

    name                    what the client is called; by default as its keys say
    data                    path or pattern of its own files, CSV, Parquet or npz
    keys                    its folder of keys, as `catchment flower keys` makes it
    identities, memory      public keys of all clients, and a private folder; by default in `keys`
    plan                    a plan of its own to hold the server to; by default the app's
    test                    whether it only tests, in plans that test whole clients
    allow-plain-statistics  whether it answers without a secure sum

Without `data` a node takes one client of the plan's own source: the one of its name, or that of its
`partition-id`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from catchment.data.recording import Recording
from catchment.data.scaling import Scaler
from catchment.engine.local import Source, data_of
from catchment.federation.client import Node
from catchment.federation.plan import Memory
from catchment.plans.data import PlanData, arrange
from catchment.plans.file import PlanFile, read_plan
from catchment.plans.flower.agreement import (
    EVALUATION,
    PLASTICITY,
    SCALING,
    TRAINING,
    Told,
    agreement,
    description,
)
from catchment.plans.sources import Table

Config = Mapping[str, bool | float | int | str]

TRAINS = (SCALING, PLASTICITY, TRAINING)
KNOWN = (
    "name",
    "data",
    "keys",
    "identities",
    "memory",
    "plan",
    "test",
    "allow-plain-statistics",
    "partition-id",
    "num-partitions",
)


@dataclass(frozen=True, eq=False)
class PlanNode:
    """One node of a plan file.

    Parameters
    ----------
    config
        Its node config.
    plan
        The app's plan, for nodes that have none of their own.
    """

    config: Config
    plan: Path

    def __post_init__(self) -> None:
        for key in self.config:
            if key not in KNOWN:
                raise ValueError(f"the node config has {key!r}; choose from {', '.join(KNOWN)}")

    @cached_property
    def file(self) -> PlanFile:
        return read_plan(self._path("plan") or self.plan)

    @cached_property
    def name(self) -> str:
        """What the client is called."""
        if "name" in self.config:
            return str(self.config["name"])
        keys = self._path("keys")
        if keys is not None:
            return str(json.loads((keys / "public.json").read_text(encoding="utf-8"))["name"])
        place = self.config.get("partition-id")
        if place is None or "data" in self.config:
            raise ValueError('this node has no name; put one into its node config, name="ann"')
        names = sorted({*self._shared.train, *self._shared.whole})
        if not 0 <= int(place) < len(names):
            raise ValueError(f"partition-id is {place}, the plan's data have {len(names)} clients")
        return names[int(place)]

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages in which the client has something to say."""
        if self._own is None:
            return stages_of(self.name, self._shared)
        if not self._by_clients:
            return (*TRAINS, EVALUATION)
        return (EVALUATION,) if self.config.get("test", False) else TRAINS

    def client(self, stage: str, attachment: bytes, memory: Memory) -> Node[Any, Any, Any]:
        """Return the client that answers a letter of a stage."""
        told = Told.from_bytes(attachment)
        keys = self._path("keys")
        agreed = agreement(
            self.file,
            identities=self._path("identities") or (keys / "identities.json" if keys else None),
            allow_plain_statistics=bool(self.config.get("allow-plain-statistics", False)),
        )
        name, scaling = self.name, self.file.sharing.scaling
        plan = agreed.plan(stage, told)
        return Node(
            name, plan, lambda: data_at(stage, name, self._held, scaling, told.scaler), memory
        )

    @cached_property
    def _own(self) -> Table | None:
        """Where the node's own files are, if it has any."""
        if "data" not in self.config:
            return None
        origin, split = self.file.origin, self.file.sharing.split
        if not isinstance(origin, Table):
            raise ValueError(
                f"the plan's data come from {self.file.source!r}, this node has files of its own; "
                'use source = "table", or leave out data'
            )
        if split not in (None, "natural"):
            raise ValueError(
                f"split is {split!r}, which deals all clients' data anew; no node can do that, "
                "leave it out"
            )
        return replace(origin, path=str(self.config["data"]))

    @property
    def _by_clients(self) -> bool:
        """Whether whole clients are kept for the test."""
        of = self.file.sharing.test_of
        return of == "clients" or (of is None and description(self.file)[1] is not None)

    @cached_property
    def _shared(self) -> PlanData:
        """All clients of the plan's own source."""
        return self.file.load_data()

    @cached_property
    def _held(self) -> PlanData:
        """The node's own data, for training and for the test."""
        if self._own is None:
            return self._shared
        sharing, washout = self.file.sharing, self.file.features.washout
        found = self._own.load(sharing.seed, None, Path())
        mine: dict[str, Source] = {self.name: lambda: list(_joined(found.clients))}
        whole = replace(found, clients=mine)
        if not self._by_clients:
            return arrange(whole, replace(sharing, split="natural"), washout=washout)
        trains = TRAINING in self.stages
        return PlanData(
            mine if trains else {},
            {} if trains else mine,
            found.channels,
            found.classes,
            found.horizon,
            sharing.test_after,
            washout,
        )

    def _path(self, key: str) -> Path | None:
        return Path(str(self.config[key])) if key in self.config else None


def stages_of(name: str, held: PlanData) -> tuple[str, ...]:
    """Return the stages in which a client has something to say, by the data that all hold."""
    trains = TRAINS if name in held.train else ()
    return trains + ((EVALUATION,) if name in held.whole else ())


def data_at(
    stage: str, name: str, held: PlanData, scaling: str, scaler: Scaler | None
) -> Iterable[Recording]:
    """Return a client's data at a stage: as they are before scaling, else scaled."""
    if stage != SCALING:
        if scaling == "federated" and scaler is None:
            raise ValueError("the plan scales by all clients' data, and no scaler came")
        held = held.scaled(scaling, scaler if scaling == "federated" else None)
    part = held.test if stage == EVALUATION else held.train
    if name not in part:
        raise ValueError(f"{name} takes no part in {stage}; its data are for other stages")
    return data_of(part[name])()


def _joined(clients: Mapping[str, Source]) -> Iterator[Recording]:
    """Yield the sequences of all files, in the order of their names."""
    for name in sorted(clients):
        yield from data_of(clients[name])()
