"""How much one client may weigh in a sum by its own word: its rows, its weight, and that it is one.

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

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from catchment.errors import FederationError, UploadError
from catchment.federation.limits import Limits
from catchment.federation.sums import Tally
from catchment.structure import CLIENTS, COUNTED, ROWS, WEIGHT
from catchment.structure.fields import marks_of
from catchment.wire import Parts

V = TypeVar("V")

FEWEST = 5  # clients of which a median says something
MOST_HELD = 8  # uploads kept back because they look too large
SLACK = 0.02  # what a compressed upload may be off by


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

    >>> from catchment.federation.sums import WeightedSum
    >>> claimed(WeightedSum((), 40.0))
    Claim(rows=0.0, weight=40.0, per_row=0.0, clients=1)
    """

    rows: float = 0.0
    weight: float = 0.0
    per_row: float = 0.0
    clients: int | None = None

    @property
    def size(self) -> float:
        """By which clients are compared."""
        return max(self.rows, self.weight)

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


def claimed(value: object) -> Claim:
    """Return what a value says of its size, in the fields that it declares for that."""
    found = list(_claims(value))
    if len(found) == 1:
        return found[0]
    return Claim(
        max((one.rows for one in found), default=0.0),
        max((one.weight for one in found), default=0.0),
        max((one.per_row for one in found), default=0.0),
        next((one.clients for one in found if one.clients not in (None, 1)), None),
    )


def _claims(value: object) -> Iterator[Claim]:
    if isinstance(value, Tally):
        yield from _claims(value.total)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _claims(one)
    elif isinstance(value, tuple):
        for one in value:
            yield from _claims(one)
    elif is_dataclass(value) and not isinstance(value, type | Parts):
        said = _said(type(value))
        if not said:
            for field in fields(value):
                yield from _claims(vars(value)[field.name])
            return
        held = {mark: _most(vars(value)[name]) for mark, name in said}
        rows = max(held.get(ROWS, 0.0), held.get(COUNTED, 0.0))
        weight = held.get(WEIGHT, 0.0)
        per_row = 0.0
        if weight > 0 and (ROWS in held or COUNTED in held):
            per_row = weight / rows if rows > 0 else np.inf
        clients = int(held[CLIENTS]) if CLIENTS in held else None
        yield Claim(rows, weight, per_row, clients)


@lru_cache(maxsize=512)
def _said(made: Any) -> tuple[tuple[object, str], ...]:
    """Return the fields of a class that say how large it is, each with the mark that says so."""
    wanted = (ROWS, WEIGHT, COUNTED, CLIENTS)
    return tuple(
        (mark, name) for name, marks in marks_of(made).items() for mark in marks if mark in wanted
    )


def _most(held: Any) -> float:
    if isinstance(held, np.ndarray):
        return float(held.max(initial=0))
    return float(held)


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

    >>> from catchment.federation.sums import WeightedSum
    >>> sent = {f"c{k}": WeightedSum((), 40.0) for k in range(6)} | {"ann": WeightedSum((), 4e7)}
    >>> screen = Screen(Limits(), len(sent), lambda client, error: print(error))
    >>> passed = list(screen.passed(sent.items()))
    ann claims a weight of 4e7, 1000000 times the median of 40; if that is right raise over_median
    >>> len(passed)
    6
    """

    def __init__(
        self, limits: Limits, n_asked: int, refuse: Callable[[str, UploadError], None]
    ) -> None:
        self._limits, self._refuse = limits, refuse
        self._compares = n_asked >= FEWEST
        self._sizes: list[float] = []
        self._limit = np.inf
        self._largest: tuple[float, str] = (0.0, "")

    def passed(
        self, updates: Iterable[tuple[str, V]], claim_of: Callable[[V], Claim] = claimed
    ) -> Iterator[tuple[str, V]]:
        """Yield the uploads that may be added, those that were kept back last."""
        first: list[tuple[str, V, Claim]] = []
        held: list[tuple[str, V, Claim]] = []
        for client, update in updates:
            claim = claim_of(update)
            try:
                claim.check(self._limits)
            except UploadError as error:
                self._refuse(client, error)
                continue
            if not self._compares:
                yield client, update
                continue
            self._sizes.append(claim.size)
            first.append((client, update, claim))
            if len(self._sizes) < FEWEST:
                continue
            for one in first:
                if self._may_pass(one[2]):
                    yield self._taken(*one)
                else:
                    held.append(one)
            first = []
            if len(held) > MOST_HELD:
                yield from self._fewer(held)
        if len(self._sizes) >= FEWEST:
            self._compute()
        for one in (*first, *held):
            if one[2].size <= self._limit:
                yield self._taken(*one)
            else:
                self._too_large(one[0], one[2])
        self._refuse_late()

    def _may_pass(self, claim: Claim) -> bool:
        # The median is computed anew only where it matters: most clients are of a like size.
        if claim.size > self._limit or self._limit == np.inf:
            self._compute()
        return claim.size <= self._limit

    def _compute(self) -> None:
        filled = [size for size in self._sizes if size > 0]
        median = float(np.median(filled)) if filled else 0.0
        self._limit = median * self._limits.over_median if filled else np.inf

    def _fewer(self, held: list[tuple[str, V, Claim]]) -> Iterator[tuple[str, V]]:
        """Yield what can be taken by now; if too many are left, refuse the largest."""
        self._compute()
        for one in tuple(held):
            if one[2].size <= self._limit:
                held.remove(one)
                yield self._taken(*one)
        if len(held) > MOST_HELD:
            largest = max(held, key=lambda one: one[2].size)
            held.remove(largest)
            self._too_large(largest[0], largest[2])

    def _taken(self, client: str, update: V, claim: Claim) -> tuple[str, V]:
        self._largest = max(self._largest, (claim.size, client))
        return client, update

    def _too_large(self, client: str, claim: Claim) -> None:
        self._refuse(client, UploadError("over-median", self._sentence(client, claim)))

    def _sentence(self, client: str, claim: Claim) -> str:
        median = self._limit / self._limits.over_median
        return (
            f"{client} claims {claim}, {_short(claim.size / median)} times the median of "
            f"{_short(median)}; if that is right raise over_median"
        )

    def _refuse_late(self) -> None:
        """Raise if one of the first uploads is too large after all: it is in the sum by now."""
        size, client = self._largest
        if size > self._limit:
            raise FederationError(
                f"{self._sentence(client, Claim(weight=size))}, else leave it out: it came before "
                "the others were known, and cannot be taken out of the sum"
            )


def check_total(value: object, limits: Limits, n_clients: int) -> None:
    """Raise FederationError if the sum of so many hidden uploads claims what they cannot.

    Which of them lied is not to be seen.
    """
    try:
        claimed(value).check(limits, n_clients)
    except UploadError as error:
        raise FederationError(
            f"the sum of {n_clients} clients is not believed: {error}; a secure sum does not show "
            "who broke the rule, nothing is used"
        ) from error


def _short(number: float) -> str:
    """Return a number as it is said.

    >>> _short(40.0), _short(4e7), _short(1.5), _short(1e300)
    ('40', '4e7', '1.5', '1e300')
    """
    if abs(number) < 1e7:
        return f"{number:.7g}"
    return f"{number:.3g}".replace("e+0", "e").replace("e+", "e")
