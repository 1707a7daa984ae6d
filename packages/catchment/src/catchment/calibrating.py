"""`calibrate`: the verb by which a model learns how sure it is, from clients' errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import overload

from catchment.engine.local import Source, run_locally
from catchment.errors import FederationError
from catchment.federation.learn.ridge_state import RidgeState
from catchment.federation.measure.calibration import Calibration, without_each
from catchment.federation.plan import Plan
from catchment.federation.protection import Protection
from catchment.readout.intervals import error_edges
from catchment.readout.model import Model, PersonalModels
from catchment.run import Run

Protect = Sequence[Protection]


@overload
def calibrate(
    model: PersonalModels,
    clients: Mapping[str, Source],
    *,
    cuts: Sequence[float] = (),
    rows: int | None = None,
    protect: Protect = (),
    seed: int = 0,
    threads: int | None = None,
) -> PersonalModels: ...


@overload
def calibrate(
    model: Model | Run,
    clients: Mapping[str, Source],
    *,
    cuts: Sequence[float] = (),
    rows: int | None = None,
    protect: Protect = (),
    seed: int = 0,
    threads: int | None = None,
) -> Model: ...


def calibrate(
    model: Model | PersonalModels | Run,
    clients: Mapping[str, Source],
    *,
    cuts: Sequence[float] = (),
    rows: int | None = None,
    protect: Protect = (),
    seed: int = 0,
    threads: int | None = None,
) -> Model | PersonalModels:
    """Return the model with intervals, whose coverage comes from errors that clients counted.

    `Model.interval(outputs, coverage)` then uses them at any coverage, and so does `catchment
    predict`; they are saved with the model. Everything that leaves a client is how many of its
    errors lie in each bin, one round.

    Parameters
    ----------
    model
        What predicts numbers. A model is calibrated on clients that it did not learn from. A `Run`
        is calibrated on the clients that trained it, each by the readout of all others' sums, which
        the server makes from what it has, 32 groups of clients left out in turn.
    clients
        By name: recordings with targets, or a function that returns them.
    cuts
        Increasing outputs that divide them into bands, each with a width of its own: where errors
        grow with what is predicted, one width is too wide at one end and too narrow at the other.
    rows
        How many rows are drawn of each client. With 1, the coverage is promised for a row drawn of
        a new client; with all rows, which is what None means, it is that of most rows, about.
    protect
        Changes to what leaves a client, such as `SecureSum(keys)`.
    seed
        Names the rows that are drawn.
    threads
        All cores if None; the result does not depend on it.

    >>> import numpy as np
    >>> from catchment import NVAR, Recording, federate
    >>> rng = np.random.default_rng(0)
    >>> def machine():
    ...     wear = np.cumsum(rng.random(60))
    ...     return [Recording(wear + rng.normal(size=60), np.arange(60.0)[::-1])]
    >>> train, others = ({f"m{k}": machine() for k in range(n)} for n in (20, 40))
    >>> model = calibrate(federate(NVAR(3, order=1), train).model, others)
    >>> low, high = model.interval(model.predict(machine()[0]), coverage=0.9)
    >>> left = np.arange(60.0)[::-1, None]
    >>> bool(0.8 < np.mean((low <= left) & (left <= high)) <= 1.0)
    True
    """
    known = model.model if isinstance(model, Run) else model
    edges = tuple(error_edges(known.deviation).tolist())

    left_out = without_each(_trained_by(model, clients)) if isinstance(model, Run) else {}
    algorithm = Calibration(
        model=known, edges=edges, cuts=tuple(cuts), rows=rows, left_out=left_out
    )
    plan = Plan(algorithm=algorithm, protections=tuple(protect), seed=seed)
    found = run_locally(plan, clients, threads=threads).result
    if isinstance(known, PersonalModels):
        return replace(known, model=replace(known.model, intervals=found))
    return replace(known, intervals=found)


def _trained_by(run: Run, clients: Mapping[str, Source]) -> RidgeState:
    """Return the state of a run; ValueError if these are not the clients that trained it."""
    state = run.training.state
    if not isinstance(state, RidgeState):
        raise FederationError(
            f"{type(state).__name__} keeps no statistics by client; calibrate run.model on clients "
            "that did not train"
        )
    if state.by_client and (others := sorted(set(state.by_client) ^ set(clients))):
        raise ValueError(
            f"the run was trained by other clients than these, such as {others[0]!r}; pass those "
            "who trained, or run.model with clients that did not"
        )
    return state
