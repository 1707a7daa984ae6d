"""Averages of the readouts that clients solve by themselves.

Eqs. 4-5 of Bacciu et al. (IJCNN 2021): each client solves W_c = (G_c + ridge_c I)^-1 C_c and the
server averages. Eq. 5 prints the weights 1 / N_c, which do not sum to 1 and favor small clients;
the text says by data size, N_c / sum N. It is not the readout of the pooled data, which
`FederatedRidge` gives in one round, and is here because that is what others do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from numpy.linalg import norm

from catchment.features.base import FeatureMap
from catchment.federation.algorithm import (
    Algorithm,
    Data,
    RoundContext,
    W,
    WeightedSum,
    Weighting,
    check_weight,
    client_weight,
)
from catchment.federation.learn.sums import learned
from catchment.readout.accumulation import accumulate
from catchment.readout.model import Model
from catchment.readout.ridge_choice import chosen_readout
from catchment.readout.statistics import Readout
from catchment.wire import Message, split


@dataclass(frozen=True, eq=False)
class Averaged:
    """The mean of the readouts."""

    readout: Readout | None = None


@dataclass(frozen=True, kw_only=True)
class ReadoutAveraging(Algorithm[Averaged, WeightedSum, Model]):
    """One round: the mean of the readouts that clients solve on their own data.

    The server sees each client's readout and its weight unless a protection hides them. Further
    rounds replace the mean by that of their cohort.

    Parameters
    ----------
    features
        Map from inputs to feature rows, the same on every client.
    ridge
        A number; or "gcv", by which each client chooses its own.
    weighting
        "samples" weighs a client by its rows, "uniform" each alike, and "printed" by one over its
        rows, as eq. 5 has it, divided by their sum (without that outputs only shrink: the classes
        with the largest scores are the same).
    classes
        Names of the outputs if they are classes.
    """

    features: FeatureMap
    ridge: float | Literal["gcv"] = 1e-6
    weighting: Weighting = "samples"
    classes: tuple[str, ...] | None = None

    def start(self) -> Averaged:
        return Averaged()

    def client_update(self, received: Message, data: Data, context: RoundContext) -> WeightedSum:
        statistics = accumulate(self.features, data(), threads=1)
        how: Any = {"classes": self.classes is not None, "threads": 1}
        how["standardize"] = self.features.standardize
        _, readout = chosen_readout(statistics, self.ridge, **how)
        weight = client_weight(self.weighting, statistics.weight)
        return WeightedSum.of((readout.weights, readout.intercept), weight)

    def read_update(self, parts: Message, context: RoundContext) -> WeightedSum:
        return read_readouts(WeightedSum.from_message(parts), self, context)

    def server_update(self, state: Averaged, total: WeightedSum, context: RoundContext) -> Averaged:
        weights, intercept = total.mean()
        return Averaged(Readout(weights, intercept))

    def result(self, state: Averaged) -> Model:
        return Model(self.features, learned(state.readout), self.classes)

    def figures(self, state: Averaged) -> dict[str, float]:
        readout = state.readout
        return {} if readout is None else {"weight norm": float(norm(readout.weights))}

    def load_state(self, parts: Message) -> Averaged:
        """Return the state that was kept; earlier versions kept two things more in it."""
        found = split(parts, "averaged").get("readout")
        return Averaged(None if found is None else Readout.from_message(found))


def read_readouts(update: W, plan: Any, context: RoundContext) -> W:
    """Return a weighted readout that came; UploadError if shape or weight are not the plan's."""
    K = len(plan.classes or range(sum(array.size for array in update.arrays[1:])))
    update.expect((plan.features.n_features, K), (K,))
    return check_weight(update, plan.weighting, context.client)
