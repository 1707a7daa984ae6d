"""Partially trainable networks: the frozen part travels as a seed, only the rest is trained."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
