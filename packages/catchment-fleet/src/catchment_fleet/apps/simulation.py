"""A plan file in Flower's simulation: its clients on the cores of this machine, or of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from catchment.federation import Memory, Node
from catchment.plans import PlanData, PlanFile, client_memories, refuse_weeks
from catchment.privacy import new_identity
from catchment_fleet.apps.agreement import Agreement, refuse_folds
from catchment_fleet.apps.app import serve_plan
from catchment_fleet.apps.node import data_at, stages_of
from catchment_fleet.apps.places import Remembered
from catchment_fleet.flower.app import Terms, speak
from catchment_fleet.flower.roster import Order
from catchment_fleet.flower.simulation import remind, share, simulated


def simulate_plan(
    file: PlanFile,
    folder: str | Path,
    *,
    data: Path | None = None,
    cpus_per_client: float = 1.0,
    terms: Terms | None = None,
) -> Path:
    """Run a plan file on simulated clients, and return the path of the model.

    The model is that of `catchment run`, to the byte.

    Parameters
    ----------
    folder
        Where the run is kept; one that was cut short there goes on after its last finished round.
    data
        Directory of public data sets; the usual ones if not given.
    cpus_per_client
        Cores that a client occupies while it answers.
    terms
        How long to wait for clients.
    """
    refuse_folds(file)
    refuse_weeks(file)
    held = file.load_data(data)
    file.check_named(held.train)
    memories: Mapping[str, Memory] = {}
    if file.is_secret:
        memories = client_memories(Path(folder), held.names, secret=True)
    known = {name: new_identity(memory) for name, memory in memories.items()}
    agreed = Agreement(file, held.about, known, simulated=True, n_clients=len(held.train))
    plan_of_all = share(agreed)
    parts = {name: share((_only(held, name), dict(memories.get(name, {})))) for name in held.names}

    def serve(order: Order, name: str, memory: Memory) -> Node[Any, Any, Any]:
        mine, before = parts[name].get()
        remind(memory, before)
        plan = plan_of_all.get().plan(order.stage, order.request, name, Remembered(memory))
        return Node(name, plan, lambda: data_at(order.stage, name, mine), memory)

    speak()
    stages = {name: stages_of(name, held) for name in held.names}
    with simulated(
        serve, held.names, stages=stages, cpus_per_client=cpus_per_client, terms=terms
    ) as engine:
        return serve_plan(agreed, engine, folder)


def _only(held: PlanData, name: str) -> PlanData:
    """Return one client's share of the data."""
    train = {name: held.train[name]} if name in held.train else {}
    test = {name: held.test[name]} if name in held.test else {}
    return replace(held, train=train, test=test)
