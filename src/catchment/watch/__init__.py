"""Watch a run while it goes: a local page, metrics for operators, and logging to MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.watch.server import watching as watching
    from catchment.watch.state import Snapshot as Snapshot
    from catchment.watch.state import look as look
    from catchment.watch.track import log_run as log_run

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "server": ["watching"],
        "state": ["Snapshot", "look"],
        "track": ["log_run"],
    },
)
