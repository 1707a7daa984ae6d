"""Intervals around predicted numbers, from errors that lie with many clients.

Clients that had no part in a model count how far their targets lie from its outputs, in bins that
are agreed on beforehand. Edges e_0 < ... < e_B are known to all; a client counts its values up to
e_0, in each bin (e_b, e_b+1], and above e_B. Counts are integers that add: secure aggregation of
them are exact, clients leave by `-`, and noise is added as to any sum with a weight (of noisy
counts no rank is exact). The k-th smallest value is then known up to the width of its bin, whose
upper edge is never below it. At rank ceil(p n) at most n (1 - p) of the counted values are above;
at rank ceil((n + 1) p) a new value, exchangeable with those counted, is above with probability 1 -
p at most, whatever the distribution: split conformal prediction (Vovk et al. 2005; Lei et al.
2018).

Rows of one client are not exchangeable with another's, clients are: with one row drawn of each
client the promise holds for a row drawn of a new one; with all rows it holds on average over rows,
about, and nobody can promise more. Where errors grow with what is predicted, as they do far from a
failure, cuts divide the outputs into bands, each with counts and a width of its own (Mondrian
conformal prediction, Vovk et al.).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from catchment.arrays import Array, Integers, Probability, check_type
from catchment.wire import WEIGHT, Kind, Shape, Summable

_ROUNDING = 1e-9  # 0.9 * 10 must not become rank 10
PER_DECADE = 128  # edges: a width is at most 1.8 % too large


@dataclass(frozen=True, eq=False)
class Counts(Summable):
    """How many values lie below, between and above fixed edges, for each of K columns.

    Parameters
    ----------
    counts
        (K, B + 2) values up to the first edge, in each of B bins, and above the last edge.
        Integers, unless noise was added to them.
    edges
        (B + 1,) increasing. Counts over different edges do not add.
    weight
        How many rows were counted.

    >>> a, b = Counts.of([1.0, 2.0, 2.5], [0, 1, 2, 3]), Counts.of([0.5, 9.0], [0, 1, 2, 3])
    >>> (a + b).counts
    array([[0, 2, 1, 1, 1]])
    >>> (a + b).quantile(0.6), (a + b).quantile(0.9), (a + b) - b == a
    (array([2.]), array([inf]), True)
    """

    KIND: ClassVar[Kind] = Kind(
        "counts",
        "how many of the client's values lie in each of a number of agreed bins",
        (
            "how many rows the client has, and how their values are distributed, to a bin's width",
            "of a client with few rows, about which values it has",
        ),
    )

    counts: Annotated[NDArray[Any], Shape("columns", "bins")]
    edges: tuple[float, ...]
    weight: Annotated[float, WEIGHT]
    grid: str = "whole"  # secure aggregation take messages that say so as integers

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", increasing(self.edges, "edges"))
        n_edges = len(self.edges)
        if not n_edges or self.counts.ndim != 2 or self.counts.shape[1] != n_edges + 1:
            raise ValueError(
                f"counts have shape {self.counts.shape}; {n_edges} edges have "
                f"(columns, {n_edges + 1}), and there is at least one"
            )

    @classmethod
    def of(cls, values: ArrayLike, edges: ArrayLike) -> Counts:
        """Return the counts of values (n,) or (n, K); a NaN is not counted."""
        known = increasing(edges, "edges")
        columns = np.asarray(values, dtype=np.float64)
        columns = columns[:, None] if columns.ndim == 1 else columns
        if columns.ndim != 2:
            raise ValueError(f"values have shape {columns.shape}; pass (n,) or (n, K)")
        counts = np.zeros((columns.shape[1], len(known) + 1), dtype=np.int64)
        for k, column in enumerate(columns.T):
            place = np.searchsorted(known, column[~np.isnan(column)], side="left")
            counts[k] = np.bincount(place, minlength=len(known) + 1)
        return cls(counts, known, float(len(columns)))

    @classmethod
    def zero(cls, edges: ArrayLike, n_columns: int = 1) -> Counts:
        """Return the counts of no values."""
        return cls.of(np.empty((0, n_columns)), edges)

    @property
    def n_columns(self) -> int:
        return len(self.counts)

    @property
    def n_values(self) -> Integers:
        """(K,) values counted in each column."""
        return np.asarray(np.rint(self.counts.sum(axis=1)), dtype=np.int64)

    def quantile(self, probability: float) -> Array:
        """Return the upper edge (K,) of the bin with the ceil(p n)-th smallest value.

        It is never below that value, and infinite if the value is above the last edge.

        >>> Counts.of(np.arange(1.0, 11.0), [0, 2.5, 5, 7.5, 10]).quantile(0.5)
        array([5.])
        """
        check_type(probability, Probability, "probability")
        return self._at(probability * self.counts.sum(axis=1))

    def conformal(self, probability: float) -> Array:
        """Return the upper edge (K,) of the bin with the ceil((n + 1) p)-th smallest value.

        A new value that is exchangeable with those counted lies above it with probability 1 - p at
        most. Infinite if the rank is beyond n: too few values were counted to say.

        >>> Counts.of(np.arange(1.0, 10.0), np.arange(11)).conformal(0.8)
        array([8.])
        >>> Counts.of([1.0, 2.0], np.arange(11)).conformal(0.8)
        array([inf])
        """
        check_type(probability, Probability, "probability")
        return self._at(probability * (self.counts.sum(axis=1) + 1))

    def _at(self, rank: Array) -> Array:
        """Return the upper edge (K,) of the bins in which so many values are reached."""
        total = np.cumsum(self.counts, axis=1)
        # The last bin that falls short, plus one: noisy sums may fall again after the first.
        short = total < (rank - _ROUNDING)[:, None]
        place = np.where(short.any(axis=1), total.shape[1] - short[:, ::-1].argmax(axis=1), 0)
        place = np.where(self.counts.sum(axis=1) > 0, place, total.shape[1])
        return np.append(self.edges, (np.inf, np.inf))[place]


def log_edges(low: float = 1e-3, high: float = 1e6, per_decade: int = 64) -> Array:
    """Return edges from `low` to `high` between which bins have the same relative width.

    A quantile by these edges is above the value it stands for by at most the factor
    10^(1 / per_decade): 3.7 % with 64 edges a decade. It is `low` for values below that, and
    infinite above `high`. Edges have nine digits, so that every machine makes the same ones.

    >>> log_edges(1.0, 100.0, per_decade=2).tolist()
    [1.0, 3.16227766, 10.0, 31.6227766, 100.0]
    """
    if not 0 < low < high < np.inf or per_decade < 1:
        raise ValueError(
            f"edges from {low} to {high}, {per_decade} per decade, cannot be; pass 0 < low < high "
            "and at least one per decade"
        )
    n_bins = int(np.ceil(np.log10(high / low) * per_decade - _ROUNDING))
    made = (low * 10.0 ** (k / per_decade) for k in range(n_bins))
    return np.array([*(float(f"{edge:.9g}") for edge in made), high])


@dataclass(frozen=True, eq=False)
class Intervals:
    """How far targets lay from a model's outputs on clients that had no part in it.

    Parameters
    ----------
    errors
        Counts of absolute errors in K * S columns: for each of K outputs one column a band.
    cuts
        (S - 1,) increasing outputs at which a band ends; none for one width everywhere.

    >>> errors = error_counts(np.zeros((9, 1)), np.arange(1.0, 10.0)[:, None], range(12))
    >>> low, high = Intervals(errors).around(np.array([[50.0]]), coverage=0.8)
    >>> low, high
    (array([[42.]]), array([[58.]]))
    """

    errors: Counts
    cuts: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "cuts", increasing(self.cuts))
        if not self.errors.n_columns or self.errors.n_columns % self.n_bands:
            raise ValueError(
                f"errors are counted in {self.errors.n_columns} columns, which are not "
                f"{self.n_bands} for each output; count them with the same cuts"
            )

    @property
    def n_bands(self) -> int:
        return len(self.cuts) + 1

    @property
    def n_outputs(self) -> int:
        return self.errors.n_columns // self.n_bands

    def half_widths(self, coverage: float = 0.9) -> Array:
        """Return half the width (K, S) of the interval of each output in each band.

        It is infinite where too few errors were counted for the coverage.
        """
        return self.errors.conformal(coverage).reshape(self.n_outputs, self.n_bands)

    def around(self, outputs: Array, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return lower and upper ends, (n, K) each, around outputs (n, K) of new rows.

        Parameters
        ----------
        coverage
            Probability, between 0 and 1, that each single target lies inside.
        """
        outputs = np.asarray(outputs, dtype=np.float64)
        if outputs.ndim != 2 or outputs.shape[1] != self.n_outputs:
            raise ValueError(
                f"outputs have shape {outputs.shape}; the intervals are for (n, {self.n_outputs})"
            )
        bands = np.searchsorted(self.cuts, outputs)  # one at a cut is below it
        half = self.half_widths(coverage)[np.arange(self.n_outputs), bands]
        return outputs - half, outputs + half


def error_counts(
    outputs: Array, targets: Array, edges: Array | Sequence[float], cuts: Sequence[float] = ()
) -> Counts:
    """Return the counts of absolute errors in K * S columns, one for each output and band.

    Parameters
    ----------
    outputs
        (n, K) what a model said.
    targets
        (n, K) what was so; a missing one is not counted.
    edges
        Of the bins, agreed on by all clients.
    cuts
        Increasing outputs at which a band ends.

    >>> said, was = np.array([[10.0], [90.0], [95.0]]), np.array([[11.0], [80.0], [np.nan]])
    >>> error_counts(said, was, [0, 5, 20], cuts=[50]).counts
    array([[0, 1, 0, 0],
           [0, 0, 1, 0]])
    """
    outputs, targets = (np.asarray(one, dtype=np.float64) for one in (outputs, targets))
    if outputs.shape != targets.shape or outputs.ndim != 2:
        raise ValueError(
            f"outputs have shape {outputs.shape} and targets {targets.shape}; pass (n, K) of both"
        )
    n, K = outputs.shape
    known = increasing(cuts)
    values = np.full((n, K, len(known) + 1), np.nan)
    place = np.searchsorted(known, outputs)[..., None]
    np.put_along_axis(values, place, np.abs(outputs - targets)[..., None], axis=2)
    return Counts.of(values.reshape(n, -1), edges)


def error_edges(deviation: Array | None = None) -> Array:
    """Return edges of bins for absolute errors: whole decades around the error that is known.

    Parameters
    ----------
    deviation
        (K,) about how large errors are; if it is not known, edges go from 1e-6 to 1e9.

    >>> edges = error_edges(np.array([13.1]))
    >>> float(edges[0]), float(edges[-1]), len(edges)
    (0.001, 1000000.0, 1153)
    """
    low, high = -6, 9
    if deviation is not None and (known := deviation[deviation > 0]).size:
        low = int(np.floor(np.log10(known.min()))) - 4
        high = int(np.floor(np.log10(known.max()))) + 5
    return log_edges(10.0**low, 10.0**high, PER_DECADE)


def increasing(values: ArrayLike, name: str = "cuts") -> tuple[float, ...]:
    """Return values as numbers; ValueError if they do not increase."""
    known = np.asarray(values, dtype=np.float64)
    if known.ndim != 1 or not np.isfinite(known).all() or (np.diff(known) <= 0).any():
        raise ValueError(f"{name} are {values!r}; pass finite numbers, each larger than the last")
    return tuple(known.tolist())
