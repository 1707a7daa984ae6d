"""A federation in which some clients have labels, and the others' rows are named by a model.

Clients with labels are summed as ever. In one further round everybody is sent the readout and the
sum that it was solved from; whoever has rows without a label adapts the readout to them
(`catchment.readout.adapt`), names them, and sends their sums as if the names were labels. These are
sums as any: they are hidden by secure aggregation, checked, kept by client where the server keeps
clients apart, and taken off again when a client is to be forgotten. Under secure aggregation each
round is of those who have rows for it, so that its floors hold for them; who takes part in which
tells who has labels.

What a client learns by it is the sum over those with labels. Where one of these is forgotten later,
the names that others gave by a model it was part of stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from catchment.errors import UploadError
from catchment.federation.algorithm import Data, RoundContext
from catchment.federation.learn.sums import read_shared, shared_message
from catchment.federation.messages import TURN
from catchment.federation.rows import targets_of
from catchment.readout.fixed_point import FixedPoint
from catchment.readout.statistics import RidgeStatistics
from catchment.wire import NOTHING, Message

if TYPE_CHECKING:
    from catchment.federation.learn.ridge import FederatedRidge
    from catchment.federation.learn.sums import RidgeState


def check_some_labels(ridge: FederatedRidge) -> None:
    """Raise ValueError if rows without labels cannot be named under these settings."""
    if ridge.classes is None or ridge.head is not None or ridge.increments != 1:
        raise ValueError(
            'labels is "some", which takes classes, no other head, and one round of sums; leave '
            "out head and increments"
        )


def check_turn(data: Data, context: RoundContext) -> None:
    """Raise UploadError unless a client has rows with labels, and after the first round without.

    Who has none sits out: a sum of zeros would count among the clients that a sum must be of.
    """
    targets = (np.array([[np.nan]]) if one.y is None else one.y for one in data())
    found = {bool(k) for y in targets for k in np.isnan(np.atleast_2d(y)).any(axis=1)}
    if (context.round > 0) not in found:
        which = "without" if context.round else "with"
        raise UploadError(TURN, f"the client has no row {which} a label; it sits this round out")


def letter(state: RidgeState, context: RoundContext) -> Message:
    """Return what clients are told: nothing at first, then the readout and its sum."""
    if context.round == 0 or state.readout is None or state.total is None:
        return NOTHING
    return shared_message(state.readout, state.total)


def named_sums(
    ridge: FederatedRidge, received: Message, data: Data, context: RoundContext
) -> RidgeStatistics:
    """Return the sums of a client's rows without labels, with the classes that the model names."""
    from catchment.readout.adapt import self_train

    features, K = ridge.features, len(ridge.classes or ())
    shared, total = read_shared(received, summed=True)
    assert total is not None
    prepared = list(data())
    rows = features.rows([one.u for one in prepared], threads=1)
    washout = features.washout if features.per_step else None
    z = [np.zeros((0, features.n_features))]
    for k, (recording, own) in enumerate(zip(prepared, rows, strict=True)):
        z.append(own[np.isnan(targets_of(recording, len(own), washout, k)).any(axis=1)])
    unlabeled = np.concatenate(z)
    found = self_train(total, shared, unlabeled, standardize=ridge.standardized)
    return RidgeStatistics.from_states(
        unlabeled,
        np.eye(K)[found.after],
        fingerprint=ridge.statistics_name,
        fixed=FixedPoint.of(features, classes=True),
    )
