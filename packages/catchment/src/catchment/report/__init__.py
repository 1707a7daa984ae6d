"""The report of a run: one HTML file that opens offline."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
