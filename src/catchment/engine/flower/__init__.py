"""Flower as an engine: the very same plan, its clients on other machines or in a Ray simulation."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from catchment.errors import MissingExtraError
from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.engine.flower.app import client_app as client_app
    from catchment.engine.flower.app import server_app as server_app
    from catchment.engine.flower.engine import FlowerEngine as FlowerEngine
    from catchment.engine.flower.simulation import fit_simulated as fit_simulated

if importlib.util.find_spec("flwr") is None:
    raise MissingExtraError("flower", needed_for="clients on other machines")

# Both report their use to their makers unless told otherwise; what leaves a machine is for its
# owner to decide, who can set these before.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Ray warns that it will stop hiding GPUs from workers that asked for none; ours may see them.
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "app": ["client_app", "server_app"],
        "engine": ["FlowerEngine"],
        "simulation": ["fit_simulated"],
    },
)
