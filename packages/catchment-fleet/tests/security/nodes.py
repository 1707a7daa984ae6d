"""Plan nodes with files, memories and policies of their own, and a server that picks its plans."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from catchment import Array
from catchment.features import FeatureMap
from catchment.federation import REFUSED, TRAINING, Engine, Memory, Reply, refusal, run
from catchment.plans import read_plan
from catchment.privacy import FileMemory, LedgerEntry, PrivacyLedger, new_identity
from catchment.readout import RidgeStatistics
from catchment_fleet.apps import PlanNode
from catchment_fleet.apps.agreement import agreement
from tests.security.fleet import stage_of

N_ROWS = 60
CLASSES = ("a", "b", "c")
PLAN = """
[data]
files = "*.csv"
inputs = ["x", "z"]
label = "c"
classes = ["a", "b", "c"]
per_step = true
time = "t"
[preprocessing]
scale = "none"
[features]
map = "nvar"
delays = 1
[learn]
ridge = 1.0
store_per_client = false
"""
SECURE = '[[protections]]\nname = "secure_aggregation"\nmin_clients = 5\nrows_per_feature = 2.0\n'
Lost = Callable[[str, str], bool]


def rows(seed: int, n: int = N_ROWS) -> list[str]:
    """Return the lines of a client's file; every column of numbers has all values once."""
    rng = np.random.default_rng(seed)
    t, x, y, z = np.arange(n), rng.permutation(n), rng.permutation(n), rng.permutation(n)
    days = [f"2026-01-{1 + k // 20:02d}" for k in range(n)]
    labels = rng.choice(CLASSES, n)
    return [f"{t[k]},{x[k] / n},{y[k] / n},{z[k] / n},{labels[k]},{days[k]}" for k in range(n)]


@dataclass(eq=False)
class Nodes:
    """Clients as their owners set them up; the server chooses the plan and whom it asks."""

    folder: Path
    n_clients: int = 7
    policy: str = ""
    names: list[str] = field(init=False)
    memories: dict[str, Memory] = field(init=False)

    def __post_init__(self) -> None:
        self.names = [f"c{k:02d}" for k in range(self.n_clients)]
        self.memories = {name: FileMemory(self.folder / "memories" / name) for name in self.names}
        keys = {name: new_identity(memory) for name, memory in self.memories.items()}
        (self.folder / "identities.json").write_text(json.dumps(keys))
        (self.folder / "policy.toml").write_text(self.policy)
        for k, name in enumerate(self.names):
            self.write(name, rows(k))

    def write(self, name: str, lines: Sequence[str], file: str = "log.csv") -> None:
        (self.folder / name).mkdir(exist_ok=True)
        (self.folder / name / file).write_text("\n".join(["t,x,y,z,c,day", *lines]) + "\n")

    def lines(self, name: str) -> list[str]:
        return (self.folder / name / "log.csv").read_text().splitlines()[1:]

    def append(self, name: str, line: str) -> None:
        with (self.folder / name / "log.csv").open("a") as file:
            file.write(f"{line}\n")

    def node(self, name: str, files: str = "*.csv") -> PlanNode:
        config = {
            "name": name,
            "data": str(self.folder / name / files),
            "identities": str(self.folder / "identities.json"),
            "memory": str(self.folder / "memories" / name),
            "policy": str(self.folder / "policy.toml"),
        }
        return PlanNode(config, self.folder / "plan.toml")

    def summed(
        self,
        text: str,
        names: Sequence[str] | None = None,
        *,
        lost: Lost = lambda stage, name: False,
        files: str = "*.csv",
    ) -> Any:
        """Return what the server reads of a plan's training over these clients."""
        (self.folder / "plan.toml").write_text(text)
        agreed = agreement(
            read_plan(self.folder / "plan.toml"), identities=self.folder / "identities.json"
        )
        known = agreed.workflow.start()
        plan = agreed.allowed(TRAINING, agreed.workflow.plan(TRAINING, known))
        line = Line(self, list(self.names if names is None else names), lost, files)
        self.refused = line.refused
        return run(plan, line, stage_inputs=known.parts()).state

    def entries(self, name: str) -> list[LedgerEntry]:
        return PrivacyLedger(self.memories[name]).entries()


@dataclass(eq=False)
class Line(Engine):
    """Letters to nodes; an answer that is lost was sent."""

    nodes: Nodes
    names: list[str]
    lost: Lost
    files: str
    refused: dict[str, str] = field(default_factory=dict)

    def clients(self) -> Sequence[str]:
        return self.names

    def ask(self, requests: Mapping[str, bytes]) -> Iterator[Reply]:
        for name, request in requests.items():
            try:
                node = self.nodes.node(name, self.files)
                answer = node.client(TRAINING, request, self.nodes.memories[name]).answer(request)
            except REFUSED as error:
                answer = refusal(error)
            is_lost = self.lost(stage_of(request), name)
            yield Reply(name, None, "lost") if is_lost else Reply(name, answer)


def numbers(total: RidgeStatistics) -> Array:
    """Return all numbers of some statistics in one vector."""
    found = (total.gram, total.cross, total.feature_sum, total.target_sum)
    return np.concatenate([np.asarray(one, dtype=float).ravel() for one in found])


@dataclass(frozen=True)
class Stranger(FeatureMap):
    """A map of a module that nodes can import, and that no policy names."""

    n_features: int = 1
    bounds = np.full(1, 1.0)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        return [np.zeros((1, self.n_features)) for _ in inputs]
