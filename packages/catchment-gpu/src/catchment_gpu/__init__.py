"""The feature maps and their statistics on torch and CUDA, with the bits of the CPU."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
