"""The trained part: statistics that add, their solution, and the model that comes of them.

`accumulate` makes `RidgeStatistics` of recordings, `solve` makes a `Readout` of statistics, and a
`Model` is a pipeline with a readout. Beside them: the choice of a ridge, metrics that add over
clients, streams, intervals, and files.
"""

from __future__ import annotations

from catchment.faces import face

__all__, __getattr__, __dir__ = face(__name__)
