from catchment_fleet.parquet.clients import read_parquet as read_parquet

__all__ = [
    "read_parquet",
]
