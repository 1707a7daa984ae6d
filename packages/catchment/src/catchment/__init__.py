"""Closed-form federated learning for time series: many owners keep their recordings, one model
learns from all of them, exactly, in one round.
"""

from __future__ import annotations

from catchment.faces import face

__version__ = "0.3.0"

__all__, _own, __dir__ = face(__name__)


def __getattr__(name: str) -> object:
    if name != "Encoder":
        return _own(name)
    from catchment.plugins import plugin

    return plugin("maps", "encoder", needed_for="encoders")
