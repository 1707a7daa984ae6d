"""How an upload is read: by the plan's algorithm, through every protection."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from catchment.errors import UploadError
from catchment.federation.algorithm import Additive, Turn
from catchment.federation.plan import Plan
from catchment.federation.protection import Read
from catchment.federation.sums import Tally
from catchment.structure import measured
from catchment.wire import Parts

S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")


def readers(plan: Plan[S, U, R]) -> list[Read]:
    """Return what reads an upload without protections, with the first, with the first two..."""
    read: list[Read] = [partial(_planned, plan)]
    for protection in plan.plain:
        read.append(partial(protection.read_update, inner=read[-1]))
    return read


def _planned(plan: Plan[S, U, R], parts: Parts, turn: Turn) -> Additive:
    """Return an upload as the algorithm reads it; UploadError if it has other targets."""
    update: Additive = plan.algorithm.read_update(parts, turn)
    if plan.n_targets is not None and not plan.needs.other_targets:
        # Of a client's tally the parts that are kept are what the total is.
        for found in measured(update.total if isinstance(update, Tally) else update):
            came = found.sizes.get("targets", plan.n_targets)
            if came != plan.n_targets:
                raise UploadError("shape", f"{came} targets came, {plan.n_targets} are planned")
    return update
