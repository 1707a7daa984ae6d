"""Flower as an engine: the very same plan, its clients on other machines or in a Ray simulation."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
