"""Watch a run while it goes: a local page, metrics for operators, and logging to MLflow."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
