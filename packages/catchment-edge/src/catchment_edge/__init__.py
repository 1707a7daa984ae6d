"""Models and their training outside Python: ONNX files, and C for small devices."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
