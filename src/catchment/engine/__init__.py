"""Engines carry messages between a server and its clients: in this process, or over a network.

`run_locally` runs a plan with all clients in this process; `compare` trains several ways to learn
on the same clients. `catchment.engine.flower` carries the same messages to other machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.engine.contenders import centralised as centralised
    from catchment.engine.contenders import compare as compare
    from catchment.engine.contenders import guess as guess
    from catchment.engine.contenders import local_only as local_only
    from catchment.engine.contenders import trained as trained
    from catchment.engine.deadline import Deadline as Deadline
    from catchment.engine.local import LocalEngine as LocalEngine
    from catchment.engine.local import run_locally as run_locally
    from catchment.engine.processes import Processes as Processes

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "contenders": ["centralised", "compare", "guess", "local_only", "trained"],
        "deadline": ["Deadline"],
        "local": ["LocalEngine", "run_locally"],
        "processes": ["Processes"],
    },
)
