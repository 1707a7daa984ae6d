from catchment_fleet.parquet.clients import (
    Lake as Lake,
    LakeClient as LakeClient,
    open_lake as open_lake,
    read_lake as read_lake,
    slow_parts as slow_parts,
)
from catchment_fleet.parquet.schemas import schemas_of as schemas_of
from catchment_fleet.parquet.storage import find_parquet as find_parquet

# For the other packages and the tests; may change without notice.
from catchment_fleet.parquet.held import HELD as HELD, Held as Held

__all__ = [
    "Lake",
    "LakeClient",
    "find_parquet",
    "open_lake",
    "read_lake",
    "schemas_of",
    "slow_parts",
]
