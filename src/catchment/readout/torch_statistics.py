"""Ridge statistics computed on a device: the integers that the CPU gives, with the same digest.

Where they are computed is a matter of the machine and not of the plan: clients with and without a
GPU take part in one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from catchment.arrays import Array
from catchment.data.recording import Recording
from catchment.errors import MissingExtraError
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.feature_map import FeatureMap
from catchment.readout import integers
from catchment.readout.exact_gram import packed_whole, statistics_of, target_pieces
from catchment.readout.exact_rows import whole_weights
from catchment.readout.grid import Grid
from catchment.readout.statistics import RidgeStatistics

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("torch", needed_for="statistics on a device") from error

from catchment.features.echo_state.torch_form import TorchForm
from catchment.features.torch_rows import DeviceRows, form_of
from catchment.readout.torch_gram import LARGEST_HALF, Products, padded, takes_short
from catchment.readout.torch_targets import DeviceTargets

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
    grid: Grid,
    *,
    threads: int | None = None,
) -> RidgeStatistics:
    """Return the statistics of recordings with targets (T, K) or (K,), products on a device.

    States are computed there too for an echo state map; other maps give their rows on the CPU.
    """
    place, weights = usable_device(device), np.array([s.weight for s in window])
    parts = []
    for weight in whole_weights(weights):
        group = np.flatnonzero(weights == weight).tolist()
        inputs, mine = [window[k].u for k in group], [targets[k] for k in group]
        sums = _Sums(place, features, mine, grid)
        sums.add_sequences(inputs, threads)
        parts.append(sums.statistics(features.fingerprint).scaled(weight))
    return reduce(add, parts)


class _Sums:
    """Products of rows [features; pieces of targets; 1] under way on a device."""

    def __init__(
        self, device: torch.device, features: FeatureMap, targets: Sequence[Array], grid: Grid
    ) -> None:
        self.device, self.features, self.grid = device, features, grid
        self.form = None if isinstance(features, EchoStateMap) else form_of(features, device)
        if self.form is None:
            self.pieces, self.places = target_pieces(list(targets), grid)
            self.n_pieces = self.pieces[0].shape[-1]
        else:
            self.targets = DeviceTargets.of(targets, grid, device)
            self.n_pieces, self.places = self.targets.n_pieces, self.targets.places
        self.split = grid.bits > ONE_PIECE_BITS
        self.short = takes_short(device) and grid.is_whole and 1 << grid.bits <= LARGEST_HALF
        target_bits = 8 if grid.is_whole else 20
        self.largest = 1 << max(HALF if self.split else grid.bits, target_bits)
        height = grid.n_features * (2 if self.split else 1) + self.n_pieces + 1
        self.products, self.n_rows = Products(height, device), 0

    def add_sequences(self, inputs: Sequence[Array], threads: int | None) -> None:
        """Add all rows of the sequences."""
        features = self.features
        if not isinstance(features, EchoStateMap):
            if self.form is None:
                self._add_host_rows(features.rows(inputs, threads=threads))
                return
            for rows in self.form.blocks(inputs):
                self._add_device_rows(rows)
            return
        checked = features.checked_all(inputs)
        form = TorchForm(features, self.device)
        if not features.per_step:
            self._add_host_rows(form.rows(checked))
            return
        for block in form.blocks(checked):
            k = form.whole(form.select(block.rows))
            at = (block.pieces, block.start, k.shape[1])
            y = form.side_by_side(self.pieces, at, np.nan)
            used = ~torch.isnan(y).any(0)
            used = used if block.used is None else used & block.used
            self._add(k.flatten(1), y.flatten(1), used.flatten())

    def _add_host_rows(self, rows: Sequence[Array]) -> None:
        """Add rows (n, F) of each sequence, made on the CPU."""
        z = np.concatenate(rows)
        skip = self.features.washout if self.features.per_step else 0
        y = np.concatenate(
            [
                y[skip:] if y.ndim == 2 else np.broadcast_to(y, (len(z), len(y)))
                for z, y in zip(rows, self.pieces, strict=True)
            ]
        )
        k = torch.from_numpy((z * np.ldexp(1.0, self.grid.digits)).T).to(self.device)
        pieces = torch.from_numpy(y.T).to(self.device)
        self._add(k, pieces, ~torch.isnan(pieces).any(0))

    def _add_device_rows(self, rows: DeviceRows) -> None:
        """Add rows (F, n) that were made on the device."""
        skip = self.features.washout if self.features.per_step else 0
        pieces = self.targets.pieces(rows.spans, skip)
        scale = torch.from_numpy(np.ldexp(1.0, self.grid.digits)).to(self.device)
        self._add(rows.z * scale[:, None], pieces, ~torch.isnan(pieces).any(0))

    def _add(self, k: Tensor, y: Tensor, used: Tensor) -> None:
        """Add whole features (F, n) and pieces of targets (P, n), in columns that are used (n,)."""
        F, n = k.shape
        kind = torch.float16 if self.short else torch.float64
        height = len(self.products.sums)
        E = torch.zeros((height, padded(n) if self.short else n), dtype=kind, device=self.device)
        if self.features.constant:
            k[0] = 1.0  # counted as such; see `statistics_of`
        E[:F, :n] = k
        if self.split:
            high = (k * 2.0**-HALF).round_()
            E[:F], E[F : 2 * F] = high, k - high * 2.0**HALF
        E[-1 - self.n_pieces : -1, :n], E[-1, :n] = torch.nan_to_num(y), 1.0
        counted = int(used.sum())
        if counted < n:
            E[:, :n] *= used
        self.n_rows += counted
        self.products.add(E, largest=self.largest)

    def statistics(self, fingerprint: str) -> RidgeStatistics:
        M = self.products.total()
        if self.split:
            M = _joined(M, self.grid.n_features)
        F = self.grid.n_features
        return statistics_of(
            packed_whole(M, F),
            np.triu(M)[:, F:],
            self.n_rows,
            self.grid,
            self.places,
            constant=self.features.constant,
            fingerprint=fingerprint,
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
