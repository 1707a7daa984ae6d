"""Additive values: weighted sums, and sums that remember what each client gave.

How well clients did while they trained: their mean loss, and the share they got right.

A client means over its examples as its steps met them, and sends three numbers that add: its weight
w, w loss / 2^20 and w accuracy. A loss above 2^20 is sent as 2^20, so that none of the three is
ever larger than the weight, which travels anyway: where weights fit into a secure sum, these do.
A client that tells nothing sends zeros.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar, get_args

from catchment.arrays import Array
from catchment.errors import FederationError, UploadError
from catchment.wire import (
    ANY_FLOAT,
    CLIENTS,
    GATHERED,
    LATER,
    NOT_NEGATIVE,
    POOLED,
    REMARK,
    WEIGHT,
    Kind,
    Summable,
)

LARGEST_LOSS = 2.0**20
V = TypeVar("V")
W = TypeVar("W", bound="WeightedSum")
Weighting = Literal["samples", "uniform", "printed"]
WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)


@dataclass(frozen=True)
class Progress:
    """Mean loss and share of right answers; None where they are not known."""

    loss: float | None = None
    accuracy: float | None = None

    def weighted(self, weight: float) -> tuple[float, float, float]:
        """Return what a client of this weight sends.

        >>> Progress(loss=2.0**19, accuracy=0.25).weighted(8.0)
        (8.0, 4.0, 2.0)
        """
        if self.loss is None:
            return 0.0, 0.0, 0.0
        loss = LARGEST_LOSS if math.isnan(self.loss) else min(max(self.loss, 0.0), LARGEST_LOSS)
        return weight, weight * loss / LARGEST_LOSS, weight * (self.accuracy or 0.0)

    @classmethod
    def mean(cls, telling: float, loss: float, right: float, *, scored: bool) -> Progress:
        """Return the mean of what clients sent, from the sums; nothing if none told any.

        Parameters
        ----------
        telling, loss, right
            Sums of what clients sent.
        scored
            Whether they know what they got right.

        >>> Progress.mean(8.0, 2.0**-17, 2.0, scored=True)
        Progress(loss=1.0, accuracy=0.25)
        """
        if not telling > 0:
            return cls()
        return cls(loss / telling * LARGEST_LOSS, right / telling if scored else None)

    @property
    def figures(self) -> dict[str, float]:
        """By name, what is known.

        >>> Progress(loss=0.5).figures
        {'training loss': 0.5}
        """
        named = {"training loss": self.loss, "training accuracy": self.accuracy}
        return {name: value for name, value in named.items() if value is not None}


UNKNOWN = Progress()


@dataclass(frozen=True, eq=False)
class WeightedSum(Summable):
    """Arrays multiplied by a weight and summed; `mean` divides at the end.

    >>> import numpy as np
    >>> a, b = WeightedSum.of((np.array([1.0]),), 1.0), WeightedSum.of((np.array([4.0]),), 3.0)
    >>> (a + b).mean()
    (array([3.25]),)
    """

    KIND: ClassVar[Kind] = Kind(
        "weighted-sum",
        "parameters that the client fitted on its own data, multiplied by their weight, and the "
        "weight",
        (
            "how many rows the client has, if it is weighed by them",
            "which classes the client has: the parameters of a class it never saw show it",
            "a model of this one client's data, against which recordings can be tested",
        ),
    )

    arrays: Annotated[tuple[Array, ...], ANY_FLOAT]
    weight: Annotated[float, WEIGHT]
    n_clients: Annotated[int, CLIENTS] = 1

    @classmethod
    def of(cls, arrays: tuple[Array, ...], weight: float) -> Self:
        return cls(tuple(array * weight for array in arrays), weight)

    def mean(self) -> tuple[Array, ...]:
        if not self.weight > 0:
            raise FederationError("the clients' weights sum to nothing; there is no mean")
        return tuple(array / self.weight for array in self.arrays)

    def expect(self, *shapes: tuple[int, ...]) -> Self:
        """Return self; UploadError if its arrays have other shapes."""
        came = tuple(array.shape for array in self.arrays)
        if came != shapes:
            raise UploadError("shape", f"arrays of shapes {list(came)} came, not {list(shapes)}")
        return self


def client_weight(weighting: Weighting, rows: float) -> float:
    """Return what a client counts in an average, from the weight of its rows.

    >>> [client_weight(how, 4.0) for how in ("samples", "uniform", "printed")]
    [4.0, 1.0, 0.25]
    """
    if rows <= 0:
        raise UploadError("no-rows", "the client has no rows with a target")
    return {"samples": rows, "uniform": 1.0, "printed": 1.0 / rows}[weighting]


def check_weight(update: W, weighting: Weighting, client: str) -> W:
    """Return a client's weighted sum; UploadError if it weighs more than the plan's way gives it.

    >>> check_weight(WeightedSum((), 3.0), "uniform", "a")
    Traceback (most recent call last):
    catchment.errors.UploadError: the weight is 3; where clients are weighed uniform it is 1
    """
    weight, wrong = update.weight, ""
    if client and weighting == "uniform" and weight != 1:
        wrong = "where clients are weighed uniform it is 1"
    elif client and weighting == "printed" and weight > 1:
        wrong = "one over a number of rows is at most 1"
    if wrong:
        raise UploadError("weight", f"the weight is {weight:g}; {wrong}")
    return update


@dataclass(frozen=True, eq=False)
class TrainedSum(WeightedSum):
    """A weighted sum of what training moved, with how well the clients did while they trained.

    See `catchment.federation.sums` for the last three numbers.

    >>> import numpy as np
    >>> a, b = (TrainedSum.of((np.zeros(1),), n).told(Progress(n)) for n in (1.0, 3.0))
    >>> (a + b).progress(scored=False)
    Progress(loss=2.5, accuracy=None)
    """

    KIND: ClassVar[Kind] = Kind(
        "trained-sum",
        "how far the parameters moved that the client trained on its own data, multiplied by their "
        "weight, the weight, and the mean loss of these steps (of classes also the share right)",
        (
            "how many rows the client has, if it is weighed by them",
            "which classes the client has: the parameters of a class it never saw show it",
            "the gradient of this one client's data, against which recordings can be tested",
            "how well the shared model fits this one client's data",
        ),
    )

    telling: Annotated[float, NOT_NEGATIVE, REMARK] = 0.0
    loss: Annotated[float, NOT_NEGATIVE, REMARK] = 0.0
    right: Annotated[float, NOT_NEGATIVE, REMARK] = 0.0

    def told(self, progress: Progress) -> Self:
        """Return the sum with one client's progress in it."""
        telling, loss, right = progress.weighted(self.weight)
        return replace(self, telling=telling, loss=loss, right=right)

    def progress(self, *, scored: bool) -> Progress:
        """Return the mean over those who told theirs, as they weigh."""
        return Progress.mean(self.telling, self.loss, self.right, scored=scored)


@dataclass(frozen=True, eq=False)
class Tally(Summable, Generic[V]):
    """A sum, and the values it is made of by client where the server is to keep them apart.

    Keep them only where clients must be seen one by one, and say so: a sum tells less. `by_group`
    are sums of groups of clients, which do not grow with the clients.

    >>> a, b = Tally(1, {"a": 1}), Tally(2, {"b": 2})
    >>> (a + b).total, dict((a + b).by_client)
    (3, {'a': 1, 'b': 2})
    >>> (Tally.in_group(1, 5) + Tally.in_group(2, 7) + Tally.in_group(3, 5)).by_group
    {5: 4, 7: 2}
    """

    total: V
    by_client: Annotated[Mapping[str, V], GATHERED]
    by_group: Annotated[Mapping[int, V], POOLED, LATER] = field(default_factory=dict)

    @classmethod
    def of(cls, value: V, client: str) -> Tally[V]:
        """Return what one client gave; kept apart only if it has a name."""
        return cls(value, {client: value} if client else {})

    @classmethod
    def in_group(cls, value: V, group: int) -> Tally[V]:
        """Return what one client of a group gave."""
        return cls(value, {}, {group: value})


def added_by_key(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return sums by key, in the order of the keys; those of a key in both are added.

    >>> added_by_key({"b": 1}, {"b": 2, "a": 3})
    {'a': 3, 'b': 3}
    """
    both = dict(old)
    for key, one in new.items():
        both[key] = both[key] + one if key in both else one
    return {key: both[key] for key in sorted(both)}
