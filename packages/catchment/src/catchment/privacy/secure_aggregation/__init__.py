"""Secure aggregation: messages of which the server sees only the sum."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
