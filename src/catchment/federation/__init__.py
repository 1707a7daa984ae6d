"""Federated training: a plan, one loop over its rounds, and whatever adds up over clients.

A `Plan` is what both sides agree on. `catchment.federation.learn` has the algorithms,
`catchment.federation.measure` what judges them. `Learner` says what an algorithm of one's own has.
A run keeps its ledger in a folder, which `read_run` and `explain` open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.federation.algorithm import Algorithm as Algorithm
    from catchment.federation.algorithm import Data as Data
    from catchment.federation.algorithm import Learner as Learner
    from catchment.federation.algorithm import Needs as Needs
    from catchment.federation.algorithm import Turn as Turn
    from catchment.federation.algorithm import as_algorithm as as_algorithm
    from catchment.federation.compression import FactorUpload as FactorUpload
    from catchment.federation.compression import Float32 as Float32
    from catchment.federation.course import Course as Course
    from catchment.federation.increments import ByRound as ByRound
    from catchment.federation.limits import Limits as Limits
    from catchment.federation.loop import Result as Result
    from catchment.federation.messages import Engine as Engine
    from catchment.federation.messages import Record as Record
    from catchment.federation.plan import Plan as Plan
    from catchment.federation.plan import Protection as Protection
    from catchment.federation.rounding import RoundedUpload as RoundedUpload
    from catchment.federation.rows import Rows as Rows
    from catchment.federation.running_sums import BLOCK as BLOCK
    from catchment.federation.runs.explain import explain as explain
    from catchment.federation.runs.read import messages_of as messages_of
    from catchment.federation.runs.read import read_run as read_run
    from catchment.federation.runs.write import Store as Store
    from catchment.federation.smallest_upload import SmallestUpload as SmallestUpload

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "algorithm": ["Algorithm", "Data", "Learner", "Needs", "Turn", "as_algorithm"],
        "compression": ["FactorUpload", "Float32"],
        "course": ["Course"],
        "increments": ["ByRound"],
        "limits": ["Limits"],
        "loop": ["Result"],
        "messages": ["Engine", "Record"],
        "plan": ["Plan", "Protection"],
        "rounding": ["RoundedUpload"],
        "rows": ["Rows"],
        "running_sums": ["BLOCK"],
        "runs.explain": ["explain"],
        "runs.read": ["messages_of", "read_run"],
        "runs.write": ["Store"],
        "smallest_upload": ["SmallestUpload"],
    },
)
