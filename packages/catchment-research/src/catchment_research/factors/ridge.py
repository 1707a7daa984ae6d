"""Exact federated ridge regression from QR factors: the readout of pooled rows, to their digits.

Every client sends a triangular factor of its own rows; the server merges them in the order of the
clients' names and solves (`catchment_research.factors.factors`). It is what `FederatedRidge` is for
the sums of products, with as many numbers sent, for data whose Gram matrix is beyond float64:
noise-free series, inputs that are not scaled. `upload=FactoredRidge` of `federate`, or
`algorithm = "factors"` in [learn] of a plan file, takes it.

The server sees each client's factors, which tell what its statistics tell, and no protection can
hide or change them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np

from catchment import Array
from catchment.errors import UploadError
from catchment.features import FeatureMap
from catchment.federation import (
    Algorithm,
    Data,
    Kept,
    Requirements,
    RoundContext,
    Tally,
    added_by_key,
    check_origin,
    check_statistics,
)
from catchment.federation.learn import (
    ALL,
    certified,
    check_choice,
    kept_and_removed,
    learned,
    left_out,
    readout_figures,
)
from catchment.federation.runs import Described, WithoutClient, refuse_sum
from catchment.readout import Model, Readout, RidgeChoice, solved_model
from catchment.wire import LATER, Message
from catchment_research.factors.factors import (
    NUMBERS,
    RidgeFactors,
    accumulate_factors,
    merged_factors,
)
from catchment_research.factors.solve import choose_by_factor_blocks, chosen_from_factors

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
    """The merged factors of all clients so far, each client's own where kept, and the readout."""

    total: RidgeFactors | None = None
    by_client: Mapping[str, RidgeFactors] = field(default_factory=dict)
    readout: Readout | None = None
    choice: RidgeChoice | None = None
    standardized: bool = False
    by_group: Annotated[Mapping[int, RidgeFactors], LATER] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FactoredRidge(Algorithm[FactoredState, Tally[RidgeFactors], Model]):
    """One round of QR factors, merged and solved at the server.

    Parameters
    ----------
    features
        Map from inputs to feature rows, the same on every client. Rows may lie in fixed point;
        their factors are float64 all the same.
    ridge, per_output, standardize, classes, intercept
        As for `FederatedRidge`. Ridges are tried that are ten powers of ten smaller.
    store_per_client
        Whether the server keeps each client's factors, as "leave-one-client-out" needs, and leaving
        a client out again does.

    >>> from catchment import EchoState, Plan, Recording, federate
    >>> features = EchoState(30, washout=20).build(1, per_step=True)
    >>> waves = {name: np.sin(np.arange(120.0) / k) for k, name in enumerate("abc", start=3)}
    >>> clients = {name: [Recording(u[:-1], u[1:])] for name, u in waves.items()}
    >>> run = federate(Plan(algorithm=FactoredRidge(features=features, ridge=1e-12)), clients)
    >>> run.state.total.n_rows, run.model.readout.n_outputs
    (297, 1)
    """

    features: FeatureMap
    ridge: float | Literal["auto", "leave-one-client-out", "gcv"] = "auto"
    per_output: bool = False
    standardize: bool | Literal["auto"] = "auto"
    classes: tuple[str, ...] | None = None
    store_per_client: bool = True
    intercept: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.ridge, self.store_per_client)

    @property
    def standardized(self) -> bool:
        """Whether the ridge acts on features divided by their spread."""
        return self.features.standardize if self.standardize == "auto" else self.standardize

    @property
    def requirements(self) -> Requirements:
        return Requirements(each_client=APART, unchanged=UNCHANGED)

    def start(self) -> FactoredState:
        return FactoredState()

    def client_update(self, received: Message, data: Data, context: RoundContext) -> RidgeFactors:
        return accumulate_factors(self.features, data())

    def read_update(self, parts: Message, context: RoundContext) -> Tally[RidgeFactors]:
        factors = RidgeFactors.from_message(parts)
        check_factors(
            factors,
            fingerprint=self.features.fingerprint,
            n_features=self.features.n_features,
            n_targets=len(self.classes) if self.classes else None,
            state_bound=self.features.bounds,
            constant=self.features.constant,
            one_hot=self.classes is not None,
        )
        return Tally.of(factors, context.client if self.store_per_client else "")

    def server_update(
        self, state: FactoredState, total: Tally[RidgeFactors], context: RoundContext
    ) -> FactoredState:
        by_client = added_by_key(state.by_client, total.by_client)
        whole = total.total if state.total is None else state.total + total.total
        return self.solved(FactoredState(whole, by_client))

    def solved(self, state: FactoredState) -> FactoredState:
        """Return the state with the ridge chosen and the readout solved from its factors."""
        if state.total is None:
            return state
        total, classes, divided = state.total, self.classes is not None, self.standardized
        how: Any = {"intercept": self.intercept, "per_output": self.per_output}
        ridge, blocks = left_out(self.ridge, state.by_client, state.by_group, classes=classes)
        choice = choose_by_factor_blocks(blocks, standardize=divided, **how) if blocks else None
        ridge = ridge if choice is None else choice.best
        found, readout = chosen_from_factors(
            total, ridge, classes=classes, standardize=divided, **how
        )
        return replace(state, readout=readout, choice=choice or found, standardized=divided)

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
        return Kept(rows, choice=state.choice)

    @classmethod
    def without_client(
        cls, told: Described, model: Model, parts: Message, client: str
    ) -> WithoutClient:
        """Return the model of a run without a client, the others merged anew."""
        ridge = cls(**{**told.settings, "features": model.features, "classes": model.classes})
        state = ridge.load_state(parts)
        refuse_sum(state.by_client, client)
        kept, removed = kept_and_removed(state.by_client, client)
        rest = ridge.solved(FactoredState(merged_factors(kept), kept))
        assert state.total is not None
        assert rest.total is not None
        about = (removed.fingerprint, removed.n_rows)
        ends = (state.total, rest.total, removed)
        certificate = certified(client, ALL, *ends, "summed-anew", *about)
        return WithoutClient(ridge.result(rest), certificate)

    def alone(self, state: FactoredState) -> FactoredRidge:
        """Return the algorithm with the ridge that was chosen: alone, nobody can be left out."""
        if state.choice is None:
            return self
        return replace(self, ridge=state.choice.best)  # type: ignore[arg-type]


def check_factors(
    factors: RidgeFactors,
    *,
    fingerprint: str,
    n_features: int | None = None,
    n_targets: int | None = None,
    state_bound: float | Array | None = None,
    constant: bool = False,
    one_hot: bool = False,
) -> None:
    """Raise UploadError, with a code of its own, for factors that no data can have.

    A triangle with a diagonal that is not negative is a factor of some rows; what its rows amount
    to is checked as statistics are.

    Parameters
    ----------
    fingerprint, n_features, n_targets, state_bound, constant, one_hot
        As for `check_statistics`.

    >>> factors = RidgeFactors.from_states(np.eye(3), np.ones((3, 1)), fingerprint="f")
    >>> check_factors(factors, fingerprint="f")
    >>> check_factors(factors, fingerprint="f", n_features=4)
    Traceback (most recent call last):
    catchment.errors.UploadError: 3 features came, 4 are planned
    """
    check_origin(factors, fingerprint, n_features, n_targets)
    numbers = [getattr(factors, name) for name in NUMBERS]
    if not all(np.isfinite(one).all() for one in numbers):
        raise UploadError("not-finite", "the factors hold NaN or infinite numbers")
    if (factors.inner.diagonal() < 0).any():
        raise UploadError("factors", "the diagonal of a factor cannot be negative")
    filled = any(one.any() for one in numbers)
    if filled and not (factors.n_rows > 0 and factors.weight > 0):
        raise UploadError(
            "count",
            f"{factors.n_rows} rows of weight {factors.weight:g} cannot have a factor that is not "
            "zero",
        )
    # Squares of what is beyond float64 are refused as not finite.
    with np.errstate(over="ignore", invalid="ignore"):
        statistics = factors.statistics
    check_statistics(
        statistics,
        fingerprint=fingerprint,
        state_bound=state_bound,
        constant=constant,
        one_hot=one_hot,
    )
