"""Plasticity of a drawn reservoir, adapted by the training clients together."""

from __future__ import annotations

from collections.abc import Mapping

from catchment.data.recording import Recording
from catchment.engine.local import run_locally
from catchment.features.echo_state.reservoir import Reservoir
from catchment.federation.learn.plasticity import FederatedPlasticity
from catchment.federation.messages import Record
from catchment.federation.plan import Plan
from catchment.search.space import Adaptation


def adapt(
    reservoir: Reservoir, adaptation: Adaptation, clients: Mapping[str, list[Recording]]
) -> tuple[Reservoir, tuple[Record, ...]]:
    """Return the reservoir that clients adapted together, and the records of the rounds."""
    algorithm = FederatedPlasticity(reservoir=reservoir, rule=adaptation.rule)
    # A client whose plasticity diverges is refused; all must have answered.
    plan = Plan(algorithm=algorithm, rounds=adaptation.rounds, min_clients=len(clients))
    result = run_locally(plan, clients)
    return result.result, result.records
