from catchment_lab.watch.server import Snapshot as Snapshot, look as look, watching as watching

# For the other packages and the tests; may change without notice.
from catchment_lab.watch.server import (
    Feed as Feed,
    HEADERS as HEADERS,
    Server as Server,
    judged as judged,
)

__all__ = [
    "Snapshot",
    "look",
    "watching",
]
