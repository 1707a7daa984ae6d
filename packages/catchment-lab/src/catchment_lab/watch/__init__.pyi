from catchment_lab.watch.server import watching as watching
from catchment_lab.watch.state import Snapshot as Snapshot, look as look

# For the other packages and the tests; may change without notice.
from catchment_lab.watch.server import (
    HEADERS as HEADERS,
    MOST_STREAMS as MOST_STREAMS,
    Server as Server,
)
from catchment_lab.watch.state import Feed as Feed, REMOVED as REMOVED, judged as judged

__all__ = [
    "Snapshot",
    "look",
    "watching",
]
