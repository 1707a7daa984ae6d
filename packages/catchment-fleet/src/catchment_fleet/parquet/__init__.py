"""Clients of many Parquet files, each read when it is asked: a folder, a pattern, or a bucket."""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
