"""Many machines: Flower, Ray, Parquet files, and their deployment."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
