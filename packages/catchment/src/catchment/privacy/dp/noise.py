"""Differential privacy for any algorithm whose uploads are ridge statistics or weighted sums.

Every client shortens its vector to a public bound D, so that the sum moves by at most D when a
client is added or left out; noise of s D on every number of the sum then gives the bound that
`catchment.privacy.dp.gaussian` states. It bounds what the releases say about one client (or one
recording), whatever else is known, and not what is learned about a population that it belongs to.

The vector. Ridge statistics are the moments M = [[n, s', t'], [s, G, C], [t, C', Y'Y]] of rows
(1, z, y). A client's vector is the upper triangle of B M B' / n, off-diagonal entries times sqrt 2
so that its length is the Frobenius norm. B leaves (1, z) as it is, or whitens it by public
statistics, and multiplies y by a public factor. Shortening the whole vector equals giving the
client less weight, so what is left are still moments. Of a weighted sum, or any value with a field
marked WEIGHT, the vector is the client's mean, and every client then weighs one. Of `Counts` these
are shares, never longer than 1 (in each column): they are multiplied by the bound, whatever that
was chosen for, so that noise is as small beside them as it can be. Numbers marked REMARK, such as a
training loss, never leave the client: in the sum they are zero.

The vector is computed in float64, also from statistics in fixed point: a mean and a whitening are
not whole. Then it is cut to integer multiples of a fine step (`whole_steps`), and of these
everything is exact: the bound is checked in integers, and the noise is drawn in multiples of the
step, from the operating system or a client's own secret, and cannot be seeded. Vectors of
statistics in fixed point travel as the multiples themselves, and their noise is discrete Gaussian,
central or not: an integer vector that one client moves by at most Delta steps, with independent
discrete Gaussian noise of parameter s Delta on every entry, is 1 / (2 s^2)-concentrated (Canonne,
Kamath and Steinke, NeurIPS 2020, theorem 14). Of other vectors, central noise is a rounded normal.

Central noise is added once, by a server that sees the exact sum: it protects against everyone who
sees the model, not against the server. Distributed noise is added by the clients, each a share of
it, inside secure aggregation: the server sees the noisy sum only. With U clients in the sum, m of
whom may tell the server their noise, each adds discrete Gaussian noise of variance (s D)^2 / (U -
m) (Kairouz, Liu and Steinke, ICML 2021); a share is at least a million steps wide, where the
sum of discrete Gaussians is one to far beyond floating-point precision. A client enters what it
costs in its own ledger (`catchment.privacy.ledger`), which refuses what is too much whatever the
server says; its noise follows from a secret of its ledger, the session of secure aggregation and
the vector, so that a round that is resumed has the same noise, and nothing is left to average.

A noisy sum is made solvable: negative eigenvalues go to zero, and the (1, z) block gets
c s D sqrt(2 (F + 1)) on its diagonal, about the largest eigenvalue of the noise. All of it uses
public numbers and the noisy sum only, so it costs no privacy.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import (
    Array,
    Integers,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    check_fields,
)
from catchment.errors import FederationError, IntegrityError, TooFewClientsError, UploadError
from catchment.features.base import handed
from catchment.federation.algorithm import (
    Additive,
    Algorithm,
    Cost,
    Data,
    Requirements,
    RoundContext,
    Upload,
)
from catchment.federation.checks import moment_matrix
from catchment.federation.plan import Plan, R, S, U
from catchment.federation.protection import Masking, Protection, Read
from catchment.privacy.dp.budget import Budget
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
from catchment.readout.intervals import Counts
from catchment.readout.statistics import RidgeStatistics, matrix_size, pack, unpack
from catchment.wire import (
    CLIENTS,
    COUNTED,
    LATER,
    REMARK,
    SIGNED,
    WEIGHT,
    Fact,
    Kind,
    Message,
    Shape,
    Summable,
    marked,
    places_of,
    serialize,
)

SMALL_COHORT = 100  # clients below which a readout under noise is mostly noise
STEPS = 1 << 20  # fewest steps in a standard deviation
COLLUDING = 0.2  # share of the clients that may work with the server, as for secure aggregation
# Whitening never blows a direction up beyond this share of the strongest one.
WHITENING_FLOOR = 1e-4
# Kept below the bound by this share, so that rounding cannot carry a vector over it.
MARGIN = 2.0**-30
LARGEST = 2.0**53  # multiples of a step; a number beyond would not be exact as float64


@dataclass(frozen=True, eq=False)
class Clipped(Summable):
    """A sum of vectors of bounded length, and what they were made from."""

    KIND: ClassVar[Kind] = Kind(
        "clipped",
        "the client's sums or parameters, exact but for being scaled down to an agreed length; "
        "noise only where the clients themselves add it",
        (
            "unless the clients add noise, what the sums or parameters tell, but for their length: "
            "noise that the server adds later bounds what the model tells, not what this does",
        ),
    )

    # Whole multiples of a step: these multiples, if `grid` names the step, and else their values.
    vector: Annotated[NDArray[Any], Shape("numbers"), SIGNED]
    n_clients: Annotated[int, CLIENTS]
    about: Mapping[str, Fact]
    epsilon: float | None = None  # of the release it is for, if the noise is in it
    grid: Annotated[str | None, LATER] = None  # such as "2^-20"
    # Sequences in it, of which each is bounded by itself; 0 if clients are, and with distributed
    # noise, under which their exact number must not be told.
    n_records: Annotated[int, COUNTED] = 0
    delta: Annotated[float | None, LATER] = None

    def __post_init__(self) -> None:
        if self.n_clients < 1:
            raise UploadError("count", f"{self.n_clients} clients cannot be")
        expected = np.float64 if self.grid is None else np.int64
        if self.vector.dtype != expected:
            raise UploadError(
                "type", f"the vector came as {self.vector.dtype}; it is {np.dtype(expected)}"
            )


@dataclass(frozen=True, kw_only=True)
class Clip:
    """How an upload becomes a vector, and how long that may be.

    All three settings must be public: fixed beforehand, or computed from data that anyone may see.
    Taking them from the clients' own data undoes the privacy they are there for.

    Parameters
    ----------
    bound
        Longest vector; longer ones are shortened to it.
    target_scale
        Factor on the targets. About one over their spread serves best (3 for one-hot classes).
    reference
        Statistics of public data with the same features, also generated or of another
        population. Noise is then spread evenly over the directions in which features vary, and a
        readout of the same privacy is far more accurate.

    >>> s = RidgeStatistics.from_states(np.ones((3, 2)), np.ones((3, 1)))
    >>> Clip(bound=8.0).length(s), Clip(bound=8.0).length(s + s)
    (4.0, 4.0)
    """

    bound: PositiveFloat
    target_scale: PositiveFloat = 1.0
    reference: RidgeStatistics | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.reference is not None and self.reference.weight <= 0:
            raise ValueError("the reference holds no rows; compute it from public data")

    @classmethod
    def from_public(
        cls, clients: Iterable[RidgeStatistics], *, target_scale: float = 3.0, whiten: bool = True
    ) -> Clip:
        """Return settings from the statistics of public clients: the median length is the bound.

        >>> rng = np.random.default_rng(0)
        >>> public = [RidgeStatistics.from_states(rng.normal(size=(50, 4)), np.ones((50, 1)))
        ...           for _ in range(5)]
        >>> 8 < Clip.from_public(public).bound < 12
        True
        """
        known = list(clients)
        if not known:
            raise ValueError("there are no public clients; pass at least one")
        total = sum(known[1:], start=known[0])
        free = cls(bound=1.0, target_scale=target_scale, reference=total if whiten else None)
        bound = float(np.median([free.length(client) for client in known]))
        return cls(bound=bound, target_scale=target_scale, reference=free.reference)

    @cached_property
    def whitening(self) -> tuple[Array, Array]:
        """The map (1 + F, 1 + F) of rows (1, z) to white ones, and its inverse."""
        assert self.reference is not None
        n = 1 + self.reference.n_features
        moments = moment_matrix(self.reference.floats)[:n, :n] / self.reference.weight
        values, vectors = np.linalg.eigh(moments)
        root = np.sqrt(np.maximum(values, 0.0) + WHITENING_FLOOR * values[-1])
        return (vectors / root).T, vectors * root

    def length(self, upload: Upload) -> float:
        """Return the length of an upload's vector before it is clipped."""
        return float(np.linalg.norm(self._vector(upload)[0]))

    def clipped(self, upload: Upload, grid: float, *, whole: bool = False) -> Clipped:
        """Return an upload's vector, at most `bound` long: multiples of the grid, or their values.

        The bound holds to the last digit, as `whole_steps` proves.
        """
        vector, about = self._vector(upload)
        steps = whole_steps(vector, self.bound, grid)
        if whole:
            return Clipped(steps, 1, about, grid=step_name(grid))
        return Clipped(steps * grid, 1, about)

    def _vector(self, upload: Upload) -> tuple[Array, dict[str, Fact]]:
        sent, name = serialize(upload), marked(type(upload), WEIGHT)
        about: dict[str, Fact] = {"kind": sent.kind, "facts": dict(sent.facts)}
        if isinstance(upload, RidgeStatistics):
            vector = self._moments(upload.floats)
            about["targets"] = upload.n_targets
        # Of a value with others inside, one weight says nothing of theirs.
        elif name and "parts" not in sent.facts:
            numbers, *arrays = sent.arrays
            weight = float(vars(upload)[name])
            divided = [array / weight if weight > 0 else array for array in arrays]
            about["numbers"] = len(numbers)
            about["shapes"] = [list(array.shape) for array in divided]
            if remarks := [*places_of(upload, REMARK)]:
                about["remarks"] = [*remarks]
            # In float64 whatever came: lengths of float32 vectors are off by more than MARGIN.
            vector = np.concatenate([array.ravel() for array in divided], dtype=np.float64)
            vector = vector * self._enlarged(about)
        else:
            raise UploadError(
                "kind",
                "noise is defined for ridge statistics and for sums with a weight, not for "
                f"{sent.kind!r}; leave the protection out or send one of these",
            )
        if not np.isfinite(vector).all():
            raise UploadError("not-finite", "the upload holds NaN or infinite numbers")
        return vector, about

    def _enlarged(self, about: Mapping[str, Fact]) -> float:
        """Return the factor, public, on the vector of counts: the bound over their largest length.

        1 for anything else than counts.
        """
        shapes = about.get("shapes")
        if about.get("kind") != Counts.KIND.name or not isinstance(shapes, list):
            return 1.0
        return self.bound * (1 - 2 * MARGIN) / math.sqrt(max(shapes[0][0], 1))

    def _moments(self, statistics: RidgeStatistics) -> Array:
        if not statistics.weight > 0:
            size = 1 + statistics.n_features + statistics.n_targets
            return np.zeros(size * (size + 1) // 2)
        M = moment_matrix(statistics) / statistics.weight
        if self.reference is not None:
            if self.reference.fingerprint != statistics.fingerprint:
                raise UploadError("fingerprint", "the clip's reference is of other features")
            M = _congruent(M, self.whitening[0])
        _scale_targets(M, statistics.n_targets, self.target_scale)
        return pack(M) * _roots(len(M))

    def upload(self, total: Clipped, ridge: float = 0.0) -> Message:
        """Return a noisy sum as the upload it stands for; `ridge` is the module's c s D."""
        facts, K = total.about.get("facts"), total.about.get("targets")
        if not isinstance(facts, Mapping):
            raise IntegrityError("a clipped vector does not say what it was made from")
        if K is None:
            return _weighted(
                replace(total, vector=total.vector / self._enlarged(total.about)), facts
            )
        M = unpack(total.vector / _roots(matrix_size(len(total.vector))))
        if type(K) is not int or not 0 < K < len(M) - 1:
            raise IntegrityError(f"a clipped vector of {str(K)[:20]} targets cannot be read")
        values, vectors = np.linalg.eigh(M)
        # Not quite to zero: the moments must pass for such in spite of rounding.
        M = (vectors * np.maximum(values, 1e-10 * values[-1])) @ vectors.T
        n = len(M) - K
        M[np.arange(n), np.arange(n)] += ridge * math.sqrt(2 * n)
        _scale_targets(M, K, 1 / self.target_scale)
        if self.reference is not None:
            M = _congruent(M, self.whitening[1])
        M = (M + M.T) / 2
        statistics = RidgeStatistics(
            max(1, round(float(M[0, 0]))),
            float(M[0, 0]),
            M[0, 1:n].copy(),
            M[0, n:].copy(),
            pack(M[1:n, 1:n]),
            M[1:n, n:].copy(),
            pack(M[n:, n:]),
            str(facts.get("fingerprint", "")),
        )
        parts = statistics.parts()
        return Message(parts.kind, {**parts.facts, "noisy": True}, parts.arrays)


def whole_steps(vector: Array, bound: float, step: float) -> Integers:
    """Return a vector (L,), shortened to the bound if it is longer, in whole multiples of a step.

    No multiple that is returned is longer than bound / step, which is what noise is calibrated to:

    - Division by the step, a power of two, is exact, and every number is then cut toward zero. So
      no entry grows, nor does the length; to round to the nearest could add sqrt(L) / 2.
    - The shortening itself is done in float64, and what it is off by is not relied upon: the sum of
      the squares of the multiples is compared with floor((bound / step)^2) in integers of any
      size. Were it above, every entry that is not zero would move one toward zero, and again,
      until it is not.

    Two clients' vectors are therefore within 2 bound / step of each other, and a sum moves by no
    more than bound / step when a client is added or left out.

    >>> whole_steps(np.array([3.0, -4.0]), 6.0, 0.5), whole_steps(np.array([3.0, -4.0]), 2.6, 0.5)
    (array([ 6, -8]), array([ 3, -4]))
    """
    longest, length = bound * (1 - MARGIN), float(np.linalg.norm(vector))
    if length > longest:
        vector = vector * (longest / length)
    multiples = np.trunc(vector / step)
    if not (np.abs(multiples) < LARGEST).all():
        raise UploadError(
            "range", f"a bound of {bound:g} is too long for steps of {step:g}; use less epsilon"
        )
    steps: Integers = multiples.astype(np.int64)
    most = square_steps(bound, step)
    while square_length(steps) > most:
        steps = steps - np.sign(steps)
    return steps


def square_steps(bound: float, step: float) -> int:
    """Return the most that the squares of whole multiples of a step may add up to.

    >>> square_steps(2.5, 1.0)
    6
    """
    return math.floor((Fraction(bound) / Fraction(step)) ** 2)


def square_length(steps: Integers) -> int:
    """Return the sum of the squares of integers (L,) above -2^63, exactly.

    >>> square_length(np.array([2**40, -3])) == 2**80 + 9
    True
    """
    size, pieces = np.abs(steps), []
    while size.any():
        pieces.append(size & 0xFFFF)
        size = size >> 16
    # Products of 16 bits add up exactly in 64 for up to 2^31 numbers.
    pairs = ((i, j) for i in range(len(pieces)) for j in range(len(pieces)))
    return sum(int(pieces[i] @ pieces[j]) << 16 * (i + j) for i, j in pairs)


def step_name(step: float) -> str:
    """Return how a step, a power of two, is written.

    >>> step_name(0.25)
    '2^-2'
    """
    return f"2^{math.frexp(step)[1] - 1}"


def _weighted(total: Clipped, facts: Mapping[str, Fact]) -> Message:
    """Return a sum of means as the weighted sum in which every client weighs one."""
    shapes, n_numbers = total.about.get("shapes"), total.about.get("numbers")
    if not isinstance(shapes, list) or type(n_numbers) is not int or not 0 < n_numbers < 9:
        raise IntegrityError("a clipped weighted sum does not say its shapes")
    sizes = [math.prod(shape) for shape in shapes]
    if sum(sizes) != len(total.vector):
        raise IntegrityError(f"{len(total.vector)} numbers came for shapes {shapes}")
    flat = np.split(total.vector, np.cumsum(sizes)[:-1])
    arrays = [part.reshape(shape) for part, shape in zip(flat, shapes, strict=True)]
    counts = np.full(n_numbers, float(total.n_clients))
    remarks = total.about.get("remarks", [])
    if not isinstance(remarks, list) or not set(remarks) <= set(range(n_numbers)):
        raise IntegrityError("a clipped weighted sum has remarks where it has no numbers")
    counts[remarks] = 0.0
    return Message(str(total.about.get("kind")), facts, (counts, *arrays))


def _roots(size: int) -> Array:
    """Return the factors of a packed triangle under which its length is the Frobenius norm."""
    root = np.full((size, size), math.sqrt(2))
    np.fill_diagonal(root, 1.0)
    return pack(root)


def _congruent(M: Array, T: Array) -> Array:
    """Return B M B' where B applies T to the leading block and leaves the rest."""
    n = len(T)
    out = M.copy()
    out[:n] = T @ out[:n]
    out[:, :n] = out[:, :n] @ T.T
    return out


def _scale_targets(M: Array, n_targets: int, factor: float) -> None:
    M[-n_targets:] *= factor
    M[:, -n_targets:] *= factor


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

    start = handed("algorithm.start")
    broadcast = handed("algorithm.broadcast")
    read_update = handed("algorithm.read_update")
    server_update = handed("algorithm.server_update")
    result = handed("algorithm.result")
    figures = handed("algorithm.figures")
    kept = handed("algorithm.kept")
    save_state = handed("algorithm.save_state")
    load_state = handed("algorithm.load_state")

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Records:
        def uploads() -> Iterator[Upload]:
            for one in data():
                yield self.algorithm.client_update(received, partial(list, [one]), context)

        return Records(uploads)


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
        """Return what one party adds, in steps (size,); the words are for discrete noise."""
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
        """Return how much noise there is on statistics in fixed point, or on other vectors."""
        discrete = whole or self.distributed
        enough = (concentrated_multiplier if discrete else gaussian_multiplier)(
            self.epsilon, self.delta
        )
        n_parties = self.min_clients - self.n_colluding if self.distributed else 1
        needed = enough * math.sqrt(self.releases)
        return Amount(needed, self.sensitivity, n_parties, discrete=discrete)

    @property
    def in_floats(self) -> Amount:
        """How much noise there is on a sum of float64 vectors of `min_clients` clients.

        `multiplier`, `spread`, `share`, `step` and `cost` are those of this.
        """
        return self.amount(whole=False)

    multiplier: ClassVar[float] = handed("in_floats.multiplier")
    spread: ClassVar[float] = handed("in_floats.spread")
    share: ClassVar[float] = handed("in_floats.share")
    step: ClassVar[float] = handed("in_floats.step")
    cost: ClassVar[Cost] = handed("in_floats.cost")

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
        clipped = self._clipped(upload, context.thick)
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
            epsilon, delta = float(self.epsilon), float(self.delta)
            return replace(clipped, vector=clipped.vector + added, epsilon=epsilon, delta=delta)
        # Where the server adds the noise this message is exact, and no epsilon is said of it.
        return clipped

    def _one(self, upload: Upload) -> Clipped:
        """Return one upload's vector; of fixed-point statistics as whole multiples of the step."""
        whole = isinstance(upload, RidgeStatistics) and upload.fixed is not None
        return self.clip.clipped(upload, self.amount(whole=whole).step, whole=whole)

    def _clipped(self, upload: Upload, thick: Callable[[Upload], None] | None) -> Clipped:
        """Return the vector; RuleError if it has too few rows, which it does not tell any more."""
        if self.unit == "client":
            if thick is not None:
                thick(upload)
            return self._one(upload)
        if not isinstance(upload, Records):
            raise UploadError(
                "unit", "privacy per recording needs RecordLevel around the algorithm"
            )
        total: Clipped | None = None
        whole: RidgeStatistics | None = None
        for record in upload.uploads():
            if not isinstance(record, RidgeStatistics):
                kind = serialize(record).kind
                raise UploadError(
                    "kind", f"privacy per recording needs ridge statistics, not {kind!r}"
                )
            total = self._one(record) if total is None else total + self._one(record)
            if thick is not None:
                whole = record if whole is None else whole + record
        if total is None:
            raise UploadError("no-rows", "the client has no recordings")
        if thick is not None:
            thick(whole)
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
