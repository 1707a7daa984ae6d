from catchment.engine.contenders import (
    centralized as centralized,
    compare as compare,
    local_only as local_only,
)
from catchment.engine.local import LocalEngine as LocalEngine, run_locally as run_locally

# For the other packages and the tests; may change without notice.
from catchment.engine.local import (
    AnySource as AnySource,
    LocalClients as LocalClients,
    Source as Source,
    Workers as Workers,
    data_of as data_of,
)
from catchment.engine.processes import (
    ONE_THREAD as ONE_THREAD,
    batches as batches,
    sources_of as sources_of,
    sum_sources as sum_sources,
)

__all__ = [
    "LocalEngine",
    "centralized",
    "compare",
    "local_only",
    "run_locally",
]
