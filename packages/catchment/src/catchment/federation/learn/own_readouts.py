"""Readouts that clients make from their own data: drawn to the shared one, or averaged.

With own statistics G_k, C_k and the shared readout W the way from shared to own is

    (G_k + strength I) W_k = C_k + strength W

which needs only the shared readout, and the client has that anyway. The constant counts as a
feature, so that the path begins at the shared readout itself. Where a ridge is to act on features
divided by their spread, all this happens to features divided by the client's own, which it knows.

How far to go is chosen on the client by leaving out segments of its own data: no step at all,
which is the shared readout, or else the smallest step whose error is within a standard error of
the best (the difference is taken segment by segment; Breiman et al., 1984, section 3.4.3). Later
data of a client are less like its earlier data than segments of these are like each other, so the
best step on segments goes too far, and can do harm.

`ReadoutAveraging` has each client solve W_c = (G_c + ridge_c I)^-1 C_c by itself, and the server
takes the mean (Bacciu et al., IJCNN 2021, eqs. 4-5). Eq. 5 prints the weights 1 / N_c, which do not
sum to 1 and favor small clients; the text says by data size, N_c / sum N. It is not the readout of
the pooled data, which `FederatedRidge` gives in one round, and is here because that is what others
do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge
from numpy.linalg import norm

from catchment.arrays import Array
from catchment.data.recording import Recording
from catchment.errors import UploadError
from catchment.features.base import FeatureMap
from catchment.federation.algorithm import (
    Algorithm,
    Data,
    Kept,
    Requirements,
    RoundContext,
    Tally,
    W,
    WeightedSum,
    Weighting,
    check_weight,
    client_weight,
)
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.learn.sums import RidgeState, learned, read_shared, shared_message
from catchment.federation.rows import N_BLOCKS, Rows, augmented
from catchment.readout.accumulation import accumulate
from catchment.readout.model import Model, PersonalModels
from catchment.readout.ridge_choice import chosen_readout
from catchment.readout.solve import for_raw_features, rescaled, scale_of
from catchment.readout.statistics import Readout, RidgeStatistics
from catchment.wire import GATHERED, NOTHING, Kind, Message, Structure, Summable, split

STRENGTHS = tuple(float(x) for x in np.geomspace(1e3, 1e-4, 15))


@dataclass(frozen=True, eq=False)
class Personal:
    """A readout of one's own, and the mean error of every step on left-out segments.

    `step` counts from 0, which is the shared readout.
    """

    readout: Readout
    step: int
    errors: Array  # (S,)


@dataclass(frozen=True, eq=False)
class OwnReadout(Structure):
    """What a client sends of the readout that it made for itself; step 0 is the shared one."""

    KIND: ClassVar[Kind] = Kind(
        "own-readout",
        "the readout that the client fitted to its own data, from the shared one on",
        (
            "a model of this one client's data, against which recordings can be tested",
            "whether its own readout was any better than the shared one",
        ),
    )

    readout: Readout
    step: int


@dataclass(frozen=True, eq=False)
class OwnReadouts(Summable):
    """Readouts gathered from several clients; adding puts them together."""

    by_client: Annotated[Mapping[str, OwnReadout], GATHERED] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PersonalState:
    """What the shared readout was solved from, and the readouts of the clients' own."""

    shared: RidgeState = field(default_factory=RidgeState)
    own: OwnReadouts = field(default_factory=OwnReadouts)


@dataclass(frozen=True, kw_only=True)
class PersonalReadouts(
    Algorithm[PersonalState, Tally[RidgeStatistics] | OwnReadouts, PersonalModels]
):
    """The exact shared readout, then a round in which every client makes one of its own from it.

    The readouts are gathered, so that one file serves every client by its name: the server sees
    each. Where they are to stay with the clients, `own_readout` makes them there.

    Parameters
    ----------
    ridge
        The shared readout.
    n_blocks
        Segments of a client's data that are left out in turn, to choose how far to go.

    >>> from catchment import EchoState
    >>> from catchment.engine.local import run_locally
    >>> from catchment.federation.plan import Plan
    >>> z = EchoState(10, washout=5).build(1, per_step=True)
    >>> wave = np.sin(np.arange(200) / 5)
    >>> clients = {f"x{k}": [Recording(wave[:-1], k * wave[1:])] for k in (1, 2, 3)}
    >>> plan = Plan(algorithm=PersonalReadouts(ridge=FederatedRidge(features=z)), rounds=2)
    >>> models = run_locally(plan, clients).result
    >>> [round(float(models.predict(wave, client=name)[-1, 0] / wave[-1])) for name in clients]
    [1, 2, 3]
    """

    ridge: FederatedRidge
    method: Literal["towards"] = "towards"  # the one way there is: plans and fingerprints name it
    n_blocks: Annotated[int, Ge(2)] = N_BLOCKS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ridge.carries:
            raise ValueError(
                'increments is "new", and clients that keep no old data have none to choose a '
                'readout of their own by; use algorithm = "ridge", or leave out increments'
            )

    @property
    def requirements(self) -> Requirements:
        gathered = "every client's own readout is gathered; use ridge, which shares one"
        return (
            Requirements(each_client=gathered, rounds=self.ridge.requirements.rounds + 1)
            | self.ridge.requirements
        )

    def _is_shared(self, context: RoundContext) -> bool:
        return context.round < self.ridge.requirements.rounds

    def start(self) -> PersonalState:
        return PersonalState()

    def broadcast(self, state: PersonalState, context: RoundContext) -> Message:
        if self._is_shared(context):
            return NOTHING
        return shared_message(learned(state.shared.readout))

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> RidgeStatistics | OwnReadout:
        if self._is_shared(context):
            return self.ridge.client_update(received, data, context)
        own = own_readout(
            self.ridge.features,
            read_shared(received)[0],
            list(data()),
            classes=self.ridge.classes is not None,
            standardize=self.ridge.standardized,
            n_blocks=self.n_blocks,
        )
        return OwnReadout(own.readout, own.step)

    def read_update(
        self, parts: Message, context: RoundContext
    ) -> Tally[RidgeStatistics] | OwnReadouts:
        if self._is_shared(context):
            return self.ridge.read_update(parts, context)
        own = OwnReadout.from_message(parts)
        shape, K = own.readout.weights.shape, len(self.ridge.classes or ())
        if shape != (self.ridge.features.n_features, K or shape[1]):
            raise UploadError("shape", f"a readout of shape {shape} came for another map")
        return OwnReadouts({context.client: own})

    def server_update(
        self,
        state: PersonalState,
        total: Tally[RidgeStatistics] | OwnReadouts,
        context: RoundContext,
    ) -> PersonalState:
        if isinstance(total, OwnReadouts):
            return replace(state, own=OwnReadouts({**state.own.by_client, **total.by_client}))
        return PersonalState(self.ridge.server_update(state.shared, total, context))

    def result(self, state: PersonalState) -> PersonalModels:
        readouts = {name: own.readout for name, own in state.own.by_client.items()}
        return PersonalModels(self.ridge.result(state.shared), readouts)

    def figures(self, state: PersonalState) -> dict[str, float]:
        """Return the figures of the shared readout, and how many clients left it."""
        moved = sum(own.step > 0 for own in state.own.by_client.values())
        own = {"moved clients": float(moved)} if state.own.by_client else {}
        return self.ridge.figures(state.shared) | own

    def kept(self, state: PersonalState) -> Kept:
        return self.ridge.kept(state.shared)


def own_readout(
    features: FeatureMap,
    shared: Readout,
    recordings: Sequence[Recording],
    *,
    classes: bool = False,
    standardize: bool | None = None,
    n_blocks: int = N_BLOCKS,
) -> Personal:
    """Return the readout that a client makes for itself from its prepared recordings.

    Its distance from the shared one is chosen on segments of the data that are left out in turn.

    Parameters
    ----------
    classes
        Whether errors are wrong classes, or else squared errors.
    standardize
        Whether features are divided by their spread first; as the map says if not given.
    n_blocks
        How many segments.
    """
    blocks = Rows.of(features, recordings).blocks(n_blocks)
    if len(blocks) < 2:
        raise ValueError(f"there are {len(blocks)} blocks; leaving one out needs at least 2")
    own = [block.statistics() for block in blocks]
    whole = reduce(add, own)
    scale = scale_of(whole, features.standardize if standardize is None else standardize)
    path = partial(towards, shared=shared, strengths=STRENGTHS, scale=scale)
    errors = np.array(
        [
            [_error(readout, block, classes) for readout in (shared, *path(whole - part))]
            for block, part in zip(blocks, own, strict=True)
        ]
    )
    rows = np.array([float(block.weight.sum()) for block in blocks])
    step = smallest_good_step(errors / rows[:, None], rows)
    readout = shared if step == 0 else path(whole)[step - 1]
    return Personal(readout, step, errors.sum(axis=0) / rows.sum())


def towards(
    own: RidgeStatistics, shared: Readout, strengths: Sequence[float], *, scale: Array | None = None
) -> list[Readout]:
    """Return the ridge readouts drawn to the shared one, one per strength.

    Parameters
    ----------
    own
        Statistics of the client.
    strengths
        Relative to the mean squared length of a feature column, so that 1 is an even pull.
    scale
        (F,) what features are divided by first; the readouts are for features as they are.

    >>> own = RidgeStatistics.from_states(np.array([[1.0], [-1.0]]), np.array([[2.0], [-2.0]]))
    >>> shared = Readout(np.array([[0.0]]), np.zeros(1))
    >>> [float(r.weights[0, 0].round(3)) for r in towards(own, shared, [1e9, 1.0, 1e-9])]
    [0.0, 1.0, 2.0]
    """
    if scale is not None:
        drawn_to = replace(shared, weights=shared.weights * scale[:, None])
        readouts = towards(rescaled(own, scale), drawn_to, strengths)
        return [for_raw_features(readout, scale) for readout in readouts]
    A, B = augmented(own)
    values, Q = np.linalg.eigh(A)
    values = np.maximum(values, 0.0)
    unit = float(np.trace(A)) / len(A)
    inner, anchor = Q.T @ B, Q.T @ np.vstack([shared.weights, shared.intercept])
    readouts = []
    for strength in strengths:
        pull = strength * unit
        solved = Q @ ((inner + pull * anchor) / (values + pull)[:, None])
        readouts.append(Readout(solved[:-1], solved[-1]))
    return readouts


def smallest_good_step(errors: Array, rows: Array) -> int:
    """Return the first step (of S) whose mean error is within a standard error of the best.

    Parameters
    ----------
    errors
        (B, S) mean errors of each block.
    rows
        (B,) rows in each.

    >>> smallest_good_step(np.array([[3.0, 2.0, 1.9], [3.1, 2.0, 2.1]]), np.array([5.0, 5.0]))
    1
    """
    best = int((rows @ errors).argmin())
    worse = errors - errors[:, [best]]
    spread = worse.std(axis=0, ddof=1) / np.sqrt(len(errors))
    good = worse.mean(axis=0) <= spread + 1e-12
    return min(best, int(good.argmax()))


def _error(readout: Readout, block: Rows, classes: bool) -> float:
    outputs = readout(block.z)
    if classes:
        return float(block.weight @ (outputs.argmax(axis=1) != block.y.argmax(axis=1)))
    return float(block.weight @ ((outputs - block.y) ** 2).sum(axis=1))


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
