"""Reservoirs: settings, weights, kernels, and the features made of their states."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
