from catchment_fleet.parquet.clients import read_parquet as read_parquet

# For the other packages and the tests; may change without notice.
from catchment_fleet.drop import Drop as Drop, drop_of as drop_of, drop_server as drop_server

__all__ = [
    "read_parquet",
]
