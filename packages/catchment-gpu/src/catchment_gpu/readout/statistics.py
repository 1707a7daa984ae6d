"""Ridge statistics computed on a device, of one client or of many, and outputs of readouts.

In fixed point they are the integers that the CPU gives, with the same digest: where they are
computed is then a matter of the machine and not of the plan. In float64 they agree with the CPU's
to rounding. Of many clients the rows are made together, their sums are apart: the rows of each lie
side by side in one padded array, and one batched product gives every client's sums.

Outputs are the product of a readout with rows that stay on the device: a sum of float64 numbers in
its own order, so outputs agree to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from catchment import Array, Integers
from catchment.data import Recording
from catchment.errors import MissingExtraError
from catchment.features import FeatureMap
from catchment.readout import (
    DEVICE_SEQUENCES,
    N_PIECES,
    PIECE,
    TARGET_DIGITS,
    FixedPoint,
    Readout,
    RidgeStatistics,
    check_targets,
    integers,
    statistics_of,
    whole_weights,
)

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("gpu", needed_for="statistics on a device") from error

from catchment_gpu.readout.gram import EXACT, LARGEST_HALF, Products, padded, takes_short
from catchment_gpu.rows import by_recording, form_of, joined, rows_on

ONE_PIECE_BITS = 21  # features of more bits are split in two, or blocks would be a few columns
HALF = 12  # binary digits of the lower piece
TOGETHER = {"cpu": 1 << 22, "cuda": 1 << 28}  # numbers of the products of clients, about


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


@dataclass(frozen=True, eq=False)
class Columns:
    """Some rows of some recordings, one a column.

    In fixed point z (F, n) are integers of its units; without one they are plain float64. y (P, n)
    are the targets; where `used` (n,) says no, neither counts.
    """

    z: Tensor
    y: Tensor
    used: Tensor | None  # None: all
    recording: Tensor  # (n,) whose each is


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets y (n, K) of all recordings, one after the other; in fixed point cut into pieces.

    `begin` (R,) is where a recording's targets lie, `apart` (R,) is 1 if each step has its own and
    0 if one stands for all of them; the first `skip` steps give no row.
    """

    y: Tensor
    begin: Tensor
    apart: Tensor
    places: tuple[int, ...]  # what pieces count; see `target_pieces`
    whole: bool  # whether there is one piece, as they are
    gaps: bool  # whether a target is missing
    skip: int

    @classmethod
    def of(
        cls,
        features: FeatureMap,
        targets: Sequence[Array],
        fixed: FixedPoint | None,
        device: torch.device,
    ) -> Targets:
        """Return targets (n, K) or (K,) on a device; the errors are those of `target_pieces`."""
        if all(y.ndim == 1 for y in targets):  # many of them are one array at once
            rows = [np.concatenate(targets).reshape(len(targets), -1)]
            lengths = np.ones(len(targets), dtype=np.int64)
        else:
            rows = [y.reshape(-1, y.shape[-1]) for y in targets]
            lengths = np.array([len(y) for y in rows])
        y = joined(rows, device)
        gaps = bool(y.isnan().any())
        places: tuple[int, ...] = (0,)
        if fixed is not None:
            largest = float(torch.nan_to_num(y, nan=0.0).abs().max()) if y.numel() else 0.0
            parts = fixed.is_whole and bool(((y.round() != y) & ~y.isnan()).any())
            check_targets(largest, fixed, parts)
            if not fixed.is_whole:
                few = largest * 2.0**TARGET_DIGITS < 2.0 ** (2 * PIECE - 1)
                places = tuple(range(2 if few else N_PIECES))
        apart = np.array([y.ndim - 1 for y in targets])
        told = np.stack([np.cumsum(lengths) - lengths, apart])
        begin, apart_of = torch.from_numpy(told).to(device)
        skip = features.washout if features.per_step else 0
        return cls(y, begin, apart_of, places, fixed is None or fixed.is_whole, gaps, skip)

    @property
    def width(self) -> int:
        """Numbers that the targets of one row are."""
        return len(self.places) * self.y.shape[1]

    def chosen(self, some: Sequence[int]) -> Targets:
        """Return those of some recordings."""
        return replace(self, begin=self.begin[some], apart=self.apart[some])

    def columns(
        self, features: FeatureMap, inputs: Sequence[Array], threads: int | None
    ) -> Iterator[Columns]:
        """Yield the rows of recordings with their targets.

        Rows are made on the device if the map has a form for it, else on the CPU.
        """
        form = form_of(features, self.y.device, threads)
        for rows in form.blocks(inputs, whole=True):
            place = self.begin[rows.recording] + self.apart[rows.recording] * (self.skip + rows.row)
            y, used = self.y[place.clamp_(max=len(self.y) - 1)], rows.used
            if self.gaps:
                known = ~y.isnan().any(1)
                used = known if used is None else used & known
            yield Columns(rows.z, self._pieces(y.T), used, rows.recording)

    def _pieces(self, y: Tensor) -> Tensor:
        """Return the pieces (P K, n) of targets (K, n)."""
        if self.whole:
            return y
        left = (y * 2.0**TARGET_DIGITS).round_()
        found = []
        for p in self.places[:0:-1]:
            found.append((left * 2.0 ** (-PIECE * p)).round_())
            left = left - found[-1] * 2.0 ** (PIECE * p)
        return torch.cat([left, *found[::-1]])


def statistics_on(
    device: str,
    features: FeatureMap,
    window: Sequence[Recording],
    targets: Sequence[Array],
    fixed: FixedPoint | None,
    *,
    threads: int | None = None,
) -> RidgeStatistics:
    """Return the statistics of recordings with targets (T, K) or (K,), products on a device.

    States are computed there too where the map has a form; other maps give their rows on the CPU.
    """
    place, weights = usable_device(device), np.array([s.weight for s in window])
    if fixed is None:
        told, owners = Targets.of(features, targets, None, place), np.zeros(len(window), np.int64)
        return _sums(features, None, window, told, owners, 1, threads)[0]
    parts = []
    for weight in whole_weights(weights):
        group = np.flatnonzero(weights == weight).tolist()
        inputs, mine = [window[k].u for k in group], [targets[k] for k in group]
        sums = WholeRows(features, Targets.of(features, mine, fixed, place), fixed)
        products = Products(sums.height, place)
        for columns in sums.targets.columns(features, inputs, threads):
            products.add(sums.stacked(columns), largest=sums.largest)
        parts.append(sums.statistics(products.total()).scaled(weight))
    return reduce(add, parts)


class WholeRows:
    """Rows [features; pieces of targets; 1] of integers, whose products are summed.

    Features of many bits are two rows each: k = 2^12 h + l.
    """

    def __init__(self, features: FeatureMap, targets: Targets, fixed: FixedPoint) -> None:
        self.features, self.fixed, self.targets = features, fixed, targets
        self.split = fixed.bits > ONE_PIECE_BITS
        target_bits = 8 if fixed.is_whole else 20
        self.largest = 1 << max(HALF if self.split else fixed.bits, target_bits)
        self.height = fixed.n_features * (2 if self.split else 1) + targets.width + 1

    def stacked(self, columns: Columns, *, short: bool | None = None) -> Tensor:
        """Return the rows (height, n) of some columns, zeros where they do not count.

        They are float16 numbers, and more columns than there are, where the device multiplies these
        faster and they hold them; `short` says otherwise.
        """
        k, device = columns.z, columns.z.device
        F, n = k.shape
        if short is None:
            short = takes_short(device) and self.fixed.is_whole
            short = short and 1 << self.fixed.bits <= LARGEST_HALF
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
        F, unit = self.fixed.n_features, 1 << HALF
        tall = torch.cat([sums[:, :F] * unit + sums[:, F : 2 * F], sums[:, 2 * F :]], dim=1)
        wide = tall[:, :, :F] * unit + tall[:, :, F : 2 * F]
        return torch.cat([wide, tall[:, :, 2 * F :]], dim=2)

    def statistics(self, M: integers.Whole) -> RidgeStatistics:
        """Return the statistics of the sums of all products, whether they are joined or not."""
        F = self.fixed.n_features
        if len(M) > F + self.targets.width + 1:
            M = _joined(M, F)
        return statistics_of(
            M,
            int(M[-1, -1]),
            self.fixed,
            self.targets.places,
            constant=self.features.constant,
            fingerprint=self.features.fingerprint,
        )


def _joined(M: integers.Whole, F: int) -> integers.Whole:
    """Return the sums of rows [k; rest] from those of [h; l; rest], where k = 2^12 h + l."""
    unit = 1 << HALF
    below = integers.added(integers.multiplied(M[:F], unit), M[F : 2 * F])
    tall = np.concatenate([below, M[2 * F :]])
    beside = integers.added(integers.multiplied(tall[:, :F], unit), tall[:, F : 2 * F])
    return np.concatenate([beside, tall[:, 2 * F :]], axis=1)


def float_rows(columns: Columns, roots: Array) -> Tensor:
    """Return [Z; Y'; 1] (F + K + 1, n) of some columns, zeros where they do not count.

    `roots` of each recording's weight multiply its columns.
    """
    E = torch.cat([columns.z, torch.nan_to_num(columns.y), torch.ones_like(columns.z[:1])])
    if (roots != 1).any():
        E *= torch.from_numpy(roots).to(E.device)[columns.recording]
    return E if columns.used is None else E.mul_(columns.used)


def statistics_of_each(
    device: str,
    features: FeatureMap,
    groups: Sequence[Sequence[Recording]],
    fixed: FixedPoint | None,
) -> list[RidgeStatistics]:
    """Return the statistics of each group of recordings with targets, all of one width.

    Parameters
    ----------
    groups
        Each of one recording or more; in fixed point all of weight 1, and of at most 2^14 rows, so
        that their sums stay within int64.
    """
    place = usable_device(device)
    recordings = [s for group in groups for s in group]
    targets = [s.y for s in recordings if s.y is not None]
    owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    told = Targets.of(features, targets, fixed, place)
    rows = None if fixed is None else WholeRows(features, told, fixed)
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
    threads: int | None = 1,
) -> list[RidgeStatistics]:
    """Return the statistics of n clients, whose (owners) the recordings are.

    In float64 each row is multiplied by the root of its weight.
    """
    size = features.n_features + targets.width + 1 if rows is None else rows.height
    device, kind = targets.y.device, torch.float64 if rows is None else torch.int64
    sums = torch.zeros((n, size, size), dtype=kind, device=device)
    counts = torch.zeros(n, dtype=torch.float64, device=device)
    roots = np.sqrt([one.weight for one in recordings])
    for columns in targets.columns(features, [one.u for one in recordings], threads):
        E = float_rows(columns, roots) if rows is None else rows.stacked(columns, short=False)
        whose = owners[columns.recording.cpu().numpy()]
        if rows is None:
            used = torch.ones_like(E[0]) if columns.used is None else columns.used.double()
            counts.index_add_(0, torch.from_numpy(whose).to(device), used)
        if n == 1 and rows is None:
            sums[0].addmm_(E, E.T)
            continue
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


def outputs_on(
    device: str, features: FeatureMap, readout: Readout, inputs: Sequence[Array]
) -> list[Array]:
    """Return the outputs (rows, K) of each sequence of inputs (T, I).

    Where the map has no form on the device, its rows are made on the CPU.

    >>> from catchment import EchoState
    >>> features = EchoState(10).build(1, per_step=True)
    >>> readout = Readout(np.ones((11, 2)), np.zeros(2))
    >>> [y.shape for y in outputs_on("cpu", features, readout, [np.ones((4, 1)), np.ones((7, 1))])]
    [(4, 2), (7, 2)]
    """
    form = form_of(features, usable_device(device))
    weights, found = torch.tensor(readout.weights.T, device=form.device), []
    for some in _some(inputs):
        made = ((torch.mm(weights, block.z), block) for block in form.blocks(some))
        found += [y + readout.intercept for y in by_recording(form, some, made)]
    return found


def device_rows(device: str, features: FeatureMap, inputs: Sequence[Array]) -> list[Array]:
    """Return the rows (n, F) of each sequence, made on a device where the map has a form there."""
    form = form_of(features, usable_device(device))
    return [z for some in _some(inputs) for z in rows_on(form, some)]


def _some(inputs: Sequence[Array]) -> Iterator[Sequence[Array]]:
    for start in range(0, len(inputs), DEVICE_SEQUENCES):
        yield inputs[start : start + DEVICE_SEQUENCES]
