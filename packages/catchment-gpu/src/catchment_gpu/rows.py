"""Feature rows of maps computed by torch on a device, to the bit those of the CPU.

The form of a map on a device is a `DeviceForm` that registers itself (`form`); the rows of maps
without one are made on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from catchment import LARGEST, Array
from catchment.features import FeatureMap, form_maker, warn_of_clipping

# Files whose forms register themselves, as soon as one is asked for.
FORMS = ("convolutions", "diagonal.form", "echo_state", "maps", "window_statistics")
NUMBERS = {"cpu": 1 << 18, "cuda": 1 << 24}  # of the inputs, and of the rows, of a block; about
MOST_NUMBERS = {"cpu": 1 << 20, "cuda": 1 << 28}  # of a block of rows per step, at most
SHARE = 96  # bytes of a GPU's memory for each of them: rounding and products take several copies
STAGED = 1 << 21  # numbers that are put side by side before a GPU fetches them


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Some rows on a device, one a column: z (F, n) float64, and whose they are.

    `recording` and `row` (n,) say which recording's a column is, and which of its rows. Where
    `used` (n,) says no, a column is nobody's.
    """

    z: Tensor
    recording: Tensor
    row: Tensor
    used: Tensor | None = None  # None: all

    @classmethod
    def in_order(cls, z: Tensor, counts: ArrayLike, first: int = 0) -> DeviceRows:
        """Return all rows of recordings from one on that have so many each, in order.

        >>> rows = DeviceRows.in_order(torch.zeros(1, 3), [1, 2], first=5)
        >>> rows.recording.tolist(), rows.row.tolist()
        ([5, 6, 6], [0, 0, 1])
        """
        n = np.asarray(counts)
        recording = np.repeat(np.arange(len(n)), n)
        row = np.arange(len(recording)) - np.repeat(np.cumsum(n) - n, n)
        return cls(z, *torch.from_numpy(np.stack([recording + first, row])).to(z.device))


class DeviceForm:
    """A map on one device.

    The form of a map with one row per recording overrides `together`; any other says `by_length =
    False` and overrides `compute_blocks`. Both give rows before they are rounded.
    """

    by_length = True  # whether it takes recordings of one length together

    def __init__(self, features: FeatureMap, device: torch.device) -> None:
        self.features, self.device = features, device

    def together(self, u: Tensor) -> Tensor:
        """Return the rows (F, n), one a column, of checked recordings of one length (n, T, I)."""
        raise TypeError(
            f"{type(self).__name__} takes recordings of one length together and does not say how; "
            "override together, or say by_length = False and override compute_blocks"
        )

    def compute_blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        """Yield the rows of checked inputs (T, I), a part of them at a time.

        Every row comes once, in any order. A block is valid until the next one is taken.
        """
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for k, u in enumerate(inputs):
            by_shape.setdefault(u.shape, []).append(k)
        for shape, places in by_shape.items():
            self.features.checked_inputs(inputs[places[0]], places[0])  # its channels
            size = max(1, int(np.prod(shape)), self.features.n_features)
            n = max(1, NUMBERS[self.device.type] // size)
            for at in range(0, len(places), n):
                some = places[at : at + n]
                held = joined([inputs[k] for k in some], self.device).view(len(some), *shape)
                if not bool((held.abs() <= LARGEST).all()):
                    for k in some:
                        self.features.checked_inputs(inputs[k], k)  # which says what is wrong
                recording = torch.tensor(some, device=self.device)
                yield DeviceRows(self.together(held), recording, torch.zeros_like(recording))

    def blocks(self, inputs: Sequence[ArrayLike], *, whole: bool = False) -> Iterator[DeviceRows]:
        """Yield the rows of inputs (T, I), a part of them at a time, those of `features.rows`.

        Parameters
        ----------
        whole
            Whether features in fixed point are integers of its units.
        """
        for block in self.compute_blocks(self.checked_inputs(inputs)):
            yield replace(block, z=self.checked(block.z, whole=whole))

    def checked_inputs(self, inputs: Sequence[ArrayLike]) -> list[Array]:
        """Return inputs (T, I); those of the usual kind may be looked at on the device."""
        return [
            u
            if self.by_length and type(u) is np.ndarray and u.ndim == 2 and u.dtype == np.float64
            else self.features.checked_inputs(u, k)
            for k, u in enumerate(inputs)
        ]

    def checked(self, z: Tensor, *, whole: bool = False) -> Tensor:
        """Return rows (F, n) that are finite and within their bounds, in fixed point if it is."""
        limits = torch.from_numpy(self.features.limits).to(z.device)
        lowest, highest = torch.aminmax(z, dim=1) if z.shape[1] else (limits, limits)
        if not bool(((-limits <= lowest) & (highest <= limits)).all()):
            self.features.checked_rows(z.cpu().numpy().T)  # which says what is wrong
        return self.rounded(z, whole=whole)

    def rounded(self, z: Tensor, *, whole: bool) -> Tensor:
        """Return features (F, n) in fixed point, if they have bits."""
        if self.features.feature_bits is None:
            return z
        scale = torch.from_numpy(np.ldexp(1.0, self.features.feature_digits)).to(z.device)[:, None]
        # Within the bounds nothing is rounded beyond the largest number. The zero turns -0 into 0.
        k = (z * scale).round_()
        return k if whole else k.div_(scale).add_(0.0)


class HostForm(DeviceForm):
    """A map whose rows are made on the CPU, or on the GPU by its own means, and brought over."""

    by_length = False

    def __init__(
        self, features: FeatureMap, device: torch.device, threads: int | None = None
    ) -> None:
        super().__init__(features, device)
        self.threads = threads

    def made(self, inputs: Sequence[Array]) -> Sequence[Array]:
        """Return the rows (n, F) of each recording's inputs."""
        rows = None
        if self.device.type == "cuda":
            rows = self.features.gpu_rows(inputs, self.device.index or 0)
        return self.features.rows(inputs, threads=self.threads) if rows is None else rows

    def compute_blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        rows = self.made(inputs)
        yield DeviceRows.in_order(joined(rows, self.device).T, [len(z) for z in rows])


def form_of(features: FeatureMap, device: torch.device, threads: int | None = None) -> DeviceForm:
    """Return the form of a map on a device; without one its rows are made by threads of the CPU.

    Its rows are those of `features.rows`, to the bit where the map is in fixed point.
    """
    for name in FORMS:
        import_module(f"catchment_gpu.{name}")
    make = form_maker("torch", features)
    found: DeviceForm | None = None if make is None else make(features, device)
    return found or HostForm(features, device, threads)


def joined(arrays: Sequence[Array], device: torch.device) -> Tensor:
    """Return arrays (n, m) one below the other (N, m), as float64 on a device; always a copy.

    A GPU fetches some rows while the next ones are put side by side.

    >>> joined([np.zeros((2, 1)), np.ones((1, 1))], torch.device("cpu")).flatten().tolist()
    [0.0, 0.0, 1.0]
    """
    if device.type != "cuda":
        return torch.from_numpy(np.concatenate(arrays, dtype=np.float64))
    m = arrays[0].shape[1]
    most = max(1, STAGED // max(1, m))
    parts = [a[at : at + most] for a in arrays for at in range(0, max(1, len(a)), most)]
    ends = np.cumsum([len(part) for part in parts])
    found, k = torch.empty((int(ends[-1]), m), dtype=torch.float64, device=device), 0
    while k < len(parts):
        first = int(ends[k]) - len(parts[k])
        last = max(k + 1, int(np.searchsorted(ends, first + most, side="right")))
        stop = int(ends[last - 1])
        # A GPU fetches from such memory by itself; torch keeps it until it has.
        staged = torch.empty((stop - first, m), dtype=torch.float64, pin_memory=True)
        np.concatenate(parts[k:last], out=staged.numpy())
        found[first:stop].copy_(staged, non_blocking=True)
        k = last
    return found


def limited(
    features: FeatureMap, inputs: Sequence[Array], largest: float, device: torch.device
) -> Tensor:
    """Return inputs (T, I), one below the other, cut off; who has many of those is warned."""
    features.after_washout(min(inputs, key=len))
    given = joined(inputs, device)
    if bool((given.abs() > largest).any()):
        for one in inputs:
            warn_of_clipping(np.count_nonzero(np.abs(one) > largest), one.size, largest)
    return given.clamp_(-largest, largest)


def block_numbers(device: torch.device) -> int:
    """Return how many numbers a block of rows has, at most: fewer on a GPU with little memory.

    >>> block_numbers(torch.device("cpu"))
    1048576
    """
    most = MOST_NUMBERS[device.type]
    if device.type == "cpu":
        return most
    return min(most, torch.cuda.get_device_properties(device).total_memory // SHARE)


def rows_on(form: DeviceForm, inputs: Sequence[Array]) -> list[Array]:
    """Return the rows (n, F) of each recording, brought back from the device."""
    return by_recording(form, inputs, ((block.z, block) for block in form.blocks(inputs)))


def by_recording(
    form: DeviceForm, inputs: Sequence[Array], blocks: Iterable[tuple[Tensor, DeviceRows]]
) -> list[Array]:
    """Return what belongs to each recording (n, m), of blocks (m, columns) made of rows."""
    skip = form.features.washout
    counts = np.array([len(u) - skip if form.features.per_step else 1 for u in inputs])
    ends = np.cumsum(counts)
    first, found = torch.from_numpy(ends - counts).to(form.device), np.empty((0, 0))
    for z, block in blocks:
        place = first[block.recording] + block.row
        if block.used is not None:
            z, place = z[:, block.used], place[block.used]
        if not found.size:
            # In C order, whatever the blocks' is: last bits of products of rows depend on it.
            found = np.empty((int(ends[-1]), len(z)))
        found[place.cpu().numpy()] = z.T.cpu().numpy()
    return np.split(found, ends[:-1])


def root(x: Tensor) -> Tensor:
    """Return square roots of float64 numbers, rounded correctly.

    A GPU's are. On the CPU torch may ask a library that is wrong in the last digit now and then.

    >>> root(torch.tensor([2.0, 9.0]).double()).tolist()
    [1.4142135623730951, 3.0]
    """
    if x.device.type == "cpu":
        return torch.from_numpy(np.sqrt(x.numpy()))
    return x.sqrt()


def quotient(x: Tensor, divisor: float) -> Tensor:
    """Return float64 numbers divided by one number, rounded correctly.

    On a GPU torch multiplies by the reciprocal of what is no tensor there.

    >>> quotient(torch.tensor([1.0]).double(), 3).item()
    0.3333333333333333
    """
    return x / torch.full((1,), divisor, dtype=torch.float64, device=x.device)
