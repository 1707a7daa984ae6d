"""Plasticity of a drawn reservoir, adapted by the training clients together."""

from __future__ import annotations

from collections.abc import Mapping

from catchment.data import Recording
from catchment.engine import run_locally
from catchment.features import Reservoir
from catchment.federation import Plan, Record
from catchment.plugins import plugin
from catchment_lab.search.space import Adaptation


def adapt(
    reservoir: Reservoir, adaptation: Adaptation, clients: Mapping[str, list[Recording]]
) -> tuple[Reservoir, tuple[Record, ...]]:
    """Return the reservoir that clients adapted together, and the records of the rounds."""
    federated = plugin("plasticity", "fedip")
    algorithm = federated(reservoir=reservoir, rule=adaptation.rule)
    # A client whose plasticity diverges is refused; all must have answered.
    plan = Plan(algorithm=algorithm, rounds=adaptation.rounds, min_clients=len(clients))
    result = run_locally(plan, clients)
    return result.result, result.records
