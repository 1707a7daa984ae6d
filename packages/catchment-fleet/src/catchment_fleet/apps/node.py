"""A node's half of a plan file: its name, its own files, and what it answers with them.

The node config says all that a node must know:

    name                    what the client is called; by default as its keys say
    data                    path or pattern of its own files, CSV, Parquet or npz
    device                  address of a device that has the data, in their place: this node is its
                            gateway, see docs/guides/edge.md
    keys                    its folder of keys, as `catchment flower keys` makes it
    identities, memory      public keys of all clients, and a private folder; by default in `keys`
    model                   folder for the latest model; by default in `keys`, else in Flower's home
    plan                    a plan of its own to hold the server to; by default the app's
    test                    whether it only tests, in plans that test whole clients
    policy                  what its owner allows; by default `policy.toml` in `keys`
    allow-plain-statistics  the same as clear = true in that file

What the owner does not allow is refused before anything of the data is read, see
`catchment_fleet.apps.guard`. Secure aggregation and noise need a memory that lasts, `keys` or
`memory`: what was released must not be forgotten. A simulated node, with a `partition-id`, does
without.

Without `data` a node takes one client of the plan's own source: the one of its name, or that of its
`partition-id`.

The model that a node was given is in a folder, or in what it remembers of the run:

    model.safetensors   the latest model, for `catchment predict` on this machine
    model.json          which plan and which run it is from, and its SHA-256

Each file is written whole or not at all, the description last; a model whose SHA-256 is not the
one described is never used for a test.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from catchment.data import ALL, Cached, Recording, Units, units_of_files
from catchment.engine import data_of
from catchment.errors import RuleError
from catchment.federation import (
    DELIVERY,
    EVALUATION,
    LEARNING,
    TRAINING,
    Memory,
    Node,
    not_given,
    sha256_of,
)
from catchment.federation.runs import MODEL
from catchment.plans import (
    Files,
    OwnFiles,
    PlanData,
    PlanFile,
    own_data,
    own_files,
    read_plan,
)
from catchment.plugins import plugin
from catchment.privacy import Policy, PrivacyLedger, check_floors, check_memory, policy_of
from catchment.readout import Predictor, load
from catchment.wire import replace_file
from catchment_fleet.apps import guard
from catchment_fleet.apps.agreement import Agreement, agreement

ABOUT = "model.json"
KEY = "model"
Config = Mapping[str, bool | float | int | str]
log = logging.getLogger(__name__)

OWN = "name data device keys identities memory model plan test policy allow-plain-statistics"
KNOWN = (*OWN.split(), "partition-id", "num-partitions")


@dataclass(frozen=True)
class ModelFolder:
    """A folder with the latest model.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     ModelFolder(Path(place) / "model").keep(b"content", {"run": "1"})
    ...     sorted(path.name for path in (Path(place) / "model").iterdir())
    ['model.json', 'model.safetensors']
    """

    folder: Path

    def keep(self, content: bytes, about: Mapping[str, str]) -> None:
        """Put a model in the place of the one before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_file(self.folder / MODEL, content)
        described = {**about, "sha256": sha256_of(content)}
        replace_file(self.folder / ABOUT, (json.dumps(described, indent=2) + "\n").encode())

    def model(self, sha256: str) -> Predictor:
        """Return the model, if it is the one of this SHA-256."""
        path = self.folder / MODEL
        return _opened(path.read_bytes() if path.is_file() else b"", sha256)


@dataclass(frozen=True, eq=False)
class Remembered:
    """What a simulated client remembers, which lasts as long as its run."""

    memory: Memory

    def keep(self, content: bytes, about: Mapping[str, str]) -> None:
        self.memory[KEY] = content

    def model(self, sha256: str) -> Predictor:
        return _opened(self.memory.get(KEY, b""), sha256)


def _opened(content: bytes, sha256: str) -> Predictor:
    if sha256_of(content) != sha256:
        raise not_given()
    return load(content)


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
        if "device" in self.config and {"data", "test"} & set(self.config):
            raise ValueError(
                "the node config has a device, which has its own data and is not tested; leave out "
                "data and test"
            )

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
        if place is None or {"data", "device"} & set(self.config):
            raise ValueError('this node has no name; put one into its node config, name="ann"')
        names = self._shared.names
        if not 0 <= int(place) < len(names):
            raise ValueError(f"partition-id is {place}, the plan's data have {len(names)} clients")
        return names[int(place)]

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages in which the client has something to say; everyone is given the model."""
        if "device" in self.config:
            return (*LEARNING, DELIVERY)
        if self._own is None:
            return stages_of(self.name, self._shared)
        if not self._by_clients:
            return (*LEARNING, DELIVERY, EVALUATION)
        tests = self.config.get("test", False)
        return (DELIVERY, EVALUATION) if tests else (*LEARNING, DELIVERY)

    @property
    def place(self) -> ModelFolder:
        """Where the latest model is kept."""
        keys, home = self._path("keys"), os.environ.get("FLWR_HOME")
        beside = Path(home) if home else Path.home() / ".flwr"
        usual = keys / "model" if keys else beside / "catchment" / self.name
        return ModelFolder(self._path("model") or usual)

    @cached_property
    def agreed(self) -> Agreement:
        """What this node agrees to."""
        keys = self._path("keys")
        return agreement(
            self.file,
            identities=self._path("identities") or (keys / "identities.json" if keys else None),
            allow_plain_statistics=self.policy.clear,
        )

    @cached_property
    def policy(self) -> Policy:
        """What the node's owner allows; the default policy if there is no file of it."""
        return policy_of(self.config)

    def client(self, stage: str, request: bytes, memory: Memory) -> Node[Any, Any, Any]:
        """Return the client that answers a request of a stage; RuleError if it must not."""
        name, policy = self.name, self.policy
        own = self._path("plan")
        guard.check_plan(policy, self.file, own or self.plan, own=own is not None)
        agreed = self.agreed
        workflow = agreed.workflow
        check_floors(policy, workflow.protections)
        trains = TRAINING in self.stages or bool(guard.trained_with(memory, workflow))
        guard.check_noise(stage, workflow, trains=trains)
        check_memory(self.config, memory, workflow.protections)
        misfits = guard.Misfits(policy, memory, self.file.fingerprint)
        misfits.check()
        known = agreed.known(stage, request, name)
        place = guard.ModelGuard(
            self.place, workflow, known, self.file.algorithm, memory, agreed.use
        )
        plan = agreed.allowed(stage, workflow.plan(stage, known, place))
        plan = guard.guarded(plan, policy, workflow, memory)
        if stage == TRAINING:
            guard.remember_training(memory, workflow, known)

        def data() -> Iterable[Recording]:
            if stage == TRAINING and self.file.algorithm in guard.UNCOUNTED:
                found = list(data_at(stage, name, self._held))
                guard.check_rows(policy, plan, workflow, known, found)
                return found
            return data_at(stage, name, self._held)

        # The answer to a delivery tells nothing of the data.
        units = ALL if self._own is None else lambda: self._units
        ledger = None if stage == DELIVERY else PrivacyLedger(memory, policy, units)
        if "device" in self.config:
            device_of = plugin("engines", "device", needed_for="devices")
            device = device_of(str(self.config["device"])).within(workflow)
            return Node(name, plan, device, memory, ledger, misfits)
        return Node(name, plan, data, memory, ledger, misfits)

    @cached_property
    def _own(self) -> Files | None:
        """Where the node's own files are, if it has any."""
        return own_files(self.file, str(self.config["data"])) if "data" in self.config else None

    @cached_property
    def _units(self) -> Units:
        """The units of the node's own files, before a plan has chosen anything of them."""
        assert self._own is not None
        paths, own = replace(self._own, leave_out=()).paths(Path()), self.policy.data
        with said_by_the_log():
            return units_of_files(paths, own.parts, own.date)

    @property
    def _by_clients(self) -> bool:
        """Whether whole clients are kept for the test."""
        return self.file.sharing.tests_of(self.file.about()) == "clients"

    @cached_property
    def _shared(self) -> PlanData:
        """All clients of the plan's own source."""
        own = {"plan", "partition-id"} & set(self.config)
        if isinstance(self.file.origin, Files) and not own:
            raise RuleError(
                "policy",
                "the plan names files, and this node none of its own; whoever wrote the plan does "
                'not choose what is read here: write data="*.csv" into the node config',
            )
        return self.file.load_data()

    @cached_property
    def _held(self) -> PlanData:
        """The node's own data, for training and for the test."""
        if self._own is None:
            return self._shared
        # Read after their digests are taken, and again once these are others.
        own = OwnFiles(self._own, self._units, said_by_the_log)
        held = own_data(self.file, {self.name: Cached(own)}, self.file.about())
        if not self._by_clients or TRAINING in self.stages:
            return held
        return replace(held, train={}, test=held.train)

    def _path(self, key: str) -> Path | None:
        return Path(str(self.config[key])) if key in self.config else None


@contextmanager
def said_by_the_log() -> Iterator[None]:
    """Tell the node's log what is wrong with its files, and the server only that something is.

    The words may quote a cell, and the refusal goes to a server that chose the column.
    """
    try:
        yield
    except ValueError as error:
        log.error("this node's data do not fit the plan: %s", error)
        raise guard.misfit() from None


def stages_of(name: str, held: PlanData) -> tuple[str, ...]:
    """Return the stages in which a client has something to say, by the data that all hold."""
    trains = LEARNING if name in held.train else ()
    return (*trains, DELIVERY, *((EVALUATION,) if name in held.test else ()))


def data_at(stage: str, name: str, held: PlanData) -> Iterable[Recording]:
    """Return a client's raw data at a stage."""
    part = held.at(stage)
    if name not in part:
        raise ValueError(f"{name} takes no part in {stage}; its data are for other stages")
    return data_of(part[name])()
