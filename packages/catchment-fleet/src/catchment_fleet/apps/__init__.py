"""A plan file as a Flower app: its server, its nodes, and the folder that holds both."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
