"""Flower as an engine: the very same plan, its clients on other machines or in a Ray simulation."""

from __future__ import annotations

import os

from catchment.faces import face

# Both report their use to their makers unless told otherwise; what leaves a machine is for its
# owner to decide, who can set these before.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Ray warns that it will stop hiding GPUs from workers that asked for none; ours may see them.
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

__all__, __getattr__, __dir__ = face(__name__)
