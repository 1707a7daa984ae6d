"""Differential privacy for any algorithm whose uploads are ridge statistics or weighted sums.

Every client shortens its vector to a public bound D (see `catchment.privacy.dp.clipping`), so that
the sum moves by at most D when a client is added or left out; noise of s D on every number of the
sum then gives the bound that `catchment.privacy.dp.gaussian` states. The noise is drawn in whole
multiples of a fine step, as the vectors are, from the operating system or a client's own
secret, and cannot be seeded.

The vectors of statistics in fixed point travel as the multiples themselves, and their noise is
discrete Gaussian, drawn exactly, central or not: a integer vector that one client moves by at most
Delta steps, with independent discrete Gaussian noise of parameter s Delta on every entry, is
1 / (2 s^2)-concentrated (Canonne, Kamath and Steinke, NeurIPS 2020, theorem 14), and s follows from
that. Of other vectors, central noise is a rounded normal.

Central noise is added once, by a server that sees the exact sum: it protects against everyone who
sees the model, not against the server. Distributed noise is added by the clients, each a share of
it, inside secure aggregation: the server sees the noisy sum only. With U clients in the sum, m of
whom may tell the server their noise, each adds discrete Gaussian noise of variance (s D)^2 / (U -
m) (Kairouz, Liu and Steinke, ICML 2021); a share is at least a million steps wide, where the
sum of discrete Gaussians is one to far beyond floating-point precision. A client enters what it
costs in its own ledger (`catchment.privacy.ledger`), which refuses what is too much whatever the
server says; its noise follows from a secret of its ledger, the session of secure aggregation and
the vector, so that a round that is resumed has the same noise, and nothing is left to average.

What is bounded is what the releases say about one client (or one recording), whatever else is
known. It is not a promise that nothing is learned about a population that the client belongs to.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from catchment.arrays import (
    Integers,
    NonNegativeFloat,
    PositiveInt,
)
from catchment.errors import FederationError, IntegrityError, TooFewClientsError, UploadError
from catchment.federation.algorithm import (
    Additive,
    Algorithm,
    Cost,
    Data,
    Kept,
    Requirements,
    RoundContext,
    Upload,
)
from catchment.federation.plan import Plan
from catchment.federation.protection import Masking, Protection, Read
from catchment.privacy.dp.budget import Budget
from catchment.privacy.dp.clipping import (
    LARGEST,
    Clip,
    Clipped,
    square_length,
    square_steps,
    step_name,
)
from catchment.privacy.dp.gaussian import (
    KeyedWords,
    Words,
    check_epsilon_delta,
    concentrated_multiplier,
    discrete_gaussian,
    gaussian_multiplier,
    rounded_normal,
)
from catchment.privacy.secure_aggregation.protection import SecureAggregation
from catchment.readout.statistics import RidgeStatistics
from catchment.wire import Kind, Message, serialize

S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")
SMALL_COHORT = 100
STEPS = 1 << 20  # fewest steps in a standard deviation
COLLUDING = 0.2  # share of the clients that may work with the server, as for secure aggregation


@dataclass(frozen=True, eq=False)
class Records:
    """One upload per recording of a client, made as they are asked for; does not travel."""

    uploads: Callable[[], Iterator[Upload]]

    def parts(self) -> Message:
        raise UploadError(
            "records",
            "uploads per recording must not leave the client; protect the plan with "
            "GaussianNoise(unit='sequence', ...)",
        )


@dataclass(frozen=True, kw_only=True)
class RecordLevel(Algorithm[S, U, R]):
    """An algorithm whose clients make one upload per recording, for privacy per recording.

    Every recording is run by itself from a state of zero, so that no input of one reaches the
    features of another. The protection sums the uploads on the client.

    Parameters
    ----------
    algorithm
        Asked for one upload per recording; its uploads must be ridge statistics.
    """

    algorithm: Algorithm[S, U, R]

    @property
    def requirements(self) -> Requirements:
        return self.algorithm.requirements | Requirements(per_sequence=True)

    def start(self) -> S:
        return self.algorithm.start()

    def broadcast(self, state: S, context: RoundContext) -> Message:
        return self.algorithm.broadcast(state, context)

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Records:
        def uploads() -> Iterator[Upload]:
            for one in data():
                yield self.algorithm.client_update(received, partial(list, [one]), context)

        return Records(uploads)

    def read_update(self, parts: Message, context: RoundContext) -> Any:
        return self.algorithm.read_update(parts, context)

    def server_update(self, state: S, total: U, context: RoundContext) -> S:
        return self.algorithm.server_update(state, total, context)

    def result(self, state: S) -> R:
        return self.algorithm.result(state)

    def figures(self, state: S) -> Mapping[str, float]:
        return self.algorithm.figures(state)

    def kept(self, state: S) -> Kept:
        return self.algorithm.kept(state)

    def save_state(self, state: S) -> Message:
        return self.algorithm.save_state(state)

    def load_state(self, parts: Message) -> S:
        return self.algorithm.load_state(parts)


@dataclass(frozen=True)
class Amount:
    """How much noise a release has, and of which kind.

    Parameters
    ----------
    multiplier
        The noise in units of the sensitivity.
    sensitivity
        How far one client, or recording, moves the sum.
    n_parties
        Among how many the noise is shared out.
    discrete
        Whether it is drawn from the discrete Gaussian; else it is a rounded normal.

    >>> amount = Amount(4.0, 2.0, 1, discrete=True)
    >>> amount.spread, amount.step, amount.steps, amount.cost
    (8.0, 7.62939453125e-06, 1048576, Cost(gaussian=0.0, concentrated=0.03125))
    """

    multiplier: float
    sensitivity: float
    n_parties: int
    discrete: bool

    @property
    def spread(self) -> float:
        """Standard deviation of the noise of all parties."""
        return self.multiplier * self.sensitivity

    @property
    def share(self) -> float:
        """Standard deviation of what one party adds."""
        return self.spread / math.sqrt(self.n_parties)

    @property
    def step(self) -> float:
        """The step, a power of two, of which every number is a multiple."""
        return math.ldexp(1.0, math.floor(math.log2(self.share / STEPS)))

    @property
    def steps(self) -> int:
        """What one party adds, in steps, rounded up: never less than was calculated."""
        return math.ceil(self.share / self.step)

    @property
    def cost(self) -> Cost:
        """The privacy cost of one release."""
        return (Cost.of_discrete if self.discrete else Cost.of_gaussian)(self.multiplier)

    def drawn(self, size: int, words: Words | None = None) -> Integers:
        """Return what one party adds, in steps (size,).

        Parameters
        ----------
        words
            Where the random bits of discrete noise come from; the operating system if not given.
        """
        if self.discrete:
            return discrete_gaussian(self.steps, size, words)
        return rounded_normal(self.share / self.step, size)


@dataclass(frozen=True, kw_only=True)
class GaussianNoise(Protection):
    """Clip on the client, Gaussian noise on the sum: a bound on what releases tell of anyone.

    Parameters
    ----------
    epsilon, delta
        The bound for all releases of the plan together. Delta should be far below one over the
        number of clients.
    clip
        How uploads become vectors, and how long these may be.
    distributed
        False: the server adds the noise. True: the clients do, inside secure aggregation that must
        follow; the server never sees the exact sum.
    min_clients
        Fewest clients in a sum that is released. Below 100 a readout is mostly noise; fewer must be
        asked for with `small_cohort`.
    colluding
        With distributed noise: clients that may tell the server what noise they added; if not
        given, in a plan as many as its secure aggregation counts on, and a fifth of `min_clients`
        at least.
    releases
        Rounds over which epsilon is spread; a plan with more rounds is refused.
    unit
        What is hidden: whether a whole client took part, or one recording (wrap the algorithm in
        `RecordLevel`). A bound per recording says little for someone with many recordings.
    replacement
        Whether the bound is also to hold when a client's data are replaced by others', which
        doubles the noise; else it holds for leaving the client out.
    ridge_factor
        Ridge at the solution in units of the noise's largest eigenvalue.
    budget
        Ledger that refuses releases beyond what it allows.
    """

    is_noise: ClassVar[bool] = True
    messages: ClassVar[tuple[Kind, ...]] = (Clipped.KIND,)

    epsilon: float
    delta: float
    clip: Clip
    distributed: bool = False
    min_clients: int = SMALL_COHORT
    small_cohort: bool = False
    colluding: int | None = None
    releases: PositiveInt = 1
    unit: Literal["client", "sequence"] = "client"
    replacement: bool = False
    ridge_factor: NonNegativeFloat = 0.5
    budget: Budget | None = None

    def __post_init__(self) -> None:
        check_epsilon_delta(self.epsilon, self.delta)
        super().__post_init__()
        if not 0 <= self.n_colluding < self.min_clients:
            raise ValueError(
                f"{self.n_colluding} of at least {self.min_clients} clients collude; "
                "pass fewer than min_clients"
            )
        if self.min_clients < SMALL_COHORT and self.unit == "client" and not self.small_cohort:
            raise ValueError(
                f"min_clients is {self.min_clients}; below {SMALL_COHORT} clients a private "
                "readout is mostly noise: ask more clients, or pass small_cohort=True"
            )

    @property
    def n_colluding(self) -> int:
        """How many clients' noise does not count, because they may tell the server of it."""
        if self.colluding is not None:
            return self.colluding
        return math.floor(COLLUDING * self.min_clients) if self.distributed else 0

    def beside(self, masking: Masking) -> Self:
        """Return the noise with as many colluding clients as secure aggregation counts on, if not
        given.

        >>> from catchment import Clip, SecureAggregation
        >>> noise = GaussianNoise(epsilon=1, delta=1e-5, clip=Clip(bound=1), distributed=True)
        >>> keys = {f"c{k}": f"{k:064x}" for k in range(150)}
        >>> noise.n_colluding, noise.beside(SecureAggregation(keys, min_clients=100)).n_colluding
        (20, 30)
        """
        if (
            not self.distributed
            or self.colluding is not None
            or not isinstance(masking, SecureAggregation)
        ):
            return self
        n_honest = masking.min_clients - masking.n_corrupt(masking.min_clients)
        needed = self.min_clients - n_honest
        more = self.n_colluding < needed < self.min_clients
        return replace(self, colluding=needed) if more else self

    @property
    def sensitivity(self) -> float:
        """How far one client, or recording, can move the sum: the clip's bound, or twice that."""
        return self.clip.bound * (2 if self.replacement else 1)

    def amount(self, *, whole: bool) -> Amount:
        """Return how much noise there is on whole multiples of a step, or on other vectors.

        Parameters
        ----------
        whole
            Whether uploads are statistics in fixed point.
        """
        discrete = whole or self.distributed
        enough = (concentrated_multiplier if discrete else gaussian_multiplier)(
            self.epsilon, self.delta
        )
        n_parties = self.min_clients - self.n_colluding if self.distributed else 1
        needed = enough * math.sqrt(self.releases)
        return Amount(needed, self.sensitivity, n_parties, discrete=discrete)

    @property
    def multiplier(self) -> float:
        """Noise of one release of float64 vectors in units of the sensitivity."""
        return self.amount(whole=False).multiplier

    @property
    def spread(self) -> float:
        """Standard deviation of the noise on each number of a sum of `min_clients` clients."""
        return self.amount(whole=False).spread

    @property
    def share(self) -> float:
        """Standard deviation of what one party adds."""
        return self.amount(whole=False).share

    @property
    def step(self) -> float:
        """The step, a power of two, of which every number is a multiple."""
        return self.amount(whole=False).step

    @property
    def cost(self) -> Cost:
        """The privacy cost of one release of float64 vectors."""
        return self.amount(whole=False).cost

    def check(self, plan: Plan[Any, Any, Any]) -> None:
        """Raise ValueError if the plan would break what is promised, or could not be solved."""
        if plan.rounds > self.releases:
            raise ValueError(
                f"the plan releases {plan.rounds} sums but epsilon is spread over {self.releases}; "
                f"pass releases={plan.rounds}"
            )
        if (self.unit == "sequence") != plan.requirements.per_sequence:
            kind = "recording" if self.unit == "sequence" else "client"
            raise ValueError(
                f"privacy per {kind} does not fit {type(plan.algorithm).__name__}; "
                "use unit='sequence' with RecordLevel, and only with it"
            )
        if self.distributed:
            self._check_masking(plan)
        if plan.requirements.data_choice:
            raise ValueError(plan.requirements.data_choice)

    def before(self, context: RoundContext) -> None:
        """Charge a release whose noise is with the clients, before any of them is asked."""
        if self.distributed:
            self._charge(context, self.cost)

    def _charge(self, context: RoundContext, cost: Cost) -> None:
        if self.budget is not None:
            purpose = f"round {context.round}"
            self.budget.charge(context.cohort, cost, purpose=purpose, unit=self.unit)

    def _check_masking(self, plan: Plan[Any, Any, Any]) -> None:
        secure = plan.masking
        if not isinstance(secure, SecureAggregation):
            raise ValueError(
                "distributed noise hides a client only within secure aggregation; "
                "add one after it, or pass distributed=False"
            )
        if secure.min_clients < self.min_clients:
            raise ValueError(
                f"secure aggregation may end with {secure.min_clients} clients, too few for noise "
                f"shared out among {self.min_clients}; pass it min_clients={self.min_clients}"
            )
        honest = self.min_clients - self.n_colluding
        corrupt = secure.n_corrupt(secure.min_clients)
        if secure.min_clients - corrupt < honest:
            raise ValueError(
                f"{corrupt} of the {len(secure.identities)} registered clients may work with the "
                f"server: secure aggregation of {secure.min_clients} can lack the noise of "
                f"{honest} others; pass it min_clients={honest + corrupt}, or leave out colluding"
            )
        if self.step < 2.0**-secure.ring.fraction:
            raise ValueError(
                f"the ring's {secure.ring.fraction} fractional bits are too coarse for noise of "
                f"{self.share:.3g}; use 128 bits"
            )

    def on_client(self, upload: Upload, context: RoundContext) -> Upload:
        """Return the clipped vector, with this client's share of the noise if it is distributed.

        What that costs goes into the client's ledger. Where the server adds the noise it sees
        exact numbers, which costs nothing that could be counted: the ledger has it as exact.
        """
        if context.round >= self.releases:
            raise UploadError(
                "releases", f"round {context.round} is beyond the {self.releases} agreed releases"
            )
        clipped = self._clipped(upload)
        if context.ledger is not None:
            cost = self.amount(whole=True).cost if self.distributed else Cost()
            context.ledger.charge(cost, epsilon=self.epsilon, delta=self.delta)
        if self.distributed:
            words: Words | None = None
            if context.ledger is not None:  # the same noise for the same session again
                vector = hashlib.sha256(clipped.vector.tobytes()).hexdigest()
                told = ["noise", context.plan, context.round, context.session, vector]
                words = KeyedWords(context.ledger.secret(json.dumps(told).encode()))
            noise = self.amount(whole=True).drawn(len(clipped.vector), words)
            added = noise * self.step if clipped.grid is None else noise
            clipped = replace(clipped, vector=clipped.vector + added)
            clipped = replace(clipped, epsilon=float(self.epsilon), delta=float(self.delta))
        # Where the server adds the noise this message is exact, and no epsilon is said of it.
        return replace(clipped, n_clients=1)

    def _one(self, upload: Upload) -> Clipped:
        """Return one upload's vector; of fixed-point statistics as whole multiples of the step."""
        whole = isinstance(upload, RidgeStatistics) and upload.fixed is not None
        return self.clip.clipped(upload, self.amount(whole=whole).step, whole=whole)

    def _clipped(self, upload: Upload) -> Clipped:
        if self.unit == "client":
            return self._one(upload)
        if not isinstance(upload, Records):
            raise UploadError(
                "unit", "privacy per recording needs RecordLevel around the algorithm"
            )
        total: Clipped | None = None
        for record in upload.uploads():
            if not isinstance(record, RidgeStatistics):
                kind = serialize(record).kind
                raise UploadError(
                    "kind", f"privacy per recording needs ridge statistics, not {kind!r}"
                )
            total = self._one(record) if total is None else total + self._one(record)
        if total is None:
            raise UploadError("no-rows", "the client has no recordings")
        told = 0 if self.distributed else total.n_clients
        return replace(total, n_clients=1, n_records=told)

    def read_update(self, parts: Message, context: RoundContext, inner: Read) -> Clipped:
        """Return a vector ready to add; UploadError if it is longer than any client's may be.

        A client counts once whatever it says. Of privacy per recording the server checks the length
        against the recordings that the client says it has, which the plan's limits bound; that it
        has so many is not checked. Under secure aggregation only the number of clients is.
        """
        clipped = Clipped.from_message(parts)
        if self.distributed and context.client:
            raise IntegrityError("an upload with distributed noise came without its mask")
        if context.client and clipped.n_clients != 1:
            raise UploadError("clients", f"{clipped.n_clients} clients are claimed, 1 sent it")
        by_record = self.unit == "sequence" and not self.distributed
        counted = clipped.n_records if by_record else clipped.n_clients
        longest = self.clip.bound * counted
        if clipped.grid is None:
            length = float(np.linalg.norm(clipped.vector))
            above = length > longest
        else:
            step = self._checked_step(clipped, counted)
            length = step * float(np.linalg.norm(clipped.vector.astype(np.float64)))
            above = square_length(clipped.vector) > square_steps(longest, step)
        if above and not self.distributed:
            raise UploadError("bound", f"a vector of length {length:.6g} is above the clip's bound")
        return clipped

    def _checked_step(self, clipped: Clipped, counted: int) -> float:
        """Return the step of whole multiples that came; UploadError if it or they cannot be."""
        step, v = self.amount(whole=True).step, clipped.vector
        if clipped.grid != step_name(step):
            raise UploadError(
                "grid", f"the vector has steps of {str(clipped.grid)[:20]}, not {step:g}"
            )
        if v.size and max(-int(v.min()), int(v.max())) >= LARGEST * counted:
            raise UploadError("range", "a vector has numbers that no clipped one can have")
        return step

    def on_server(self, total: Additive, context: RoundContext, inner: Read) -> Additive:
        """Return the noisy sum as the algorithm's own, once the ledger has it."""
        if not isinstance(total, Clipped):
            raise FederationError("the sum holds no clipped vectors; every client must clip")
        if context.round >= self.releases:
            raise FederationError(f"{self.releases} releases were agreed on and made")
        if total.n_clients < self.min_clients:
            raise TooFewClientsError(
                f"{total.n_clients} clients are in the sum, a release needs {self.min_clients}; "
                "nothing was released"
            )
        amount = self.amount(whole=total.grid is not None)
        spread = amount.share * math.sqrt(total.n_clients)
        if not self.distributed:
            self._charge(context, amount.cost)
            spread = amount.spread
            noise = amount.drawn(len(total.vector))
            added = noise * amount.step if total.grid is None else noise
            total = replace(total, vector=total.vector + added)
        if total.grid is not None:
            total = replace(total, vector=total.vector * amount.step, grid=None)
        # The noise of a sum over rounds grows as the root of their number, and so does its ridge.
        ridge = (
            self.ridge_factor * (math.sqrt(context.round + 1) - math.sqrt(context.round)) * spread
        )
        return inner(self.clip.upload(total, ridge), context)
