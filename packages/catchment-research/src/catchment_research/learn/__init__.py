"""Stacking, alignment, deep readouts and clusters of clients."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
