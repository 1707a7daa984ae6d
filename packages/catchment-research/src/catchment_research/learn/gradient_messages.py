"""What travels while a ridge system is solved by products with its Gram matrix."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, ClassVar

import numpy as np

from catchment import Array, Integers, refuse_nonfinite
from catchment.data import Recording
from catchment.errors import IntegrityError, UploadError
from catchment.features import FeatureMap
from catchment.federation import Data, Rows
from catchment.federation.learn import PathErrors
from catchment.wire import NOT_NEGATIVE, ROWS, WEIGHT, Kind, Message, Shape, Summable

BATCH = 256  # recordings whose rows are held at once


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

    def within(self, fold: int | None) -> FirstSums:
        """Return the sums over all folds, without one of them if it is named."""
        kept = np.arange(len(self.weights)) != (-1 if fold is None else fold)
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
class Directions:
    """What the server asks for.

    Parameters
    ----------
    center
        (F,) that is taken off every row: features that hardly vary lose no digits then.
    mixtures
        (F, D) of features.
    offsets
        (D,) that is taken off each.
    without
        The fold (D,) whose clients are not in it, -1 where all are.
    """

    center: Array
    mixtures: Array
    offsets: Array
    without: Integers

    def parts(self) -> Message:
        return Message("directions", {}, (self.center, self.mixtures, self.offsets, self.without))

    @classmethod
    def from_message(cls, parts: Message, n_features: int) -> Directions:
        """Return what the server sent; IntegrityError if it is malformed."""
        came = parts.expect("directions", 4).arrays
        D = came[1].shape[1] if came[1].ndim == 2 else -1
        shapes = [(n_features,), (n_features, D), (D,), (D,)]
        kinds = [np.float64, np.float64, np.float64, np.int64]
        if [array.shape for array in came] != shapes or any(
            array.dtype != kind for array, kind in zip(came, kinds, strict=True)
        ):
            raise IntegrityError(f"directions came with shape {came[1].shape}")
        for array in came[:3]:
            refuse_nonfinite(array, "directions")
        return cls(*came)


@dataclass(frozen=True, eq=False)
class FoldReadouts:
    """Readouts that were solved without each fold: weights (J, R, F, K), intercepts (J, R, K)."""

    weights: Array
    intercepts: Array
    folds: Integers

    def parts(self) -> Message:
        return Message("fold-readouts", {}, (self.weights, self.intercepts, self.folds))

    @classmethod
    def from_message(cls, parts: Message, n_features: int) -> FoldReadouts:
        """Return what the server sent; IntegrityError if it is malformed."""
        weights, intercepts, folds = parts.expect("fold-readouts", 3).arrays
        shape = weights.shape
        if len(shape) != 4 or shape[2] != n_features or folds.shape != shape[:1]:
            raise IntegrityError(f"readouts of folds came with shape {shape}")
        if intercepts.shape != (shape[0], shape[1], shape[3]):
            raise IntegrityError(f"intercepts of folds came with shape {intercepts.shape}")
        return cls(weights, intercepts, folds)


@dataclass(frozen=True, eq=False)
class RowSums:
    """A client's rows, a batch of recordings at a time, and what it sums over them."""

    features: FeatureMap
    data: Data
    classes: bool

    def _batches(self) -> Iterator[Rows]:
        some = False
        for recordings in _batched(self.data()):
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


def _batched(recordings: Iterable[Recording]) -> Iterator[list[Recording]]:
    rest = iter(recordings)
    while batch := list(islice(rest, BATCH)):
        yield batch
