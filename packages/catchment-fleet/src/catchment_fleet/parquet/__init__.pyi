from catchment_fleet.parquet.clients import (
    ParquetClient as ParquetClient,
    ParquetClients as ParquetClients,
    read_parquet as read_parquet,
    slow_parts as slow_parts,
)
from catchment_fleet.parquet.index import schemas_of as schemas_of
from catchment_fleet.parquet.storage import find_parquet as find_parquet

# For the other packages and the tests; may change without notice.
from catchment_fleet.parquet.clients import HELD as HELD

__all__ = [
    "ParquetClient",
    "ParquetClients",
    "find_parquet",
    "read_parquet",
    "schemas_of",
    "slow_parts",
]
