"""Statistics of short sequences, up to eight of them side by side and each summed by itself.

Sequences advance side by side, and their moments are summed side by side. Neither shows who was in
the same batch: a sequence has the same statistics, to the last bit, alone or among others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from catchment.arrays import Array
from catchment.data.recording import Recording
from catchment.features.echo_state.echo_state import EchoStateMap
from catchment.features.echo_state.run import Batch, Lane
from catchment.readout.exact_gram import row_units, statistics_of, target_pieces
from catchment.readout.grid import Grid
from catchment.readout.packing import pack, packed_length
from catchment.readout.statistics import RidgeStatistics

LANES = 8  # advanced and summed side by side
SHORT_STEPS, FEW_FEATURES = 256, 128  # beyond these BLAS takes each sequence better by itself


def is_short(features: EchoStateMap, sequence: Recording) -> bool:
    """Whether a lone sequence has so few steps and features that eight cost little more than one.

    Every target must be known, and its grid must not cut it.
    """
    return (
        sequence.n_steps <= SHORT_STEPS
        and features.per_step
        and features.precision == "float64"
        and sequence.y is not None
        and features.n_features + sequence.y.shape[-1] <= FEW_FEATURES
        and not np.isnan(sequence.y).any()
        and not 0 < features.reservoir.cut[0] < sequence.n_steps
    )


def short_statistics(
    features: EchoStateMap, sequences: Sequence[Recording], grid: Grid | None = None
) -> list[RidgeStatistics | None]:
    """Return the statistics of short sequences with equally many targets, each by itself.

    On a grid there is None for a sequence whose sums would not be exact here, and weights are left
    out.

    >>> from catchment import EchoState
    >>> features = EchoState(9, washout=2).build(1, per_step=True)
    >>> [s and s.n_rows for s in short_statistics(features, [Recording(np.zeros(5), np.zeros(5))])]
    [3]
    """
    from catchment.readout import short_kernels as kernels

    ys, units = [targets(s) for s in sequences], Units()
    if grid is not None:
        ys, places = target_pieces(ys, grid)
        scale, bits = row_units(grid, 0, constant=features.constant)
        units = Units(grid, places, scale[:-1, None, None], np.ldexp(1.0, bits)[:-1, None, None])
    F, K = features.n_features, ys[0].shape[-1]
    n = -(-(F + K + 1) // kernels.TILE) * kernels.TILE
    # Asked for once: memory that is given back and asked for again costs more than the sums.
    G = np.empty((n, n, LANES))
    packed, edge = np.empty((LANES, packed_length(F))), np.empty((LANES, F + K + 1, K + 1))
    found: dict[int, RidgeStatistics | None] = {}
    order = sorted(range(len(sequences)), key=lambda k: sequences[k].n_steps)
    for first in range(0, len(order), LANES):
        numbers = order[first : first + LANES]
        _sum_lanes(features, [sequences[k] for k in numbers], [ys[k] for k in numbers], G, units)
        kernels.take_apart(G, packed, edge)
        for b, k in enumerate(numbers):
            n_rows = sequences[k].n_steps - features.washout
            found[k] = _statistics(n_rows, packed[b], edge[b], features, units)
    return [found[k] for k in range(len(sequences))]


@dataclass(frozen=True, eq=False)
class Units:
    """What makes whole numbers of feature rows (F, T, B); nothing where there is no grid."""

    grid: Grid | None = None
    places: tuple[int, ...] = (0,)
    scale: Array | None = None  # (F, 1, 1)
    most: Array | None = None  # (F, 1, 1)


def _sum_lanes(
    features: EchoStateMap,
    lanes: Sequence[Recording],
    ys: Sequence[Array],
    G: Array,
    units: Units,
) -> None:
    """Fill the upper triangle of G (n, n, 8) with the moments of up to eight sequences."""
    from catchment.readout.short_kernels import add_grams

    F, n_below, washout = features.n_features, len(G) - features.n_features, features.washout
    us = features.checked_all([s.u for s in lanes])
    roots = [np.sqrt(s.weight) if units.grid is None else 1.0 for s in lanes]
    below = _below(lanes, ys, roots, max(len(u) for u in us), n_below)
    alike = all(len(u) == len(us[0]) and root == 1 for u, root in zip(us, roots, strict=True))
    # A lone lane would get a kernel of its own and other bits; twice the same one does not.
    run = Batch(tuple(Lane(b, u, washout, washout) for b, u in enumerate(us if us[1:] else 2 * us)))
    G[:] = 0.0
    for block in features.blocks(run, spare_rows=n_below, rounded=False):
        z = block.rows[:F]
        if units.scale is not None and units.most is not None:
            np.rint(np.multiply(z, units.scale, out=z), out=z)
            np.clip(z, -units.most, units.most, out=z)
        block.rows[F:] = below[:, block.start : block.stop]
        if not alike:
            # Roots of the weights, and zeros after a lane's end.
            z *= below[ys[0].shape[-1], block.start : block.stop]
        add_grams(block.rows, G)


def targets(sequence: Recording) -> Array:
    assert sequence.y is not None
    return sequence.y


def _below(
    lanes: Sequence[Recording],
    ys: Sequence[Array],
    roots: Sequence[float],
    n_steps: int,
    n_rows: int,
) -> Array:
    """Return what stands below the features (n_rows, T, 8): targets, ones, and rows to fill a tile.

    All are multiplied by the roots of the weights, and zero after a lane's end.
    """
    K = ys[0].shape[-1]
    below = np.zeros((n_rows, n_steps, LANES))
    for b, (sequence, y, root) in enumerate(zip(lanes, ys, roots, strict=True)):
        below[:K, : sequence.n_steps, b] = y.T.reshape(K, -1) * root
        below[K, : sequence.n_steps, b] = root
    return below


def _statistics(
    n_rows: int, packed: Array, edge: Array, features: EchoStateMap, units: Units
) -> RidgeStatistics | None:
    """Return the statistics of one lane, `edge` being [Z'Y, Z'1; Y'Y, Y'1; 1'Y, 1'1]."""
    K = edge.shape[1] - 1
    F = len(edge) - K - 1
    if units.grid is not None:
        # Squares only grow: if the sum of all is below 2^53, no sum before it was rounded.
        rows = np.arange(F)
        if packed[rows * (2 * F - rows + 1) // 2].max(initial=0.0) >= 2.0**53:
            return None
        return statistics_of(
            packed.astype(np.int64),
            edge.astype(np.int64),
            n_rows,
            units.grid,
            units.places,
            constant=features.constant,
            fingerprint=features.fingerprint,
        )
    return RidgeStatistics(
        n_rows,
        float(edge[-1, -1]),
        edge[:F, -1].copy(),
        edge[F:-1, -1].copy(),
        packed.copy(),
        edge[:F, :-1].copy(),
        pack(edge[F:-1, :-1]),
        features.fingerprint,
    )
