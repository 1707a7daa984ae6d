"""Many clients on Ray: on all cores of this machine, or on a cluster by its address.

`RayWorkers` is what `federate(..., workers=RayWorkers())` takes; Ray Data carries blocks of 256
clients to worker processes, and their sums come back. With `tree=(3, 4)` servers below the server
add them first. `ridge_statistics` is the same sum for pipelines of Ray Data of your own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.engine.ray.aggregation import ridge_statistics as ridge_statistics
    from catchment.engine.ray.engine import RayEngine as RayEngine
    from catchment.engine.ray.workers import RayWorkers as RayWorkers

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "aggregation": ["ridge_statistics"],
        "engine": ["RayEngine"],
        "workers": ["RayWorkers"],
    },
)
