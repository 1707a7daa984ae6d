"""Additive values: weighted sums, and sums that remember what each client gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from catchment.arrays import Array
from catchment.errors import FederationError, IntegrityError, UploadError
from catchment.federation.plan import Additive
from catchment.wire import Parts

V = TypeVar("V", bound=Additive)


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """Arrays multiplied by a weight and summed; `mean` divides at the end.

    >>> a, b = WeightedSum.of((np.array([1.0]),), 1.0), WeightedSum.of((np.array([4.0]),), 3.0)
    >>> (a + b).mean()
    (array([3.25]),)
    """

    arrays: tuple[Array, ...]
    weight: float
    n_clients: int = 1

    @classmethod
    def of(cls, arrays: tuple[Array, ...], weight: float) -> WeightedSum:
        return cls(tuple(array * weight for array in arrays), weight)

    def __add__(self, other: WeightedSum) -> WeightedSum:
        shapes = [array.shape for array in self.arrays], [array.shape for array in other.arrays]
        if shapes[0] != shapes[1]:
            raise UploadError("shape", f"arrays of {shapes[1]} do not add to {shapes[0]}")
        return WeightedSum(
            tuple(a + b for a, b in zip(self.arrays, other.arrays, strict=True)),
            self.weight + other.weight,
            self.n_clients + other.n_clients,
        )

    def mean(self) -> tuple[Array, ...]:
        if not self.weight > 0:
            raise FederationError("the clients' weights sum to nothing; there is no mean")
        return tuple(array / self.weight for array in self.arrays)

    def parts(self) -> Parts:
        counts = np.array([self.n_clients, self.weight])
        return Parts("weighted-sum", {}, (counts, *self.arrays))

    @classmethod
    def from_parts(cls, parts: Parts, n_arrays: int) -> WeightedSum:
        """Return the sum that travelled; UploadError if a number is not finite."""
        counts, *arrays = parts.expect("weighted-sum", 1 + n_arrays).arrays
        if counts.shape != (2,):
            raise IntegrityError(f"the counts of a weighted sum came with shape {counts.shape}")
        if not all(np.isfinite(array).all() for array in parts.arrays):
            raise UploadError("not-finite", "an array holds NaN or infinite numbers")
        if (counts < 0).any():
            raise UploadError("count", f"{counts[0]} clients of weight {counts[1]} cannot be")
        return cls(tuple(arrays), float(counts[1]), int(counts[0]))


@dataclass(frozen=True, eq=False)
class Tally(Generic[V]):
    """A sum, and the values it is made of by client where the server is to keep them apart.

    Keep them only where clients must be seen one by one, and say so: a sum tells less.

    >>> a, b = Tally(1, {"a": 1}), Tally(2, {"b": 2})
    >>> (a + b).total, dict((a + b).by_client)
    (3, {'a': 1, 'b': 2})
    """

    total: V
    by_client: Mapping[str, V]

    def __add__(self, other: Tally[V]) -> Tally[V]:
        return Tally(self.total + other.total, {**self.by_client, **other.by_client})
