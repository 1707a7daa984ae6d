"""Intervals around predicted numbers, from errors that lie with many clients.

Clients that had no part in a model count how far their targets lie from its outputs, in bins that
are agreed on beforehand (`catchment.readout.quantiles`). The counts add, and the sum says at any
coverage how wide an interval has to be: the upper edge of the bin with the ceil((n + 1) p)-th
smallest error, which is split conformal prediction (Vovk et al. 2005; Lei et al. 2018) to the width
of a bin, and never too narrow for it.

Where errors grow with what is predicted, as they do far from a failure, cuts divide the outputs
into bands, each with counts and a width of its own (Mondrian conformal prediction, Vovk et al.).

What is promised: a new target lies inside with at least the coverage if its error is exchangeable
with those counted. Rows of one client are not exchangeable with another's, clients are: with one
row drawn of each client the promise holds for a row drawn of a new one; with all rows it holds on
average over rows, about, and nobody can promise more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from catchment.arrays import Array
from catchment.readout.quantiles import Counts, log_edges

PER_DECADE = 128  # edges: a width is at most 1.8 % too large


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
        object.__setattr__(self, "cuts", checked_cuts(self.cuts))
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
        widths = self.half_widths(coverage)
        half = widths[np.arange(self.n_outputs), band_of(outputs, self.cuts)]
        return outputs - half, outputs + half


@runtime_checkable
class WithIntervals(Protocol):
    """Whatever may know its intervals."""

    @property
    def intervals(self) -> Intervals | None:
        """Errors on clients that had no part in it, if they were counted."""


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
    known = checked_cuts(cuts)
    values = np.full((n, K, len(known) + 1), np.nan)
    place = band_of(outputs, known)[..., None]
    np.put_along_axis(values, place, np.abs(outputs - targets)[..., None], axis=2)
    return Counts.of(values.reshape(n, -1), edges)


def band_of(
    outputs: Array, cuts: Sequence[float]
) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Return the number of the band in which each output lies; one at a cut is below it.

    >>> band_of(np.array([10.0, 25.0, 26.0]), (25.0, 50.0))
    array([0, 0, 1])
    """
    return np.searchsorted(np.asarray(cuts, dtype=np.float64), outputs, side="left")


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


def checked_cuts(cuts: Sequence[float]) -> tuple[float, ...]:
    """Return cuts as numbers; ValueError if they do not increase."""
    known = np.asarray(cuts, dtype=np.float64)
    if known.ndim != 1 or not np.isfinite(known).all() or (np.diff(known) <= 0).any():
        raise ValueError(f"cuts are {tuple(cuts)}; pass finite numbers, each larger than the last")
    return tuple(known.tolist())
