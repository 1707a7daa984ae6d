"""Which uploads to believe, and how much one client may weigh in a sum by its own word.

For any data M = [[n, s', t'], [s, G, C], [t, C', Y'Y]] is a matrix of moments: symmetric and never
negative. Statistics that break this were not computed from data, and are refused with a code of
their own. What data could have, but other clients' data speak against, is flagged elsewhere.

What a client says of its size cannot be checked against its data, which stay with it. So it is
bounded by the plan's `Limits`: by `max_rows` and `max_weight`, and, where five or more clients can
be compared, by `over_median` times the median of the round's clients. An upload beyond is refused
and its client named; nothing is ever scaled down in silence.

The median is known when the last upload is here, the sum begins with the first, and not all uploads
fit into memory. So the first five are kept back, and later each one that is too large for the
median so far, eight at the most. These are decided by the median of all; if there are more, the
largest of them is decided by the median so far. All others go through in their order, so that the
bits of a sum in which nothing was kept back are those of a sum without the rule.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache, partial
from operator import attrgetter, itemgetter
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from catchment.arrays import Array, Fraction, PositiveFloat, PositiveInt, check_fields
from catchment.errors import FederationError, UploadError
from catchment.federation.algorithm import Tally
from catchment.readout.fixed_point import FixedPoint
from catchment.readout.integers import largest
from catchment.readout.linear_algebra import cholesky
from catchment.readout.statistics import (
    RidgeStatistics,
    diagonal_places,
    mirror_lower,
    same_features,
    unpack_lower,
)
from catchment.wire import CLIENTS, COUNTED, ROWS, WEIGHT, Message, marked

V = TypeVar("V")
FEWEST = 5  # clients of which a median says something
MOST_HELD = 8  # uploads kept back because they look too large
SLACK = 0.02  # of the weight: what a compressed upload may be off by
TOLERANCE = 1e-7  # per row of a matrix of moments with ones on its diagonal: float32 is off by 6e-8


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a round takes from one client, and with how many clients refused it still ends well.

    Parameters
    ----------
    min_usable
        Least share of the clients asked whose answers must be usable: with half of them refused
        something is wrong with the plan or with them, and a model of the rest would hide it.
    max_rows
        Most rows, or examples, that one client may claim to have in a round.
    max_weight
        Most weight per row: 1 unless recordings have weights of their own above that.
    over_median
        How many times the median of the round's clients one of them may claim; whoever claims more
        is refused and named. At 10 a client is below half of the weight of a round of twelve or
        more clients of like size; raise it where honest clients differ by more. Fewer than five
        clients are not compared, and neither are those whose data lie in the process that trains,
        unless limits are passed or written.

    >>> Limits(min_usable=0.9).fewest(30)
    27
    >>> Limits(over_median=0.5)
    Traceback (most recent call last):
    ValueError: over_median is 0.5; give a number, 1 or more
    """

    min_usable: Fraction = 0.5
    max_rows: PositiveInt = 10**8
    max_weight: PositiveFloat = 1.0
    over_median: Annotated[float, Ge(1)] = 10.0

    def __post_init__(self) -> None:
        check_fields(self)

    def fewest(self, n_asked: int) -> int:
        """Return how many of so many clients must be usable."""
        # A product such as 0.1 * 30 is a little more than the integer that is meant.
        return math.ceil(self.min_usable * n_asked - 1e-9)


# Where nobody said anything. Sizes that clients claim from elsewhere are compared then; those of
# data that lie here are counted, and nobody is left out for having most.
LIMITS = Limits()


@dataclass(frozen=True)
class Claim:
    """What a value says of its own size.

    Parameters
    ----------
    rows
        Rows behind it; of a value with several inside, the most that one of them has.
    weight
        What it weighs in a mean, likewise.
    per_row
        The most weight per row, where it says both.
    clients
        How many clients it is of; None if it does not say.

    >>> from catchment.federation.algorithm import WeightedSum
    >>> claimed(WeightedSum((), 40.0))
    Claim(rows=0.0, weight=40.0, per_row=0.0, clients=1)
    """

    rows: float = 0.0
    weight: float = 0.0
    per_row: float = 0.0
    clients: int | None = None

    def __str__(self) -> str:
        return f"{_short(self.rows)} rows" if self.rows >= self.weight else self._weight

    @property
    def _weight(self) -> str:
        return f"a weight of {_short(self.weight)}"

    def check(self, limits: Limits, n_clients: int = 1) -> None:
        """Raise UploadError if so many clients cannot claim this.

        >>> limits = Limits(max_rows=1000)
        >>> Claim(rows=40.0, weight=40.0, per_row=1.0, clients=1).check(limits)
        >>> Claim(rows=5000.0).check(limits)
        Traceback (most recent call last):
        catchment.errors.UploadError: 5000 rows are claimed, a client may have 1000 in a round; if
        that is right raise max_rows
        """
        whose = "a client may" if n_clients == 1 else f"{n_clients} clients may"
        if self.clients not in (None, n_clients):
            raise UploadError(
                "clients",
                f"{_short(float(self.clients or 0))} clients are claimed, {n_clients} sent it",
            )
        if not self.rows <= limits.max_rows * n_clients:
            raise UploadError(
                "rows",
                f"{_short(self.rows)} rows are claimed, {whose} have "
                f"{_short(float(limits.max_rows * n_clients))} in a round; if that is right raise "
                "max_rows",
            )
        if not self.per_row <= limits.max_weight * (1 + SLACK):
            raise UploadError(
                "weight",
                f"{self._weight} is claimed for {_short(self.rows)} rows, the plan allows "
                f"{limits.max_weight:g} per row; if rows are weighted raise max_weight",
            )
        if not self.weight <= limits.max_rows * limits.max_weight * n_clients * (1 + SLACK):
            raise UploadError(
                "weight",
                f"{self._weight} is claimed, {whose} have "
                f"{_short(limits.max_rows * limits.max_weight * n_clients)}; if that is right "
                "raise max_rows or max_weight",
            )


@lru_cache(maxsize=512)
def _sizes_of(made: Any) -> tuple[tuple[str, str], ...]:
    """Return in which fields a class says its size, by what they say."""
    if issubclass(made, type | Message | Tally | Mapping | tuple) or not is_dataclass(made):
        return ()
    marks = {"rows": ROWS, "weight": WEIGHT, "counted": COUNTED, "clients": CLIENTS}
    return tuple((said, name) for said, mark in marks.items() if (name := marked(made, mark)))


def claimed(value: object) -> Claim:
    """Return what a value says of its size, in the fields that it declares for that."""
    found: list[Claim] = []
    waiting = [value]
    while waiting:
        one: Any = waiting.pop()
        made: Any = type(one)
        held: dict[str, float] = {}
        for mark, name in _sizes_of(made):
            size = vars(one)[name]
            held[mark] = float(size.max(initial=0) if isinstance(size, np.ndarray) else size)
        if held:
            rows = max(held.get("rows", 0.0), held.get("counted", 0.0))
            weight, per_row = held.get("weight", 0.0), 0.0
            if weight > 0 and ("rows" in held or "counted" in held):
                per_row = weight / rows if rows > 0 else np.inf
            clients = int(held["clients"]) if "clients" in held else None
            found.append(Claim(rows, weight, per_row, clients))
        elif isinstance(one, Tally):
            waiting.append(one.total)
        elif isinstance(one, Mapping):
            waiting += one.values()
        elif isinstance(one, tuple):
            waiting += one
        elif is_dataclass(one) and not isinstance(one, type | Message):
            waiting += map(vars(one).__getitem__, map(attrgetter("name"), fields(one)))
    if len(found) == 1:
        return found[0]
    return Claim(
        max((one.rows for one in found), default=0.0),
        max((one.weight for one in found), default=0.0),
        max((one.per_row for one in found), default=0.0),
        next((one.clients for one in found if one.clients not in (None, 1)), None),
    )


@dataclass(eq=False)
class Screen:
    """Uploads on their way into a sum; what claims too much is refused.

    Parameters
    ----------
    limits
        Those of the plan.
    n_asked
        How many clients were asked; fewer than five are not compared.
    refuse
        Told the client and the reason of every refusal.

    >>> from catchment.federation.algorithm import WeightedSum
    >>> sent = {f"c{k}": WeightedSum((), 40.0) for k in range(6)} | {"ann": WeightedSum((), 4e7)}
    >>> screen = Screen(Limits(), len(sent), lambda client, error: print(error))
    >>> passed = [screen.take(client, one, claimed(one)) for client, one in sent.items()]
    >>> list(map(len, passed)), screen.rest()
    ann claims a weight of 4e7, 1000000 times the median of 40; if that is right raise over_median
    ([0, 0, 0, 0, 5, 1, 0], [])
    """

    limits: Limits
    n_asked: int
    refuse: Callable[[str, UploadError], None]
    # 8 bytes a client.
    _sizes: array[float] = field(default_factory=partial(array, "d"))  # type: ignore[arg-type]
    _n_filled: int = 0
    _limit: float = np.inf
    _largest: tuple[float, str] = (0.0, "")
    # All of them, while there are fewer than five.
    _held: list[tuple[str, Any, Claim, float]] = field(default_factory=list)

    def take(self, client: str, update: V, claim: Claim) -> list[tuple[str, V]]:
        """Return the uploads that may be added now that this one is here, it or earlier ones."""
        try:
            claim.check(self.limits)
        except UploadError as error:
            self.refuse(client, error)
            return []
        if self.n_asked < FEWEST:
            return [(client, update)]
        size = max(claim.rows, claim.weight)
        self._sizes.append(size)
        self._n_filled += size > 0
        self._held.append((client, update, claim, size))
        if len(self._sizes) < FEWEST:
            return []
        # The median is computed anew only where it matters: most clients are of a like size.
        if size > self._limit or self._limit == np.inf:
            self._compute()
        passed = self._let_through(0 if len(self._sizes) == FEWEST else len(self._held) - 1)
        if len(self._held) > MOST_HELD:
            self._compute()
            passed += self._let_through()
        if len(self._held) > MOST_HELD:
            largest = max(self._held, key=itemgetter(3))
            self._held.remove(largest)
            self._too_large(largest[0], largest[2])
        return passed

    def rest(self) -> list[tuple[str, Any]]:
        """Return those that were kept back and may be added now that all are here."""
        if len(self._sizes) >= FEWEST:
            self._compute()
        passed = self._let_through()
        for client, _, claim, _ in self._held:
            self._too_large(client, claim)
        most, client = self._largest
        if most > self._limit:  # one of the first, which is in the sum by now
            raise FederationError(
                f"{self._sentence(client, Claim(weight=most))}, else leave it out: it came before "
                "the others were known, and cannot be taken out of the sum"
            )
        return passed

    def _let_through(self, begin: int = 0) -> list[tuple[str, Any]]:
        """Return those kept back, from a place on, that are not too large for the median so far."""
        waiting, passed = self._held[begin:], []
        del self._held[begin:]
        for one in waiting:
            if one[3] <= self._limit:
                self._largest = max(self._largest, (one[3], one[0]))
                passed.append(one[:2])
            else:
                self._held.append(one)
        return passed

    def pass_together(self, clients: Sequence[str], claims: NDArray[np.float64]) -> bool:
        """Take note of uploads that are added already; False, and no note, if one may not be.

        That is, if one of them would be refused or kept back, were they to come one by one.

        Parameters
        ----------
        claims
            (n, 2) the rows and the weight of each client, none beyond what `Claim.check` allows.
        """
        n = len(self._sizes)
        if self.n_asked >= FEWEST and (0 < n < FEWEST or n + len(claims) < FEWEST):
            return len(claims) == 0
        if self.n_asked < FEWEST or len(claims) == 0:
            return True
        before, n_held = self.mark(), len(self._held)
        for client, (rows, weight) in zip(clients, claims.tolist(), strict=True):
            self.take(client, None, Claim(rows, weight))
            if len(self._held) > n_held and len(self._sizes) >= FEWEST:
                self.go_back(before)
                return False
        return True

    def mark(self) -> tuple[int, int, int, float, tuple[float, str]]:
        """Return where this is, to go back to before any upload is kept back."""
        return len(self._sizes), len(self._held), self._n_filled, self._limit, self._largest

    def go_back(self, mark: tuple[int, int, int, float, tuple[float, str]]) -> None:
        """Forget what passed together after a mark."""
        n_sizes, n_held, self._n_filled, self._limit, self._largest = mark
        del self._sizes[n_sizes:], self._held[n_held:]

    def _compute(self) -> None:
        # Where nobody claims a size there is none to look for, and every client comes here.
        if self._n_filled == 0:
            self._limit = np.inf
            return
        sizes = np.array(self._sizes)
        self._limit = float(np.median(sizes[sizes > 0])) * self.limits.over_median

    def _too_large(self, client: str, claim: Claim) -> None:
        self.refuse(client, UploadError("over-median", self._sentence(client, claim)))

    def _sentence(self, client: str, claim: Claim) -> str:
        median = self._limit / self.limits.over_median
        times = max(claim.rows, claim.weight) / median
        return (
            f"{client} claims {claim}, {_short(times)} times the median of "
            f"{_short(median)}; if that is right raise over_median"
        )


def check_total(value: object, limits: Limits, n_clients: int) -> None:
    """Raise FederationError if the sum of so many hidden uploads claims what they cannot.

    Which of them lied is not to be seen.
    """
    try:
        claimed(value).check(limits, n_clients)
    except UploadError as error:
        raise FederationError(
            f"the sum of {n_clients} clients is not believed: {error}; secure aggregation does "
            "not show who broke the rule, nothing is used"
        ) from error


def _short(number: float) -> str:
    """Return a number as it is said.

    >>> _short(40.0), _short(4e7), _short(1.5), _short(1e300)
    ('40', '4e7', '1.5', '1e300')
    """
    if abs(number) < 1e7:
        return f"{number:.7g}"
    return f"{number:.3g}".replace("e+0", "e").replace("e+", "e")


def check_statistics(
    statistics: RidgeStatistics,
    *,
    fingerprint: str,
    n_features: int | None = None,
    n_targets: int | None = None,
    state_bound: float | Array | None = None,
    constant: bool = False,
    one_hot: bool = False,
    fixed: FixedPoint | Literal["any"] | None = "any",
) -> None:
    """Raise UploadError, with a code of its own, for statistics that no data can have.

    Parameters
    ----------
    fingerprint
        Of the features that the plan asks for.
    n_features, n_targets
        Columns of the features and of the targets, if known.
    state_bound
        Largest absolute value a feature can have, one number or (F,), as a map's `bounds` say.
    constant
        Whether the first feature is one in every row.
    one_hot
        Whether every target row is a single one among zeros.
    fixed
        Of the plan's statistics, None if they are float64.

    >>> s = RidgeStatistics.from_states(np.ones((3, 2)), np.ones((3, 1)), fingerprint="f")
    >>> check_statistics(s, fingerprint="f")
    >>> check_statistics(s.scaled(-1.0), fingerprint="f")
    Traceback (most recent call last):
    catchment.errors.UploadError: the weight is -3.0 for 3 rows; it cannot be negative
    """
    check_origin(statistics, fingerprint, n_features, n_targets)
    if not np.isfinite(statistics.weight) or statistics.weight < 0:
        raise UploadError(
            "count",
            f"the weight is {statistics.weight} for {statistics.n_rows} rows; "
            "it cannot be negative",
        )
    if fixed != "any" and statistics.fixed != fixed:
        came, wanted = (
            "float64" if g is None else f"integers {g.to_json()[:60]}"
            for g in (statistics.fixed, fixed)
        )
        raise UploadError("grid", f"the statistics came as {came}, the plan asks for {wanted}")
    if fixed != "any" and fixed is not None and state_bound is not None:
        # What is added to integers is no larger than rows can be.
        weight = int(statistics.weight)
        for name, most in (("feature_sum", 1 << fixed.bits), ("gram", 1 << 2 * fixed.bits)):
            if largest(getattr(statistics, name)) > weight * most:
                raise UploadError(
                    "bound",
                    f"{name} is larger than rows of weight {weight} in fixed point can have",
                )
    statistics = statistics.floats
    M = lower_moment_matrix(statistics)
    if state_bound is not None:
        _check_bound(statistics, M.diagonal()[1 : 1 + statistics.n_features], state_bound)
    if not _can_be_moments(M):
        numbers = (statistics.feature_sum, statistics.target_sum, statistics.gram, statistics.cross)
        if not all(np.isfinite(a).all() for a in (*numbers, statistics.target_gram)):
            raise UploadError("not-finite", "the statistics hold NaN or infinite numbers")
        raise UploadError("moments", "no data can have these moments; the upload is not believed")
    if constant:
        _check_constant(statistics)
    if one_hot:
        check_classes(statistics)


def check_origin(
    came: Any, fingerprint: str, n_features: int | None, n_targets: int | None
) -> None:
    """Refuse what is of other features or targets, before anything is computed from it."""
    if came.fingerprint != fingerprint:
        if same_features(came.fingerprint, fingerprint):
            raise UploadError(
                "fingerprint",
                "the statistics were made for a plan of any device, or this plan is one and they "
                "were not; set deterministic=False on both sides, or on neither",
            )
        raise UploadError(
            "fingerprint",
            f"the statistics are of features {came.fingerprint[:12] or 'unknown'}, "
            f"the plan asks for {fingerprint[:12]}; rebuild the reservoir from the plan's recipe",
        )
    if n_features is not None and came.n_features != n_features:
        raise UploadError("shape", f"{came.n_features} features came, {n_features} are planned")
    if n_targets is not None and came.n_targets != n_targets:
        raise UploadError("shape", f"{came.n_targets} targets came, {n_targets} are planned")


def lower_moment_matrix(statistics: RidgeStatistics) -> Array:
    """Return the moments (1 + F + K, 1 + F + K) of the constant, the features and the targets.

    Only the lower triangle is filled in; what lies above it has no meaning.
    """
    statistics = statistics.floats
    F, K = statistics.n_features, statistics.n_targets
    M = np.empty((1 + F + K, 1 + F + K), order="F")
    M[0, 0] = statistics.weight
    M[1 : 1 + F, 0] = statistics.feature_sum
    M[1 + F :, 0] = statistics.target_sum
    M[1 : 1 + F, 1 : 1 + F] = unpack_lower(statistics.gram)
    M[1 + F :, 1 : 1 + F] = statistics.cross.T
    M[1 + F :, 1 + F :] = unpack_lower(statistics.target_gram)
    return M


def moment_matrix(statistics: RidgeStatistics) -> Array:
    """Return the moments (1 + F + K, 1 + F + K) of the constant, the features and the targets.

    >>> s = RidgeStatistics.from_states(np.array([[2.0], [3.0]]), np.array([[1.0], [0.0]]))
    >>> moment_matrix(s)
    array([[ 2.,  5.,  1.],
           [ 5., 13.,  2.],
           [ 1.,  2.,  1.]])
    """
    return mirror_lower(lower_moment_matrix(statistics))


def _can_be_moments(M: Array) -> bool:
    """Whether no eigenvalue of the lower triangle M, scaled to a unit diagonal, is negative.

    With the diagonal enlarged by what rounding may have done, a Cholesky factorization exists or it
    does not; it does not mind the scale of rows, so that large targets do not hide a small
    impossible block. M is overwritten.
    """
    diagonal = M.ravel(order="K")[:: len(M) + 1]
    if not diagonal.min(initial=0.0) >= 0.0:
        return False
    slack = TOLERANCE * len(M)
    diagonal *= 1.0 + slack
    diagonal[diagonal == 0.0] = slack
    try:
        # A number that is not finite ends up in a pivot.
        return bool(np.isfinite(cholesky(M).diagonal().sum()))
    except np.linalg.LinAlgError:
        return False


def _check_bound(statistics: RidgeStatistics, squares: Array, bound: float | Array) -> None:
    most = np.square(bound) * statistics.weight * (1 + SLACK) if statistics.weight else 0.0
    if (squares > most).any():
        place = int(np.argmax(squares > most))
        value = squares[place] / max(statistics.weight, 1e-300)
        raise UploadError(
            "bound",
            f"the mean square of feature {place} is {value:.3g}, above "
            f"{np.square(np.broadcast_to(bound, squares.shape)[place]):.3g}, the largest this "
            "reservoir can have",
        )


def _check_constant(statistics: RidgeStatistics) -> None:
    """A feature that is one in every row sums to the weight, and so do its squares."""
    counted = np.array([statistics.feature_sum[0], statistics.gram[0]])
    if (np.abs(counted - statistics.weight) > SLACK * statistics.weight + TOLERANCE).any():
        raise UploadError(
            "constant",
            f"the constant feature counts {counted[1]:.6g} rows, "
            f"the upload says {statistics.weight:.6g}",
        )


def check_classes(statistics: RidgeStatistics, n_classes: int | None = None) -> None:
    """Raise UploadError if targets are not one of so many classes per row.

    Ones among zeros have squares equal to their sums, no products, and one per row.

    >>> y = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> check_classes(RidgeStatistics.from_states(np.ones((2, 1)), y), 2)
    """
    if n_classes not in (None, statistics.n_targets):
        raise UploadError("shape", f"{statistics.n_targets} targets came, {n_classes} are planned")
    unit = 1.0 if statistics.fixed is None else 2.0**-statistics.fixed.target_digits
    products, sums = unit**2 * statistics.target_gram, unit * statistics.target_sum
    places = diagonal_places(len(products))
    squares = products[places]
    products[places] -= sums
    if sums.sum() == statistics.weight and not products.any():
        return  # to the last bit, as sums of integers are
    products[places] = 0.0
    wrong = (np.abs(products).sum(), np.abs(squares - sums).max(initial=0.0))
    if max(*wrong, abs(sums.sum() - statistics.weight)) > SLACK * statistics.weight + TOLERANCE:
        raise UploadError("classes", "the targets are not one class per row")
