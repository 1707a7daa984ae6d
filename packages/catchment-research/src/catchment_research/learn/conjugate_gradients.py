"""Ridge regression over rounds, for features too many for their Gram matrix to travel.

In the first round clients send their sums without the products of features. In every later one the
server sends directions V (F, k), with k at most the number of outputs, and clients send Z'(Z V),
which add: F k numbers instead of F^2 / 2. `Krylov` makes the solution of them, the same as that of
`FederatedRidge` up to `tolerance`, and says when it is there. Centring (the intercept is not
penalized) and the scale of features follow from the first round's sums.

Rows must stay the same from round to round. Each product therefore carries the sums of the centered
mixtures, which are zero over all rows of the first round; if they are not, a client was lost or
came back or has other data, and the server begins again with those who are there.

The system is (A + ridge I) W = B with a symmetric A (F, F), known by products A V alone. The block
form of conjugate gradients keeps an orthonormal basis V (F, m) of what B, A B, A^2 B, ... span, and
T = V'AV. W = V (T + ridge I)^-1 V'B is the best approximation in that space for every ridge at once
(shifting A changes no such space) and all outputs share the space. A block adds as many directions
as there are outputs, fewer once some are exhausted, so W is exact after F / K products at the
latest. New directions are made orthogonal to all earlier ones twice, so that rounding does not slow
this down as it does where only the last two are kept.

The residual R = B - (A + ridge I) W costs nothing, and because no ridge system shrinks a vector by
less than its ridge, W is off by at most |R| / ridge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Ge
from scipy.linalg import eigh, qr

from catchment import Array, Integers, refuse_nonfinite
from catchment.arrays import PositiveFloat, Probability
from catchment.errors import FederationError, IntegrityError, UploadError
from catchment.features import FeatureMap
from catchment.federation import Algorithm, Data, Kept, Requirements, RoundContext, Rows
from catchment.federation.learn import PathErrors, chosen, readout_figures
from catchment.readout import CONSTANT, Model, Readout, RidgeChoice
from catchment.wire import (
    NOT_NEGATIVE,
    NOTHING,
    ROWS,
    SIGNED,
    WEIGHT,
    Kind,
    Message,
    Shape,
    Structure,
    Summable,
    deserialize,
)

Phase = Literal["sums", "products", "errors", "done"]
CHOOSING = 1e-2  # how far off outputs may be by which a ridge is chosen; errors square it
PATH = np.logspace(-4, 1, 11)  # ridges, times the mean squared length of a centered column
ROUNDING = 1e-12  # of a sum, relative to what is summed
UNCHANGED = 1e-8  # what sums that must be zero may be, relative to the mixtures they are of
BATCH = 256  # recordings whose rows are held at once
INDEPENDENT = 1e-14  # of a column's length: what is left of it below is rounding
EXACT = 2e-15  # a residual of this share of |A| |W| is as small as float64 makes it


def fold_of(client: str, seed: int, n_folds: int) -> int:
    """Return in which fold a client is: by its name and the plan's seed, so that it knows itself.

    >>> [fold_of(name, 0, 3) for name in ("ann", "bob", "eve")]
    [1, 2, 2]
    """
    drawn = hashlib.sha256(f"fold {seed} {client}".encode()).digest()
    return int.from_bytes(drawn[:8], "little") % n_folds


@dataclass(frozen=True, eq=False)
class FirstSums(Summable):
    """Sums over rows by fold: all that ridge statistics hold but the products of features.

    >>> a = FirstSums.zero(1, 2, 1)
    >>> (a + a).n_rows
    0
    """

    KIND: ClassVar[Kind] = Kind(
        "first-sums",
        "sums over the client's rows: how many there are, the sum of every feature and target, of "
        "their squares, and of the products of features and targets",
        (
            "how many rows the client has, and for classes how many of each, exactly",
            "the mean state of each class; a class with one recording gives that recording's state",
            "whether a given recording is among the client's",
        ),
    )

    n_rows: Annotated[int, ROWS]
    weight: Annotated[float, WEIGHT]
    weights: Annotated[Array, Shape("folds"), NOT_NEGATIVE]
    feature_sum: Annotated[Array, Shape("folds", "features")]
    target_sum: Annotated[Array, Shape("folds", "targets")]
    cross: Annotated[Array, Shape("folds", "features", "targets")]
    squares: Annotated[Array, Shape("folds", "features"), NOT_NEGATIVE]

    @classmethod
    def zero(cls, n_folds: int, n_features: int, n_targets: int) -> FirstSums:
        """Return the sums of no rows."""
        J, F, K = n_folds, n_features, n_targets
        shapes = ((J,), (J, F), (J, K), (J, F, K), (J, F))
        return cls(0, 0.0, *(np.zeros(shape) for shape in shapes))

    @property
    def means(self) -> Array:
        """Of the features (F,), over all folds."""
        return np.asarray(self.feature_sum.sum(axis=0) / self.weights.sum())

    def without(self, fold: int) -> FirstSums:
        """Return the sums over all folds but one; of all if it is -1."""
        kept = np.arange(len(self.weights)) != fold
        names = ("weights", "feature_sum", "target_sum", "cross", "squares")
        sums = {name: getattr(self, name)[kept].sum(axis=0, keepdims=True) for name in names}
        return replace(self, weight=float(sums["weights"][0]), **sums)


@dataclass(frozen=True, eq=False)
class Products(Summable):
    """Products of the Gram matrix with some directions, centered, and sums that must be zero."""

    KIND: ClassVar[Kind] = Kind(
        "gram-products",
        "the sums over the client's rows of each feature times a mixture of all features, for each "
        "mixture that the server asked for",
        (
            "as many columns of the sums of products between features, in the server's choice of "
            "mixtures; after many rounds all that these sums tell",
            "how many rows the client has",
        ),
    )

    n_rows: Annotated[int, ROWS]
    weight: Annotated[float, WEIGHT]
    products: Annotated[Array, Shape("features", "directions")]
    sums: Annotated[Array, Shape("directions")]


@dataclass(frozen=True, eq=False)
class Directions(Structure):
    """What the server asks for.

    Parameters
    ----------
    center
        That is taken off every row: features that hardly vary lose no digits then.
    mixtures
        Of features.
    offsets
        That is taken off each.
    without
        The fold whose clients are not in it, -1 where all are.
    """

    center: Annotated[Array, Shape("features")]
    mixtures: Annotated[Array, Shape("features", "directions")]
    offsets: Annotated[Array, Shape("directions")]
    without: Annotated[Integers, Shape("directions"), SIGNED]


@dataclass(frozen=True, eq=False)
class FoldReadouts(Structure):
    """Readouts that were solved without each fold, for some ridges."""

    weights: Annotated[Array, Shape("folds", "ridges", "features", "targets")]
    intercepts: Annotated[Array, Shape("folds", "ridges", "targets")]
    folds: Annotated[Integers, Shape("folds")]


@dataclass(frozen=True, eq=False)
class RowSums:
    """A client's rows, a batch of recordings at a time, and what it sums over them."""

    features: FeatureMap
    data: Data
    classes: bool

    def _batches(self) -> Iterator[Rows]:
        some = False
        rest = iter(self.data())
        while recordings := list(islice(rest, BATCH)):
            rows = Rows.of(self.features, recordings, classes=self.classes)
            refuse_nonfinite(rows.z, "features")
            refuse_nonfinite(rows.y, "targets")
            some = True
            yield rows
        if not some:
            raise ValueError("no recordings were given; pass at least one with targets")

    def first(self, n_folds: int, fold: int) -> FirstSums:
        """Return the first round's sums, in the client's fold."""
        total: FirstSums | None = None
        for rows in self._batches():
            z, y, w = rows.z, rows.y, rows.weight
            made = FirstSums.zero(n_folds, z.shape[1], y.shape[1])
            weighted = z * w[:, None]
            made.weights[fold] = w.sum()
            made.feature_sum[fold] = weighted.sum(axis=0)
            made.target_sum[fold] = w @ y
            made.cross[fold] = weighted.T @ y
            made.squares[fold] = (weighted * z).sum(axis=0)
            made = replace(made, n_rows=len(z), weight=float(w.sum()))
            total = made if total is None else total + made
        assert total is not None
        return total

    def products(self, asked: Directions, fold: int) -> Products:
        """Return the products that were asked for."""
        mine = asked.without != fold
        found = np.zeros_like(asked.mixtures)
        sums, n_rows, weight = np.zeros(len(mine)), 0, 0.0
        for rows in self._batches():
            z = rows.z - asked.center
            mixed = rows.weight[:, None] * (z @ asked.mixtures[:, mine] - asked.offsets[mine])
            found[:, mine] += z.T @ mixed
            sums[mine] += mixed.sum(axis=0)
            n_rows, weight = n_rows + len(rows), weight + float(rows.weight.sum())
        return Products(n_rows, weight, found, sums)

    def errors(self, tried: FoldReadouts, fold: int) -> PathErrors:
        """Return the squared errors of the readouts that were solved without the client's fold."""
        place = np.flatnonzero(tried.folds == fold)
        if len(place) != 1:
            raise UploadError("fold", "no readout was solved without this client's fold")
        weights, intercepts = tried.weights[place[0]], tried.intercepts[place[0]]
        n_rows, weight, squared = 0, 0.0, np.zeros(intercepts.shape)
        for rows in self._batches():
            for r, (W, b) in enumerate(zip(weights, intercepts, strict=True)):
                squared[r] += rows.weight @ (rows.z @ W + b - rows.y) ** 2
            n_rows, weight = n_rows + len(rows), weight + float(rows.weight.sum())
        return PathErrors(n_rows, weight, squared, np.zeros(len(squared)))


@dataclass(frozen=True, eq=False)
class System:
    """One ridge system: of all clients, or without those of one fold (-1 for none)."""

    fold: int
    sums: FirstSums
    known: Krylov


@dataclass(frozen=True, eq=False)
class Descent:
    """How far the solution has come.

    Parameters
    ----------
    sums
        Of the first round, by fold.
    systems
        That of all clients first, then those without each fold, until the ridge is chosen.
    scale
        (F,) that features are divided by; 0 for those that do not vary.
    restarts
        How often the clients were not those of the first round.
    """

    phase: Phase = "sums"
    sums: FirstSums | None = None
    systems: tuple[System, ...] = ()
    scale: Array | None = None
    ridges: Array | None = None
    choice: RidgeChoice | None = None
    readout: Readout | None = None
    doubt: float | None = None
    restarts: int = 0


@dataclass(frozen=True, kw_only=True)
class ConjugateGradients(Algorithm[Descent, FirstSums | Products | PathErrors, Model]):
    """Ridge regression by rounds of products with the Gram matrix, which itself never travels.

    All clients must answer in every round: `Plan(client_fraction=1)`. The rounds end when the
    readout is within `tolerance`, relative to its length, of the exact one, or as near as float64
    comes.

    Parameters
    ----------
    features
        Map from inputs to feature rows, the same on every client.
    ridge
        A number; or "folds": clients are dealt into folds by the plan's seed and their names, and
        the ridge with the least error on the folds left out is taken. The server then sees the sums
        of each fold, so a number is what secure aggregation needs.
    folds
        How many.
    ridges
        To try; 11 from 1e-4 to 10 times the mean squared length of a column if not given.
    standardize
        Whether the ridge acts on features divided by their standard deviation over all clients;
        "auto" is as the map says.
    tolerance
        Largest distance from the exact weights, relative to their length.
    max_rounds
        After so many rounds it is given up.
    classes
        Names of the outputs if they are classes.

    >>> from catchment import EchoState
    >>> features = EchoState(10).build(1, per_step=True)
    >>> ConjugateGradients(features=features, ridge=0.1).requirements.rounds
    200
    """

    features: FeatureMap
    ridge: PositiveFloat | Literal["folds"] = "folds"
    folds: Annotated[int, Ge(2)] = 3
    ridges: tuple[float, ...] | None = None
    standardize: bool | Literal["auto"] = "auto"
    tolerance: Probability = 1e-10
    max_rounds: Annotated[int, Ge(3)] = 200
    classes: tuple[str, ...] | None = None

    @property
    def requirements(self) -> Requirements:
        return Requirements(
            each_client=""
            if self._n_folds == 1
            else "the sums of a fold are those of few clients; pass a number as the ridge",
            data_choice="every round asks about the same rows again, and each would need noise of "
            "its own; use FederatedRidge with a number such as 0: what the noise needs is added",
            rounds=self.max_rounds,
        )

    @property
    def _n_folds(self) -> int:
        return self.folds if self.ridge == "folds" else 1

    def start(self) -> Descent:
        return Descent()

    def finished(self, state: Descent) -> bool:
        """Return whether the readout is there, so that no more rounds are needed."""
        return state.phase == "done"

    def broadcast(self, state: Descent, context: RoundContext) -> Message:
        if state.phase == "products":
            return self._asked(state).parts()
        if state.phase == "errors":
            return self._tried(state).parts()
        return NOTHING

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> FirstSums | Products | PathErrors:
        rows = RowSums(self.features, data, self.classes is not None)
        fold, F = fold_of(context.client, context.seed, self._n_folds), self.features.n_features
        if received.kind == NOTHING.kind:
            return rows.first(self._n_folds, fold)
        asked: Directions | FoldReadouts = deserialize(Directions | FoldReadouts, received)  # type: ignore[arg-type]
        width = len(asked.center) if isinstance(asked, Directions) else asked.weights.shape[2]
        if width != F:
            raise IntegrityError(f"the server asks about {width} features, the map has {F}")
        if isinstance(asked, Directions):
            return rows.products(asked, fold)
        return rows.errors(asked, fold)

    def read_update(
        self, parts: Message, context: RoundContext
    ) -> FirstSums | Products | PathErrors:
        update: FirstSums | Products | PathErrors = deserialize(
            FirstSums | Products | PathErrors,  # type: ignore[arg-type]
            parts,
        )
        if isinstance(update, PathErrors):
            return update.checked()
        F = self.features.n_features
        came = update.products.shape[0] if isinstance(update, Products) else len(update.squares[0])
        if came != F:
            raise UploadError("shape", f"{came} features came, {F} are planned")
        if isinstance(update, FirstSums):
            self._check_first(update, context)
        return update

    def _check_first(self, sums: FirstSums, context: RoundContext) -> None:
        J, K = len(sums.weights), sums.target_sum.shape[1]
        if self._n_folds != J or (self.classes is not None and len(self.classes) != K):
            raise UploadError("shape", f"sums of {J} folds and {K} targets came, not as planned")
        empty = np.arange(J) != fold_of(context.client, context.seed, J)
        if context.client and (sums.weights[empty] != 0).any():
            raise UploadError("fold", "the client claims rows in a fold that it is not in")
        squares, most = sums.squares.sum(axis=0), np.square(self.features.bounds)
        if (squares > most * sums.weight * (1 + 1e-9)).any():
            raise UploadError("bound", "squares of features are larger than the map can make them")
        if (sums.feature_sum**2 > sums.squares * sums.weights[:, None] * (1 + 1e-9) + 1e-9).any():
            raise UploadError("moments", "no data can have these sums; the upload is not believed")

    def server_update(
        self, state: Descent, total: FirstSums | Products | PathErrors, context: RoundContext
    ) -> Descent:
        if isinstance(total, FirstSums):
            return self._begun(replace(Descent(), restarts=state.restarts), total)
        if isinstance(total, PathErrors):
            return self._chosen(state, total)
        if not _same_rows(self._asked(state), total, state):
            return Descent(restarts=state.restarts + 1)
        systems, first = [], 0
        for system in state.systems:
            last = first + system.known.directions.shape[1]
            product = _over(total.products[:, first:last], _scale(state))
            systems.append(replace(system, known=system.known.after(product)))
            first = last
        return self._judged(replace(state, systems=tuple(systems)))

    def _begun(self, state: Descent, sums: FirstSums) -> Descent:
        filled = np.flatnonzero(sums.weights > 0)
        if not len(filled):
            raise FederationError("no client has rows with a target; there is nothing to learn")
        if self.ridge == "folds" and len(filled) < 2:
            raise FederationError(
                f"all clients fell into one of {self.folds} folds; plan another seed, more "
                "clients, or a number as the ridge"
            )
        everyone = sums.without(-1)
        # As `feature_scale` has it, to the bit: rare features are what rounding leaves of them.
        raw = everyone.squares[0] / everyone.weight
        variance = raw - everyone.means**2
        varied = variance > CONSTANT * raw
        auto = self.standardize == "auto"
        wanted = self.features.standardize if auto else self.standardize
        scale = np.where(varied, np.sqrt(np.where(varied, variance, 1.0)) if wanted else 1.0, 0.0)
        folds = [] if self.ridge != "folds" else [int(fold) for fold in filled]
        systems = [System(-1, everyone, Krylov.of(_right_side(everyone, scale)))]
        for fold in folds:
            rest = sums.without(fold)
            systems.append(System(fold, rest, Krylov.of(_right_side(rest, scale))))
        lengths = _over(_over(variance[:, None] * everyone.weight, scale), scale)
        mean = float(lengths.sum() / max(1, varied.sum()))
        path = PATH * (mean or 1.0) if self.ridges is None else np.asarray(self.ridges, float)
        ridges = path if isinstance(self.ridge, str) else np.array([float(self.ridge)])
        begun = replace(state, sums=sums, systems=tuple(systems), scale=scale, ridges=ridges)
        return self._judged(replace(begun, phase="products"))

    def _judged(self, state: Descent) -> Descent:
        """Return the state in the phase that follows from how far its systems have come."""
        ridges = state.ridges
        assert ridges is not None
        if self.ridge == "folds" and state.choice is None:
            off = [system.known.misfits(ridges).max() for system in state.systems[1:]]
            exhausted = all(system.known.is_exhausted for system in state.systems)
            ready = exhausted or max(off) <= CHOOSING
            return replace(state, phase="errors" if ready else "products")
        (system,) = state.systems
        ridge = float(ridges[0] if state.choice is None else np.asarray(state.choice.best))
        doubt = float(system.known.doubts(np.array([ridge]))[0])
        if not system.known.is_exhausted and not doubt <= self.tolerance:
            return replace(state, phase="products", doubt=doubt if np.isfinite(doubt) else None)
        weights, intercepts = _readouts(system, _scale(state), np.array([ridge]))
        readout = Readout(weights[0], intercepts[0], ridge)
        return replace(state, phase="done", doubt=doubt, readout=readout)

    def _asked(self, state: Descent) -> Directions:
        center = state.systems[0].sums.means
        mixtures, offsets, without = [], [], []
        for system in state.systems:
            V = _over(system.known.directions, _scale(state))
            mixtures.append(V)
            offsets.append((system.sums.means - center) @ V)
            without.append(np.full(V.shape[1], system.fold, dtype=np.int64))
        return Directions(center, np.hstack(mixtures), np.hstack(offsets), np.hstack(without))

    def _tried(self, state: Descent) -> FoldReadouts:
        assert state.ridges is not None
        scale, ridges = _scale(state), state.ridges
        made = [_readouts(system, scale, ridges) for system in state.systems[1:]]
        folds = np.array([system.fold for system in state.systems[1:]], dtype=np.int64)
        return FoldReadouts(np.stack([w for w, _ in made]), np.stack([b for _, b in made]), folds)

    def _chosen(self, state: Descent, errors: PathErrors) -> Descent:
        if state.ridges is None or errors.squared.shape[0] != len(state.ridges):
            raise FederationError("errors came that nobody asked for; begin with a first round")
        choice = chosen(state.ridges, errors.mean_squared())
        return self._judged(replace(state, choice=choice, systems=state.systems[:1]))

    def result(self, state: Descent) -> Model:
        if state.readout is None:
            off = "" if state.doubt is None else f", and weights may be off by {state.doubt:.1g}"
            raise FederationError(
                f"the rounds of the plan did not reach a tolerance of {self.tolerance:g} (clients "
                f"changed {state.restarts} times{off}); plan more rounds with every client in "
                "each, a larger ridge or a larger tolerance"
            )
        return Model(self.features, state.readout, self.classes)

    def figures(self, state: Descent) -> Mapping[str, float]:
        """Return the rows, how many directions were asked for, and how far off weights may be."""
        told: dict[str, float] = {"restarts": float(state.restarts)}
        if state.sums is not None:
            told["rows"] = float(state.sums.n_rows)
            told["directions"] = float(state.systems[0].known.basis.shape[1])
        if state.doubt is not None:
            told["error bound"] = state.doubt
        return told | readout_figures(state.readout, state.choice)

    def kept(self, state: Descent) -> Kept:
        return Kept(choice=state.choice)


def _scale(state: Descent) -> Array:
    assert state.scale is not None
    return state.scale


def _over(X: Array, scale: Array) -> Array:
    """Return rows (F, k) divided by a scale (F,), zeros where that is zero."""
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    return X * inverse[:, None]


def _right_side(sums: FirstSums, scale: Array) -> Array:
    C = sums.cross[0] - np.outer(sums.feature_sum[0] / sums.weight, sums.target_sum[0])
    return _over(C, scale)


def _readouts(system: System, scale: Array, ridges: Array) -> tuple[Array, Array]:
    """Return weights (R, F, K) of undivided features and intercepts (R, K)."""
    weights = np.stack([_over(W, scale) for W in system.known.solutions(ridges)])
    sums = system.sums
    intercepts = sums.target_sum[0] / sums.weight - np.einsum("f,rfk->rk", sums.means, weights)
    return weights, intercepts


def _same_rows(asked: Directions, total: Products, state: Descent) -> bool:
    """Return whether products are of the rows of the first round."""
    sums = state.sums
    if sums is None or total.products.shape != asked.mixtures.shape:
        return False
    weights = np.array([sums.without(int(fold)).weight for fold in asked.without])
    squares = np.maximum((asked.mixtures * total.products).sum(axis=0), 0.0)
    length = np.sqrt(sums.squares.sum(axis=0) / sums.weight) @ np.abs(asked.mixtures)
    small = UNCHANGED * np.sqrt(weights * squares) + ROUNDING * length * weights
    same = total.n_rows == sums.n_rows and abs(total.weight - sums.weight) <= 1e-9 * sums.weight
    return same and bool((np.abs(total.sums) <= small).all())


@dataclass(frozen=True, eq=False)
class Krylov:
    """What is known of one ridge system after some products.

    Parameters
    ----------
    basis, projected
        V (F, m) and T = V'AV (m, m).
    start
        V'B (m0, K), as the first directions span B.
    lengths
        Of the columns of B (K,); they are divided by them.
    directions
        (F, k), of which the product with A is wanted next; none once the space is exhausted.
    coupling
        (k, k_last) with A V_last = V T_last + directions coupling.
    """

    basis: Annotated[Array, Shape("features", "basis")]
    projected: Annotated[Array, Shape("basis", "basis")]
    start: Array
    lengths: Array
    directions: Array
    coupling: Array

    @classmethod
    def of(cls, B: Array) -> Krylov:
        """Return what is known before any product.

        >>> np.abs(Krylov.of(np.array([[3.0], [4.0]])).directions.ravel())
        array([0.6, 0.8])
        """
        lengths = np.linalg.norm(B, axis=0)
        unit = B / np.where(lengths > 0, lengths, 1.0)
        Q = _orthonormal(unit, 1.0)
        F = len(B)
        none = np.zeros((Q.shape[1], 0))
        return cls(np.zeros((F, 0)), np.zeros((0, 0)), Q.T @ unit, lengths, Q, none)

    @property
    def is_exhausted(self) -> bool:
        """Whether no direction is left, so that solutions are exact."""
        return not self.directions.size

    def after(self, product: Array) -> Krylov:
        """Return what is known with the product (F, k) of A and the directions.

        >>> A, B = np.diag([1.0, 2.0]), np.array([[1.0], [1.0]])
        >>> known = Krylov.of(B)
        >>> for _ in range(2): known = known.after(A @ known.directions)
        >>> known.is_exhausted, known.solutions(np.array([1.0]))[0].ravel()
        (True, array([0.5       , 0.33333333]))
        """
        V = np.hstack([self.basis, self.directions])
        m, k = self.basis.shape[1], self.directions.shape[1]
        along = V.T @ product
        T = np.zeros((m + k, m + k))
        T[:m, :m] = self.projected
        T[:, m:] = along
        T[m:, :m] = along[:m].T
        T[m:, m:] = (along[m:] + along[m:].T) / 2
        rest = product - V @ along
        rest -= V @ (V.T @ rest)
        longest = float(np.linalg.norm(product, axis=0).max(initial=0.0))
        largest = max(longest, float(np.abs(T).max(initial=0.0)))
        room = len(V) - V.shape[1]
        Q = _orthonormal(rest, largest)[:, :room]
        Q = _orthonormal(Q - V @ (V.T @ Q), 1.0)
        return replace(self, basis=V, projected=T, directions=Q, coupling=Q.T @ rest)

    def solutions(self, ridges: Array) -> Array:
        """Return W (R, F, K) for each of some ridges."""
        inside = self._inside(ridges)[0]
        return np.asarray(np.einsum("fm,rmk->rfk", self.basis, inside) * self.lengths)

    def doubts(self, ridges: Array) -> Array:
        """Return for each ridge (R,) by how much W may be off, relative to its length.

        It is the largest over the outputs of |R| / (ridge |W|), 0 where the residual is as small
        as float64 makes it or no direction is left.
        """
        left, inside = self._residuals(ridges)
        return _ratio(left, np.asarray(ridges)[:, None] * np.linalg.norm(inside, axis=1))

    def misfits(self, ridges: Array) -> Array:
        """Return for each ridge (R,) by how much outputs may be off, relative to their length.

        The outputs' errors E and the outputs themselves are measured as the system does, by
        E'(A + ridge I) E <= |R|^2 / ridge and W'(A + ridge I) W = W'B.
        """
        left, inside = self._residuals(ridges)
        energy = np.einsum("rmk,mk->rk", inside[:, : len(self.start)], self.start)
        return _ratio(left, np.sqrt(np.asarray(ridges)[:, None] * np.maximum(energy, 0.0)))

    def _residuals(self, ridges: Array) -> tuple[Array, Array]:
        """Return |R| (R, K), 0 where it is rounding, and the solutions in the basis."""
        if not self.basis.shape[1]:
            nothing = np.zeros((len(ridges), *self.start.shape))
            return np.where(self.lengths > 0, np.inf, np.zeros((len(ridges), 1))), nothing
        inside, largest = self._inside(ridges)
        last = inside[:, inside.shape[1] - self.coupling.shape[1] :]
        left = np.linalg.norm(np.einsum("kl,rlo->rko", self.coupling, last), axis=1)
        rounding = EXACT * largest * np.linalg.norm(inside, axis=1)
        return np.where(left <= rounding, 0.0, left), inside

    def _inside(self, ridges: Array) -> tuple[Array, float]:
        """Return the solutions (R, m, K) in the basis, of B's columns of length 1, and |T|."""
        values, vectors = eigh(self.projected, check_finite=False)
        values = np.maximum(values, 0.0)
        b = vectors[: len(self.start)].T @ self.start
        shifted = values[None, :, None] + np.asarray(ridges)[:, None, None]
        smallest = np.finfo(np.float64).tiny
        y = np.where(shifted > smallest, b / np.maximum(shifted, smallest), 0.0)
        return np.einsum("mn,rnk->rmk", vectors, y), float(values.max(initial=0.0))


def _ratio(left: Array, size: Array) -> Array:
    """Return the largest (R,) over outputs of left / size (R, K), 0 where nothing is left."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(left == 0, 0.0, left / size)
    return np.asarray(found.max(axis=1, initial=0.0))


def _orthonormal(X: Array, length: float) -> Array:
    """Return an orthonormal basis of the columns, without what is rounding beside the length."""
    if not X.size:
        return np.zeros((len(X), 0))
    Q, R, _ = qr(X, mode="economic", pivoting=True, check_finite=False)
    rank = int((np.abs(R.diagonal()) > INDEPENDENT * length).sum())
    return np.ascontiguousarray(Q[:, :rank])
