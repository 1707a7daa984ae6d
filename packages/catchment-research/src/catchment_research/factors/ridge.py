"""Exact federated ridge regression from QR factors: the readout of pooled rows, to their digits.

Every client sends a triangular factor of its own rows; the server merges them in the order of the
clients' names and solves (`catchment_research.factors.factors`). It is what `FederatedRidge` is for
the sums of products, with as many numbers sent, for data whose Gram matrix is beyond float64:
noise-free series, inputs that are not scaled. `upload="factors"` of `federate`, or of [learn] in a
plan file, takes it.

The server sees each client's factors, which tell what its statistics tell, and no protection can
hide or change them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np

from catchment.errors import FederationError
from catchment.features import FeatureMap
from catchment.federation import Algorithm, Data, Kept, Needs, Tally, Turn, added_by_key, stretch
from catchment.federation.learn import (
    check_choice,
    kept_apart,
    learned,
    left_out,
    readout_figures,
)
from catchment.federation.measure import AnyFlag, loss_flags, rows_flags
from catchment.readout import Model, Readout, RidgeChoice, solved_model
from catchment.wire import LATER, Parts
from catchment_research.factors.accumulation import accumulate_factors
from catchment_research.factors.checks import check_factors
from catchment_research.factors.choice import choose_by_factor_blocks, chosen_from_factors
from catchment_research.factors.factors import RidgeFactors, merged_factors, without_each
from catchment_research.factors.solve import factor_errors, factor_scale, solve_factors

APART = (
    "QR factors are merged and do not add, so that nothing can hide them in a sum; use "
    "upload='statistics' (FederatedRidge), and scale the inputs"
)
UNCHANGED = (
    "QR factors are merged and do not add, and noise, caps and roundings are made for sums; leave "
    "the protection out, or use upload='statistics' (FederatedRidge)"
)


@dataclass(frozen=True, eq=False)
class FactoredState:
    """The merged factors of all clients so far, each client's own where kept, and the readout.

    `by_group` are those of groups of clients, where those are kept and no single clients.
    """

    total: RidgeFactors | None = None
    by_client: Mapping[str, RidgeFactors] = field(default_factory=dict)
    readout: Readout | None = None
    choice: RidgeChoice | None = None
    standardised: bool = False
    by_group: Annotated[Mapping[int, RidgeFactors], LATER] = field(default_factory=dict)

    @cached_property
    def flags(self) -> tuple[AnyFlag, ...]:
        """Clients that stand out, all of them in the merge; as `RidgeState` has them."""
        if self.readout is None:
            return ()
        losses = left_out_losses(self.by_client, self.readout.ridge, self.standardised)
        rows = {name: one.n_rows for name, one in self.by_client.items()}
        return (*loss_flags(losses), *rows_flags(rows))


@dataclass(frozen=True, kw_only=True)
class FactoredRidge(Algorithm[FactoredState, Tally[RidgeFactors], Model]):
    """One round of QR factors, merged and solved at the server.

    Parameters
    ----------
    features
        Map from inputs to feature rows, the same on every client. Rows may lie on a grid; their
        factors are float64 all the same.
    ridge, per_output, standardise, classes, intercept
        As for `FederatedRidge`. Ridges are tried that are ten powers of ten smaller.
    keep_clients
        Whether the server keeps each client's factors, as "clients" needs, and flagging and
        leaving a client out again do; or "groups", the merges of 32 groups of them.
    increments
        Rounds over which a client hands in its data, each time the next stretch of it.

    >>> from catchment import EchoState, Plan, Recording, federate
    >>> features = EchoState(30, washout=20).build(1, per_step=True)
    >>> waves = {name: np.sin(np.arange(120.0) / k) for k, name in enumerate("abc", start=3)}
    >>> clients = {name: [Recording(u[:-1], u[1:])] for name, u in waves.items()}
    >>> run = federate(Plan(algorithm=FactoredRidge(features=features, ridge=1e-12)), clients)
    >>> run.state.total.n_rows, run.model.readout.n_outputs
    (297, 1)
    """

    features: FeatureMap
    ridge: float | Literal["auto", "clients", "groups", "gcv"] = "clients"
    per_output: bool = False
    standardise: bool | Literal["auto"] = "auto"
    classes: tuple[str, ...] | None = None
    keep_clients: bool | Literal["groups"] = True
    increments: int = 1
    intercept: bool = True

    def __post_init__(self) -> None:
        check_choice(self.ridge, self.keep_clients)
        if type(self.increments) is not int or self.increments < 1:
            raise ValueError(
                f"increments is {self.increments!r}; pass a whole number from 1 on: clients that "
                "carry their state send statistics"
            )

    @property
    def standardised(self) -> bool:
        """Whether the ridge acts on features divided by their spread."""
        return self.features.standardise if self.standardise == "auto" else self.standardise

    @property
    def needs(self) -> Needs:
        return Needs(each_client=APART, rounds=self.increments, unchanged=UNCHANGED)

    def start(self) -> FactoredState:
        return FactoredState()

    def client_update(self, received: Parts, data: Data, turn: Turn) -> RidgeFactors:
        if self.increments == 1:
            return accumulate_factors(self.features, data())
        place = turn.round % self.increments
        share = place / self.increments, (place + 1) / self.increments
        part = stretch(data(), *share, washout=self.features.washout)
        return accumulate_factors(self.features, part)

    def read_update(self, parts: Parts, turn: Turn) -> Tally[RidgeFactors]:
        factors = RidgeFactors.from_parts(parts)
        check_factors(
            factors,
            fingerprint=self.features.fingerprint,
            n_features=self.features.n_features,
            n_targets=len(self.classes) if self.classes else None,
            state_bound=self.features.bounds,
            constant=self.features.constant,
            one_hot=self.classes is not None,
        )
        return kept_apart(factors, turn.client, self.keep_clients)

    def server_update(
        self, state: FactoredState, total: Tally[RidgeFactors], turn: Turn
    ) -> FactoredState:
        by_client = added_by_key(state.by_client, total.by_client)
        by_group = added_by_key(state.by_group, total.by_group)
        whole = total.total if state.total is None else state.total + total.total
        return self.solved(FactoredState(whole, by_client, by_group=by_group))

    def solved(self, state: FactoredState) -> FactoredState:
        """Return the state with the ridge chosen and the readout solved from its factors."""
        if state.total is None:
            return state
        total, classes, divided = state.total, self.classes is not None, self.standardised
        how: Any = {"intercept": self.intercept, "per_output": self.per_output}
        ridge, blocks = left_out(self.ridge, state.by_client, state.by_group, classes=classes)
        choice = choose_by_factor_blocks(blocks, standardise=divided, **how) if blocks else None
        ridge = ridge if choice is None else choice.best
        found, readout = chosen_from_factors(
            total, ridge, classes=classes, standardise=divided, **how
        )
        return replace(state, readout=readout, choice=choice or found, standardised=divided)

    def result(self, state: FactoredState) -> Model:
        readout = learned(state.readout)
        assert state.total is not None
        sums = state.total.statistics
        return solved_model(self.features, sums, readout, state.choice, classes=self.classes)

    def figures(self, state: FactoredState) -> dict[str, float]:
        """Return the rows, the ridge, the error it was chosen by, and the norm of the weights."""
        rows = {} if state.total is None else {"rows": float(state.total.n_rows)}
        return rows | readout_figures(state.readout, state.choice)

    def kept(self, state: FactoredState) -> Kept:
        rows = {name: one.n_rows for name, one in state.by_client.items()}
        return Kept(rows, state.flags, state.choice)

    def without(self, state: FactoredState, client: str) -> FactoredState:
        """Return the state as if a client had never been there: the others are merged anew.

        Nothing is subtracted. FederationError if the server kept no clients apart.
        """
        if client not in state.by_client:
            raise FederationError(
                f"{client!r} is not among the {len(state.by_client)} clients whose factors are "
                "kept; what was merged cannot be taken out again, so keep clients "
                "(keep_clients=True) or run again without it"
            )
        kept = {name: own for name, own in state.by_client.items() if name != client}
        if not kept:
            raise FederationError(f"{client} is the only client; without it there is no model")
        return self.solved(FactoredState(merged_factors(kept), kept))

    def alone(self, state: FactoredState) -> FactoredRidge:
        """Return the algorithm with the ridge that was chosen: alone, nobody can be left out."""
        if state.choice is None:
            return self
        return replace(self, ridge=state.choice.best)  # type: ignore[arg-type]


def left_out_losses(
    by_client: Mapping[str, RidgeFactors], ridge: float | np.ndarray[Any, Any], standardise: bool
) -> dict[str, float]:
    """Return each client's mean squared error under the readout solved without it.

    No client has more weight in a readout than the median one, as for statistics.
    """
    filled = {name: one for name, one in sorted(by_client.items()) if one.n_rows and one.weight > 0}
    if len(filled) < 2:
        return {}
    most = float(np.median([one.weight for one in filled.values()]))
    capped = {name: one.scaled(min(1.0, most / one.weight)) for name, one in filled.items()}
    scale = factor_scale(merged_factors(capped)) if standardise else None
    losses = {}
    for (name, mine), rest in zip(capped.items(), without_each(list(capped.values())), strict=True):
        readout = solve_factors(rest, ridge, scale=scale)
        squares = factor_errors(mine, [readout]).sum()
        losses[name] = float(squares / (mine.weight * mine.n_targets))
    return losses
