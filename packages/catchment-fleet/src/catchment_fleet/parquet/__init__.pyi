from catchment_fleet.parquet.clients import (
    Lake as Lake,
    LakeClient as LakeClient,
    read_lake as read_lake,
    slow_parts as slow_parts,
)
from catchment_fleet.parquet.schemas import schemas_of as schemas_of
from catchment_fleet.parquet.storage import find_parquet as find_parquet

# For the other packages and the tests; may change without notice.
from catchment_fleet.parquet.clients import HELD as HELD

__all__ = [
    "Lake",
    "LakeClient",
    "find_parquet",
    "read_lake",
    "schemas_of",
    "slow_parts",
]
