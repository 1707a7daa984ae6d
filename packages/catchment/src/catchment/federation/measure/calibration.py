"""Counting a model's errors on clients, one round: what its intervals are made of.

Like an evaluation, with counts of errors in the place of their sums. Counts are integers, so a
secure aggregation of them is exact, and the server needs no more than that sum.

Clients that trained can be asked, too: the server solves a readout without each group of clients
from the sums that it has (`without_each`), sends all of these, and every client takes the one that
it has no part in. Coverage is then no theorem, as the readouts are not the model's own (jackknife+
and CV+ promise 2 p - 1: Barber et al. 2021), and in practice about what is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np

from catchment.arrays import Array, PositiveInt
from catchment.errors import FederationError, IntegrityError, UploadError
from catchment.federation.algorithm import Algorithm, Data, RoundContext
from catchment.federation.learn.sums import RidgeState, V, group_of, group_sums, learned
from catchment.federation.learn.yule_walker import YuleWalkerState
from catchment.federation.loop import Result
from catchment.federation.measure.evaluation import targets_and_outputs
from catchment.readout.intervals import Counts, Intervals, error_counts, increasing
from catchment.readout.model import Model
from catchment.readout.predictor import Predictor
from catchment.readout.ridge_choice import chosen_readout
from catchment.readout.statistics import Readout
from catchment.readout.storage import to_bytes
from catchment.wire import Message


@dataclass(frozen=True, kw_only=True)
class Calibration(Algorithm[Counts, Counts, Intervals]):
    """How far a model's outputs lie from the targets of clients that it did not learn from.

    Clients prepare their raw recordings as the model says. A model's readout is sent with the
    request; of anything else clients are told which it is, and use what they were given. The server
    learns how each client's errors are distributed, or only their sum under secure aggregation.

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
    left_out
        By group of clients, the readout of all others, for clients that trained the model.
    """

    model: Predictor
    edges: tuple[float, ...]
    cuts: tuple[float, ...] = ()
    rows: PositiveInt | None = None
    left_out: Mapping[int, Readout] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "cuts", increasing(self.cuts))
        if self.model.classes is not None:
            raise ValueError(
                "the model predicts classes, which have probabilities and no intervals; use "
                "Model.calibrated"
            )

    def start(self) -> Counts:
        return Counts.zero(self.edges, self.model.n_outputs * (len(self.cuts) + 1))

    def broadcast(self, state: Counts, context: RoundContext) -> Message:
        if self.left_out:
            groups = sorted(self.left_out)
            W = np.stack([self.left_out[g].weights for g in groups])
            b = np.stack([self.left_out[g].intercept for g in groups])
            return Message("left-out-readouts", {"groups": groups}, (W, b))
        if isinstance(self.model, Model):
            return self.model.readout.parts()
        return Message("calibrated", {"sha256": self._sha256})

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Counts:
        model = self.model
        if isinstance(model, Model):
            sent = self._without(received, context.client) if self.left_out else None
            model = replace(model, readout=sent or Readout.from_message(received), statistics=None)
        elif received.facts.get("sha256") != self._sha256:
            raise IntegrityError("the server calibrates another model than this client was given")
        targets, outputs = targets_and_outputs(model, data, context.client)
        chosen = self._drawn(targets, context)
        return error_counts(outputs[chosen], targets[chosen], self.edges, self.cuts)

    @staticmethod
    def _without(received: Message, client: str) -> Readout:
        """Return the readout of a request that the client has no part in."""
        W, b = received.expect("left-out-readouts", 2).arrays
        groups, own = received.facts.get("groups"), group_of(client)
        if not isinstance(groups, list) or own not in groups or not len(groups) == len(W) == len(b):
            raise IntegrityError(f"no readout came without the group {own} of this client")
        return Readout(W[groups.index(own)], b[groups.index(own)])

    def _drawn(
        self, targets: Array, context: RoundContext
    ) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        known = np.flatnonzero(~np.isnan(targets).all(axis=1))
        if not len(known):
            raise ValueError("no row has a target; calibrate on clients with targets")
        if self.rows is None or len(known) <= self.rows:
            return known
        return context.rng().choice(known, self.rows, replace=False)

    def read_update(self, parts: Message, context: RoundContext) -> Counts:
        counts = Counts.from_message(parts)
        expected = self.start()
        if counts.edges != expected.edges or counts.counts.shape != expected.counts.shape:
            raise UploadError(
                "shape",
                f"counts of shape {counts.counts.shape} came, not {expected.counts.shape} over the "
                "agreed edges",
            )
        return counts

    def server_update(self, state: Counts, total: Counts, context: RoundContext) -> Counts:
        return state + total

    def result(self, state: Counts) -> Intervals:
        return Intervals(state, self.cuts)

    @cached_property
    def _sha256(self) -> str:
        return hashlib.sha256(to_bytes(self.model)).hexdigest()


def readouts_without_each(result: Result[Any, Any]) -> dict[int, Readout]:
    """Return, by group of clients, the readout of everybody else in a training."""
    state, plan = result.state, result.plan
    if not isinstance(state, YuleWalkerState):
        return without_each(state)
    learn: Any = plan.algorithm
    total: Any = state.total
    found = {}
    for group, own in _apart(group_sums(state.by_client)).items():
        made = learn.result(replace(state, total=total - own))
        found[group] = made.prepared_by(plan.preprocessing, plan.channels).readout
    return found


def without_each(state: RidgeState) -> dict[int, Readout]:
    """Return, by group of clients, the readout of everybody else's statistics.

    The ridge is the one that all clients chose together. The statistics of the others are their
    sum, so that nothing of a group is in its readout.

    Parameters
    ----------
    state
        What a training ended with, the statistics of clients or of groups of them kept.
    """
    by_group, ridge = _apart(state.by_group or group_sums(state.by_client)), learned(state.readout)
    found = {}
    for group in by_group:
        others = reduce(add, (s for other, s in by_group.items() if other != group))
        found[group] = chosen_readout(others, ridge.ridge, standardize=state.standardized)[1]
    return found


def _apart(by_group: Mapping[int, V]) -> Mapping[int, V]:
    """Return sums of groups, of which one can be left out."""
    if len(by_group) < 2:
        raise FederationError(
            f"the server keeps the sums of {len(by_group)} groups of clients apart, and two are "
            "needed to leave one out; calibrate on clients that did not train"
        )
    return by_group
