"""Clients of many Parquet files, each read when it is asked: a folder, a pattern, or a bucket."""

from __future__ import annotations

from catchment.errors import MissingExtraError

try:
    import pyarrow as pyarrow
except ImportError as error:
    raise MissingExtraError("frames", needed_for="Parquet files") from error
