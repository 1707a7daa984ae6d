"""Counting a model's errors on clients, one round: what its intervals are made of.

Like an evaluation, with counts of errors in the place of their sums. Counts are whole numbers, so a
secure sum of them is exact, and the server needs no more than that sum.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add

import numpy as np

from catchment.arrays import Array
from catchment.errors import FederationError, IntegrityError, UploadError
from catchment.federation.algorithm import Data, Turn
from catchment.federation.learn.ridge import RidgeState
from catchment.federation.measure.evaluation import targets_and_outputs
from catchment.readout.intervals import Intervals, checked_cuts, error_counts
from catchment.readout.model import Model
from catchment.readout.predictor import Predictor
from catchment.readout.quantiles import Counts
from catchment.readout.readout import Readout
from catchment.readout.ridge_choice import chosen_readout
from catchment.readout.storage import to_bytes
from catchment.wire import Parts


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How far a model's outputs lie from the targets of clients that it did not learn from.

    Clients prepare their raw recordings as the model says. A model's readout is sent with the
    request; of anything else clients are told which it is, and use what they were given. The server
    learns how each client's errors are distributed, or only their sum under a secure sum.

    Parameters
    ----------
    model
        What predicts numbers.
    edges
        Of the bins in which errors are counted.
    cuts
        Outputs at which a band ends that has a width of its own.
    rows
        How many rows are drawn of each client, so that all count alike; all rows if None.
    """

    model: Predictor
    edges: tuple[float, ...]
    cuts: tuple[float, ...] = ()
    rows: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "cuts", checked_cuts(self.cuts))
        if self.model.classes is not None:
            raise ValueError(
                "the model predicts classes, which have probabilities and no intervals; use "
                "Model.calibrated"
            )
        if self.rows is not None and self.rows < 1:
            raise ValueError(f"rows is {self.rows}; pass 1 or more of each client, or None for all")

    def start(self) -> Counts:
        return Counts.zero(self.edges, self.model.n_outputs * (len(self.cuts) + 1))

    def broadcast(self, state: Counts, turn: Turn) -> Parts:
        if isinstance(self.model, Model):
            return self.model.readout.parts()
        return Parts("calibrated", {"sha256": self._sha256})

    def client_update(self, received: Parts, data: Data, turn: Turn) -> Counts:
        model = self.model
        if isinstance(model, Model):
            model = replace(model, readout=Readout.from_parts(received))
        elif received.facts.get("sha256") != self._sha256:
            raise IntegrityError("the server calibrates another model than this client was given")
        targets, outputs = targets_and_outputs(model, data, turn.client)
        chosen = self._drawn(targets, turn)
        return error_counts(outputs[chosen], targets[chosen], self.edges, self.cuts)

    def _drawn(self, targets: Array, turn: Turn) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        known = np.flatnonzero(~np.isnan(targets).all(axis=1))
        if not len(known):
            raise ValueError("no row has a target; calibrate on clients with targets")
        if self.rows is None or len(known) <= self.rows:
            return known
        return turn.rng().choice(known, self.rows, replace=False)

    def read_update(self, parts: Parts, turn: Turn) -> Counts:
        counts = Counts.from_parts(parts)
        expected = self.start()
        if counts.edges != expected.edges or counts.counts.shape != expected.counts.shape:
            raise UploadError(
                "shape",
                f"counts of shape {counts.counts.shape} came, not {expected.counts.shape} over the "
                "agreed edges",
            )
        return counts

    def server_update(self, state: Counts, total: Counts, turn: Turn) -> Counts:
        return state + total

    def result(self, state: Counts) -> Intervals:
        return Intervals(state, self.cuts)

    @cached_property
    def _sha256(self) -> str:
        return hashlib.sha256(to_bytes(self.model)).hexdigest()


def without_each(state: RidgeState, n_folds: int) -> dict[tuple[str, ...], Readout]:
    """Return, by the clients of each fold, the readout of everybody else's statistics.

    The ridge is the one that all clients chose together. Statistics of the others are their sum, so
    that nothing of a fold is in its readout.

    Parameters
    ----------
    state
        What a training ended with, each client's statistics kept.
    n_folds
        How many parts the clients are divided into, in the order of their names.
    """
    by_client = state.by_client
    if state.readout is None or len(by_client) < 2:
        raise FederationError(
            f"the server keeps the statistics of {len(by_client)} clients apart, and two or more "
            "are needed to leave some out; calibrate on clients that did not train"
        )
    if n_folds < 2:
        raise ValueError(f"folds is {n_folds}; pass 2 or more")
    names = sorted(by_client)
    parts = [tuple(names[k::n_folds]) for k in range(min(n_folds, len(names)))]
    ridge, standardised = state.readout.ridge, state.standardised
    found = {}
    for part in parts:
        others = reduce(add, (by_client[name] for name in names if name not in part))
        found[part] = chosen_readout(others, ridge, standardise=standardised)[1]
    return found
