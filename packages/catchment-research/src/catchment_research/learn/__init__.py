"""Ensembles, alignment, class weights, gradient steps and products over rounds."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
