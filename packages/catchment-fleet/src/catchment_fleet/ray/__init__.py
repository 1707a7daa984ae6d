"""Many clients on Ray: on all cores of this machine, or on a cluster by its address.

`RayWorkers` is what `federate(..., workers=RayWorkers())` takes: tasks of Ray add blocks of 256
clients in worker processes, and their sums come back. `ridge_statistics` is the same sum for
pipelines of Ray Data of your own.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
