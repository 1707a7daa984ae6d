"""The server's half of a plan file on Flower: that of `catchment run`, over a network.

The run's folder is that of `catchment run`: `catchment explain` and `catchment report` read it.
What only somebody with all data could say, such as baselines and a forecast, is not in it.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from catchment.federation import AnyPlan, Engine, Engines, RunFolder
from catchment.federation.runs import JOURNAL, MODEL, reported
from catchment.plans import PlanRun
from catchment.privacy import Journal
from catchment_fleet.apps.agreement import Agreement
from catchment_fleet.flower.app import needed
from catchment_fleet.flower.engine import FlowerEngine


@dataclass(frozen=True, eq=False)
class OverFlower(Engines):
    """The clients of a plan file behind one network."""

    agreed: Agreement
    base: FlowerEngine
    name: str = "flower"

    def allowed(self, stage: str, plan: AnyPlan) -> AnyPlan:
        return self.agreed.allowed(stage, plan)

    def engine(self, stage: str, plan: AnyPlan) -> Engine:
        return self.base.at(stage, fewest=needed(plan))


def serve_plan(agreed: Agreement, engine: FlowerEngine, folder: str | Path) -> Path:
    """Run a plan file on the clients of an engine, and return the path of the model.

    Parameters
    ----------
    agreed
        The plan and what else both sides know.
    engine
        Reaches the clients.
    folder
        Where the run is kept; one that was cut short there goes on after its last finished round.
    """
    file = agreed.file
    with ExitStack() as stack:
        store = RunFolder(folder, fingerprint=file.fingerprint, plan=file.text, resume=True)
        stack.enter_context(store)
        journal = None
        # A simulated client forgets its secrets with the simulation: its round begins anew.
        if file.is_secret and not agreed.simulated:
            journal = stack.enter_context(Journal(Path(folder) / JOURNAL))
        tell = stack.enter_context(reported(folder))
        engines = OverFlower(agreed, engine, watch=tell, journal=journal)
        plan_run = PlanRun(file, agreed.course, agreed.about, engines, store)
        plan_run.finish(plan_run.run())
    return Path(folder) / MODEL
