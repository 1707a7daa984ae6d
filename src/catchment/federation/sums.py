"""Additive values: weighted sums, and sums that remember what each client gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Generic, TypeVar

from catchment.arrays import Array
from catchment.errors import FederationError, UploadError
from catchment.structure import ANY_FLOAT, GATHERED, WEIGHT, Kind, Summable

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
    n_clients: int = 1

    @classmethod
    def of(cls, arrays: tuple[Array, ...], weight: float) -> WeightedSum:
        return cls(tuple(array * weight for array in arrays), weight)

    def mean(self) -> tuple[Array, ...]:
        if not self.weight > 0:
            raise FederationError("the clients' weights sum to nothing; there is no mean")
        return tuple(array / self.weight for array in self.arrays)

    def expect(self, *shapes: tuple[int, ...]) -> WeightedSum:
        """Return self; UploadError if its arrays have other shapes."""
        came = tuple(array.shape for array in self.arrays)
        if came != shapes:
            raise UploadError("shape", f"arrays of shapes {list(came)} came, not {list(shapes)}")
        return self


@dataclass(frozen=True, eq=False)
class Tally(Summable, Generic[V]):
    """A sum, and the values it is made of by client where the server is to keep them apart.

    Keep them only where clients must be seen one by one, and say so: a sum tells less.

    >>> a, b = Tally(1, {"a": 1}), Tally(2, {"b": 2})
    >>> (a + b).total, dict((a + b).by_client)
    (3, {'a': 1, 'b': 2})
    """

    total: V
    by_client: Annotated[Mapping[str, V], GATHERED]

    @classmethod
    def of(cls, value: V, client: str) -> Tally[V]:
        """Return what one client gave; kept apart only if it has a name."""
        return cls(value, {client: value} if client else {})
