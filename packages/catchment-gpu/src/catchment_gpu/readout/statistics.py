"""Ridge statistics computed on a device.

On a grid they are the integers that the CPU gives, with the same digest: where they are computed is
then a matter of the machine and not of the plan. Without a grid they agree with the CPU's to
rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from catchment import Array
from catchment.data import Recording
from catchment.errors import MissingExtraError
from catchment.features import FeatureMap
from catchment.readout import Grid, RidgeStatistics, integers, statistics_of, whole_weights

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("gpu", needed_for="statistics on a device") from error

from catchment_gpu.readout.gram import LARGEST_HALF, Products, padded, takes_short
from catchment_gpu.readout.targets import Columns, Targets

ONE_PIECE_BITS = 21  # features of more bits are split in two, or blocks would be a few columns
HALF = 12  # binary digits of the lower piece


def usable_device(name: str) -> torch.device:
    """Return the device of a name; ValueError if this machine does not have it.

    >>> usable_device("cpu")
    device(type='cpu')
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device is {name!r}; use 'cpu' or 'cuda', or 'cuda:1' for the second GPU")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"device is {name!r}, and torch sees {torch.cuda.device_count()} GPUs here; use 'cpu', "
            "or install a torch that fits the GPU's driver"
        )
    return device


def statistics_on(
    device: str,
    features: FeatureMap,
    window: Sequence[Recording],
    targets: Sequence[Array],
    grid: Grid | None,
    *,
    threads: int | None = None,
) -> RidgeStatistics:
    """Return the statistics of recordings with targets (T, K) or (K,), products on a device.

    States are computed there too where the map has a form; other maps give their rows on the CPU.
    """
    place, weights = usable_device(device), np.array([s.weight for s in window])
    if grid is None:
        return _float_statistics(place, features, window, targets, threads)
    parts = []
    for weight in whole_weights(weights):
        group = np.flatnonzero(weights == weight).tolist()
        inputs, mine = [window[k].u for k in group], [targets[k] for k in group]
        sums = WholeRows(features, Targets.of(features, mine, grid, place), grid)
        products = Products(sums.height, place)
        for columns in sums.targets.columns(features, inputs, threads):
            products.add(sums.stacked(columns), largest=sums.largest)
        parts.append(sums.statistics(products.total()).scaled(weight))
    return reduce(add, parts)


class WholeRows:
    """Rows [features; pieces of targets; 1] of whole numbers, whose products are summed.

    Features of many bits are two rows each: k = 2^12 h + l.
    """

    def __init__(self, features: FeatureMap, targets: Targets, grid: Grid) -> None:
        self.features, self.grid, self.targets = features, grid, targets
        self.split = grid.bits > ONE_PIECE_BITS
        target_bits = 8 if grid.is_whole else 20
        self.largest = 1 << max(HALF if self.split else grid.bits, target_bits)
        self.height = grid.n_features * (2 if self.split else 1) + targets.width + 1

    def stacked(self, columns: Columns, *, short: bool | None = None) -> Tensor:
        """Return the rows (height, n) of some columns, zeros where they do not count.

        They are float16 numbers, and more columns than there are, where the device multiplies these
        faster and they hold them; `short` says otherwise.
        """
        k, device = columns.z, columns.z.device
        F, n = k.shape
        if short is None:
            short = takes_short(device) and self.grid.is_whole
            short = short and 1 << self.grid.bits <= LARGEST_HALF
        kind = torch.float16 if short else torch.float64
        E = torch.empty((self.height, padded(n) if short else n), dtype=kind, device=device)
        E[:, n:] = 0.0
        if self.features.constant:
            k[0] = 1.0  # counted as such; see `statistics_of`
        if self.split:
            high = torch.mul(k, 2.0**-HALF, out=E[:F]).round_()
            torch.add(k, high, alpha=-(2.0**HALF), out=E[F : 2 * F])
        else:
            E[:F, :n] = k
        E[-1 - self.targets.width : -1, :n], E[-1, :n] = torch.nan_to_num(columns.y), 1.0
        if columns.used is not None:
            E[:, :n] *= columns.used
        return E

    def joined(self, sums: Tensor) -> Tensor:
        """Return sums (n, height, height) as those of features that are one row each.

        Of up to 2^14 rows they stay within int64.
        """
        if not self.split:
            return sums
        F, unit = self.grid.n_features, 1 << HALF
        tall = torch.cat([sums[:, :F] * unit + sums[:, F : 2 * F], sums[:, 2 * F :]], dim=1)
        wide = tall[:, :, :F] * unit + tall[:, :, F : 2 * F]
        return torch.cat([wide, tall[:, :, 2 * F :]], dim=2)

    def statistics(self, M: integers.Whole) -> RidgeStatistics:
        """Return the statistics of the sums of all products, whether they are joined or not."""
        F = self.grid.n_features
        if len(M) > F + self.targets.width + 1:
            M = _joined(M, F)
        return statistics_of(
            M,
            int(M[-1, -1]),
            self.grid,
            self.targets.places,
            constant=self.features.constant,
            fingerprint=self.features.fingerprint,
        )


def _joined(M: integers.Whole, F: int) -> integers.Whole:
    """Return the sums of rows [k; rest] from those of [h; l; rest], where k = 2^12 h + l."""
    unit = 1 << HALF
    below = integers.added(integers.multiplied(M[:F], unit), M[F : 2 * F])
    tall = _stacked([below, M[2 * F :]], axis=0)
    beside = integers.added(integers.multiplied(tall[:, :F], unit), tall[:, F : 2 * F])
    return _stacked([beside, tall[:, 2 * F :]], axis=1)


def _stacked(parts: Sequence[integers.Whole], axis: int) -> integers.Whole:
    if any(part.dtype == object for part in parts):
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts, axis=axis)


def _float_statistics(
    device: torch.device,
    features: FeatureMap,
    window: Sequence[Recording],
    targets: Sequence[Array],
    threads: int | None,
) -> RidgeStatistics:
    """Return statistics in float64; each row is multiplied by the root of its weight."""
    roots = np.sqrt([s.weight for s in window])
    F = features.n_features
    size = F + targets[0].shape[-1] + 1
    total = torch.zeros((size, size), dtype=torch.float64, device=device)
    n_rows = torch.zeros((), dtype=torch.float64, device=device)
    made = Targets.of(features, targets, None, device)
    for columns in made.columns(features, [s.u for s in window], threads):
        E = float_rows(columns, roots)
        n_rows += E.shape[1] if columns.used is None else columns.used.sum()
        total.addmm_(E, E.T)
    M = total.cpu().numpy()
    return RidgeStatistics.from_moments(M, int(n_rows), features.fingerprint, F)


def float_rows(columns: Columns, roots: Array) -> Tensor:
    """Return [Z; Y'; 1] (F + K + 1, n) of some columns, zeros where they do not count.

    `roots` of each recording's weight multiply its columns.
    """
    E = torch.cat([columns.z, torch.nan_to_num(columns.y), torch.ones_like(columns.z[:1])])
    if (roots != 1).any():
        E *= torch.from_numpy(roots).to(E.device)[columns.recording]
    return E if columns.used is None else E.mul_(columns.used)
