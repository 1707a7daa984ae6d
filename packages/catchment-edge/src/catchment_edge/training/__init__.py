"""Devices that train: C that sums a client's rows and answers the rounds of a plan."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
