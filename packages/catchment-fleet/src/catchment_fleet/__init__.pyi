from catchment_fleet.parquet.clients import read_lake as read_lake

__all__ = [
    "read_lake",
]
