"""Models as C99 for small devices: one file and its header, without malloc."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
