"""Search over recipes, judged on validation clients; stopped and resumed at any time."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
