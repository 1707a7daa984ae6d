"""Feature rows with what stands beside them, in the blocks that sums of products take.

A map with a row per step says itself how its blocks come: `stacked` returns parts that may be
worked on side by side, and a part yields matrices [Z; Y'; 1] (F + K + 1, n) whose columns are rows
with their targets, or zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from catchment.arrays import Array, Booleans

if TYPE_CHECKING:
    from catchment.features.base import FeatureMap

# Rows that one thread works on: asked with a number of buffers it yields blocks, each the number of
# its rows and [Z; Y'; 1] (F + K + 1, n), columns being rows with their targets, or zeros. A block
# stays valid until so many more were taken. None: all blocks before are void, others replace them.
Part = Callable[[int], Iterator[tuple[int, Array] | None]]
BLOCK = 2048  # rows of a block
TOGETHER = 1 << 25  # bytes of the rows of short recordings that are asked for together


def stacked_rows(
    features: FeatureMap,
    inputs: Sequence[ArrayLike],
    targets: Sequence[Array],
    roots: Array,
    *,
    threads: int | None = None,
) -> list[Part]:
    """Return the parts of recordings with targets (T, K) or (K,), NaN where there are none.

    Rows of steps without a target are not asked for where the map gives a few at once.

    Parameters
    ----------
    roots
        Of each recording's weight, which its columns are multiplied by.
    threads
        For a part that is the only one.
    """
    n_rows = max(1, TOGETHER // (8 * features.n_features))
    groups: list[list[int]] = [[]]
    steps = 0
    for k, u in enumerate(inputs):
        if groups[-1] and steps + len(u) > n_rows:  # type: ignore[arg-type]  # they have steps
            groups.append([])
            steps = 0
        groups[-1].append(k)
        steps += len(u)  # type: ignore[arg-type]
    inside = threads if len(groups) == 1 else 1

    def part(group: list[int]) -> Part:
        def blocks(n_buffers: int) -> Iterator[tuple[int, Array]]:
            size, K = features.n_features, targets[0].shape[-1]
            block, filled = np.empty((BLOCK, size + K + 1)), 0
            for k, z, y in _known(features, group, inputs, targets, n_rows, inside):
                done = 0
                while done < len(z):
                    n = min(len(z) - done, BLOCK - filled)
                    into = block[filled : filled + n]
                    into[:, :size], into[:, size:-1] = z[done : done + n], y[done : done + n]
                    into[:, -1] = 1.0
                    if roots[k] != 1:
                        into *= roots[k]
                    done, filled = done + n, filled + n
                    if filled == BLOCK:
                        yield BLOCK, block.T
                        block, filled = np.empty_like(block), 0
            yield filled, block[:filled].T

        return blocks

    return [part(group) for group in groups]


def _known(
    features: FeatureMap,
    group: Sequence[int],
    inputs: Sequence[ArrayLike],
    targets: Sequence[Array],
    n_rows: int,
    threads: int | None,
) -> Iterator[tuple[int, Array, Array]]:
    """Yield numbers of recordings, rows (n, F) whose targets are known, and these (n, K)."""
    rows = None if features.streams else features.rows([inputs[k] for k in group], threads=threads)
    for place, k in enumerate(group):
        n_steps = len(inputs[k])  # type: ignore[arg-type]
        y = np.broadcast_to(targets[k], (n_steps, targets[k].shape[-1]))
        wanted: Booleans = np.logical_not(np.isnan(y).any(axis=1))
        wanted[: features.washout] = False
        if rows is not None:
            yield k, rows[place][wanted[features.washout :]], y[wanted]
            continue
        done, known = 0, y[wanted]
        for z in features.row_blocks(inputs[k], wanted, n_rows):
            yield k, z, known[done : done + len(z)]
            done += len(z)
