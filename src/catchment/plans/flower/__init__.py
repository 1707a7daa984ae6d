"""A plan file as a Flower app: its server, its nodes, and the folder that holds both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.plans.flower.app import client_of as client_of
    from catchment.plans.flower.app import server_of as server_of
    from catchment.plans.flower.scaffold import write_app as write_app
    from catchment.plans.flower.simulation import simulate_plan as simulate_plan

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "app": ["client_of", "server_of"],
        "scaffold": ["write_app"],
        "simulation": ["simulate_plan"],
    },
)
