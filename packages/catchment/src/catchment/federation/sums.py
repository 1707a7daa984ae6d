"""Additive values: weighted sums, and sums that remember what each client gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Generic, Self, TypeVar

from catchment.arrays import Array
from catchment.errors import FederationError, UploadError
from catchment.federation.progress import Progress
from catchment.structure import (
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

V = TypeVar("V")


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


@dataclass(frozen=True, eq=False)
class TrainedSum(WeightedSum):
    """A weighted sum of what training moved, with how well the clients did while they trained.

    See `catchment.federation.progress` for the last three numbers.

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
