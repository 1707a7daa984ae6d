"""Ways to learn together: exact ridge, averages, ensembles, personal readouts."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
