"""Statistics of many clients on a device: their rows are made together, their sums are apart.

The rows of each client lie side by side in one padded array, and one batched product gives every
client's sums. On a grid they are the integers that each client alone gives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from catchment import Integers
from catchment.data import Recording
from catchment.features import FeatureMap
from catchment.readout import Grid, RidgeStatistics
from catchment_gpu.readout.gram import EXACT
from catchment_gpu.readout.statistics import WholeRows, float_rows, usable_device
from catchment_gpu.readout.targets import Targets

TOGETHER = {"cpu": 1 << 22, "cuda": 1 << 28}  # numbers of the products under way, about


def statistics_of_each(
    device: str,
    features: FeatureMap,
    groups: Sequence[Sequence[Recording]],
    grid: Grid | None,
) -> list[RidgeStatistics]:
    """Return the statistics of each group of recordings with targets, all of one width.

    Parameters
    ----------
    groups
        Each of one recording or more; on a grid all of weight 1, and of at most 2^14 rows, so that
        their sums stay within int64.
    """
    place = usable_device(device)
    recordings = [s for group in groups for s in group]
    targets = [s.y for s in recordings if s.y is not None]
    owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    told = Targets.of(features, targets, grid, place)
    rows = None if grid is None else WholeRows(features, told, grid)
    size = features.n_features + told.width + 1 if rows is None else rows.height
    at_once = max(1, TOGETHER[place.type] // (size * size))
    found: list[RidgeStatistics] = []
    for first in range(0, len(groups), at_once):
        mine = np.flatnonzero((owner >= first) & (owner < first + at_once)).tolist()
        some, owners = [recordings[k] for k in mine], owner[mine] - first
        n = min(at_once, len(groups) - first)
        found += _sums(features, rows, some, told.chosen(mine), owners, n)
    return found


def _sums(
    features: FeatureMap,
    rows: WholeRows | None,
    recordings: Sequence[Recording],
    targets: Targets,
    owners: Integers,
    n: int,
) -> list[RidgeStatistics]:
    """Return the statistics of n clients, whose (owners) the recordings are."""
    size = features.n_features + targets.width + 1 if rows is None else rows.height
    device, kind = targets.y.device, torch.float64 if rows is None else torch.int64
    sums = torch.zeros((n, size, size), dtype=kind, device=device)
    counts = torch.zeros(n, dtype=torch.float64, device=device)
    roots = np.sqrt([one.weight for one in recordings])
    for columns in targets.columns(features, [one.u for one in recordings], 1):
        E = float_rows(columns, roots) if rows is None else rows.stacked(columns, short=False)
        whose = owners[columns.recording.cpu().numpy()]
        if rows is None:
            used = torch.ones_like(E[0]) if columns.used is None else columns.used.double()
            counts.index_add_(0, torch.from_numpy(whose).to(device), used)
        longest = E.shape[1] if rows is None else EXACT // rows.largest**2
        for clients, blocks in _by_client(E, whose, longest):
            sums.index_add_(0, clients, torch.bmm(blocks, blocks.transpose(1, 2)).to(kind))
    if rows is not None:
        return [rows.statistics(M) for M in rows.joined(sums).cpu().numpy()]
    found = zip(sums.cpu().numpy(), counts.tolist(), strict=True)
    name, F = features.fingerprint, features.n_features
    return [RidgeStatistics.from_moments(M, int(count), name, F) for M, count in found]


def _by_client(E: Tensor, owner: Integers, longest: int) -> list[tuple[Tensor, Tensor]]:
    """Return numbers of clients (m,) and their columns of E (R, n) as (m, R, length), zeros behind.

    Parameters
    ----------
    owner
        (n,) whose each column is.
    longest
        Most columns of a block.

    >>> E = torch.tensor([[1.0, 2.0, 3.0]])
    >>> [(c.tolist(), b.tolist()) for c, b in _by_client(E, np.array([4, 0, 4]), 9)]
    [([0, 4], [[[2.0, 0.0]], [[1.0, 3.0]]])]
    """
    order = np.argsort(owner, kind="stable")
    clients, firsts, counts = np.unique(owner[order], return_index=True, return_counts=True)
    extended = torch.cat([E, E.new_zeros((len(E), 1))], dim=1)
    numbers = torch.from_numpy(clients).to(E.device)
    found = []
    for begin in range(0, int(counts.max()), longest):
        length = min(longest, int(counts.max()) - begin)
        place = firsts[:, None] + begin + np.arange(length)
        there = begin + np.arange(length) < counts[:, None]
        columns = np.where(there, order[np.minimum(place, len(order) - 1)], E.shape[1])
        index = torch.from_numpy(columns.reshape(-1)).to(E.device)
        blocks = extended.index_select(1, index).view(len(E), len(clients), length)
        found.append((numbers, blocks.transpose(0, 1)))
    return found
