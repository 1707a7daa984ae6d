"""Feature rows of maps computed by torch on a device, to the bit those of the CPU.

Forms of the maps register themselves (`form`); the rows of maps without one are made on the CPU.
There are two kinds. A `WindowForm`, of a map with one row per recording, takes recordings of one
length together as a tensor, so that maps inside maps share it. Any other is a `DeviceForm`, which
gives rows in blocks of its own making.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Protocol, overload, runtime_checkable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from catchment import LARGEST, Array, Integers
from catchment.features import (
    FeatureMap,
    digits_after_point,
    form_maker,
)

# Files whose forms register themselves, as soon as one is asked for.
FORMS = (
    "concat",
    "diagonal.form",
    "encoder",
    "mixing",
    "nvar",
    "random_convolutions.hydra",
    "random_convolutions.minirocket",
    "window_statistics",
    "with_norm",
)
NUMBERS = {"cpu": 1 << 18, "cuda": 1 << 24}  # of the inputs, and of the rows, of a block; about
STAGED = 1 << 20  # numbers that are put side by side before a GPU fetches them


class Span(NamedTuple):
    """Rows of one recording that lie together: its number, the first row's, and how many."""

    recording: int
    first: int
    n_rows: int


@dataclass(frozen=True, eq=False)
class SingleRows(Sequence[Span]):
    """Spans of one row each, of recordings (n,) by their numbers: thousands of them are no work.

    >>> list(SingleRows(np.array([4, 2])))
    [Span(recording=4, first=0, n_rows=1), Span(recording=2, first=0, n_rows=1)]
    """

    recordings: Integers

    def __len__(self) -> int:
        return len(self.recordings)

    @overload
    def __getitem__(self, k: int) -> Span: ...
    @overload
    def __getitem__(self, k: slice) -> SingleRows: ...
    def __getitem__(self, k: int | slice) -> Span | SingleRows:
        if isinstance(k, slice):
            return SingleRows(self.recordings[k])
        return Span(int(self.recordings[k]), 0, 1)


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Some rows on a device, one a column: z (F, n) float64, and whose they are, in order."""

    z: Tensor
    spans: Sequence[Span]


class DeviceForm(Protocol):
    """A map on one device."""

    def blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        """Yield the rows of checked inputs (T, I), a part of them at a time.

        Every row comes once: whole recordings, or parts of long ones, in any order. A block is
        valid until the next one is taken.
        """


@runtime_checkable
class WindowForm(Protocol):
    """A map with one row per recording, on one device."""

    def together(self, u: Tensor) -> Tensor:
        """Return the rows (F, n), one a column, of checked recordings of one length (n, T, I)."""


def inner_form(inner: FeatureMap, device: torch.device) -> DeviceForm | WindowForm | None:
    """Return the form of a map of the library before its rows are rounded, None if it has none."""
    for name in FORMS:
        import_module(f"catchment_gpu.{name}")
    make = form_maker("torch", inner)
    found: DeviceForm | WindowForm | None = None if make is None else make(inner, device)
    return found


def form_of(features: FeatureMap, device: torch.device) -> DeviceForm | None:
    """Return the form of a map on a device, None if its rows are made on the CPU.

    Its rows are those of `features.rows`, to the bit where the map has a grid.
    """
    if features.reservoir is not None:
        return _echo_state_form(features, device)
    inner = inner_form(features, device)
    if inner is None:
        return None
    if isinstance(inner, WindowForm):
        return WindowBlocks(features, CheckedWindows(features, inner, device), device)
    return CheckedForm(features, inner, device)


def checked_rows(features: FeatureMap, z: Tensor) -> Tensor:
    """Return rows (F, n) that are finite and within their bounds, on the grid if there is one."""
    limits = torch.from_numpy(features.limits).to(z.device)
    lowest, highest = torch.aminmax(z, dim=1) if z.shape[1] else (limits, limits)
    if not bool(((-limits <= lowest) & (highest <= limits)).all()):
        features.checked_rows(z.cpu().numpy().T)  # which says what is wrong
    bits = features.feature_grid
    if bits is None:
        return z
    digits = digits_after_point(features.bounds, bits)
    scale = torch.from_numpy(np.ldexp(1.0, digits)).to(z.device)[:, None]
    # Within the bounds nothing is rounded beyond the grid's end. The zero turns -0 into 0.
    return (z * scale).round_().div_(scale).add_(0.0)


def _echo_state_form(features: Any, device: torch.device) -> DeviceForm | None:
    from catchment_gpu.echo_state.spans import EchoStateRows

    return EchoStateRows(features, device) if features.precision == "float64" else None


@dataclass(frozen=True, eq=False)
class CheckedForm:
    """The rows of a map of the library, finite and within their bounds, on the grid."""

    features: FeatureMap
    inner: DeviceForm
    device: torch.device

    def blocks(self, inputs: Sequence[ArrayLike]) -> Iterator[DeviceRows]:
        checked = [self.features.checked_inputs(u, k) for k, u in enumerate(inputs)]
        for block in self.inner.blocks(checked):
            yield DeviceRows(checked_rows(self.features, block.z), block.spans)


@dataclass(frozen=True, eq=False)
class CheckedWindows:
    """The rows of a map with one per recording, finite and within their bounds, on the grid."""

    features: FeatureMap
    inner: WindowForm
    device: torch.device

    def together(self, u: Tensor) -> Tensor:
        return checked_rows(self.features, self.inner.together(u))


@dataclass(frozen=True, eq=False)
class WindowBlocks:
    """A map with one row per recording: those of one length together, as many as there is room."""

    features: FeatureMap
    form: WindowForm
    device: torch.device

    def blocks(self, inputs: Sequence[ArrayLike]) -> Iterator[DeviceRows]:
        us = [_matrix(self.features, u, k) for k, u in enumerate(inputs)]
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for k, u in enumerate(us):
            by_shape.setdefault(u.shape, []).append(k)
        for shape, places in by_shape.items():
            self.features.checked_inputs(us[places[0]], places[0])  # its channels
            size = max(1, int(np.prod(shape)), self.features.n_features)
            n = max(1, NUMBERS[self.device.type] // size)
            for at in range(0, len(places), n):
                some = places[at : at + n]
                z = self.form.together(self._checked(us, some))
                yield DeviceRows(z, SingleRows(np.array(some)))

    def _checked(self, us: Sequence[Array], places: Sequence[int]) -> Tensor:
        """Return recordings of one length (n, T, I) on the device, looked at there."""
        u = brought_over([us[k] for k in places], self.device)
        if not bool((u.abs() <= LARGEST).all()):
            for k in places:
                self.features.checked_inputs(us[k], k)  # which says what is wrong
        return u


def brought_over(us: Sequence[Array], device: torch.device) -> Tensor:
    """Return arrays of one shape as one tensor (n, ..) on a device.

    A GPU fetches some of them while the next ones are put side by side.

    >>> brought_over([np.zeros((3, 2)), np.ones((3, 2))], torch.device("cpu")).shape
    torch.Size([2, 3, 2])
    """
    n, shape = len(us), us[0].shape
    if device.type == "cpu":
        return torch.from_numpy(np.concatenate(us)).view(n, *shape)
    found = torch.empty((n, *shape), dtype=torch.float64, device=device)
    together = max(1, STAGED // max(1, us[0].size))
    for at in range(0, n, together):
        some = us[at : at + together]
        # A GPU fetches from such memory by itself; torch keeps it until it has.
        staged = torch.empty(
            (len(some) * shape[0], *shape[1:]), dtype=torch.float64, pin_memory=True
        )
        np.concatenate(some, out=staged.numpy())
        found[at : at + together].copy_(staged.view(len(some), *shape), non_blocking=True)
    return found


def _matrix(features: FeatureMap, u: ArrayLike, k: int) -> Array:
    """Return the inputs (T, I) of recording k; those of the usual kind are looked at later."""
    if type(u) is np.ndarray and u.ndim == 2 and u.dtype == np.float64:
        return u
    return features.checked_inputs(u, k)


def spans_between(counts: Integers, first: int, last: int) -> tuple[Span, ...]:
    """Return whose rows the columns first..last are, where recordings with so many rows follow.

    >>> spans_between(np.array([3, 2]), 1, 4)
    (Span(recording=0, first=1, n_rows=2), Span(recording=1, first=0, n_rows=1))
    """
    ends = np.cumsum(counts)
    a, b = np.searchsorted(ends, [first, last - 1], side="right").tolist()
    begins = (ends - counts).tolist()
    return tuple(
        Span(k, max(0, first - begins[k]), min(last, int(ends[k])) - max(first, begins[k]))
        for k in range(a, b + 1)
        if counts[k]
    )


def spans_of_columns(spans: Sequence[Span], first: int, last: int) -> tuple[Span, ...]:
    """Return whose rows some columns of a block are, of the whole block's.

    >>> spans_of_columns((Span(4, 10, 5), Span(1, 0, 2)), 3, 6)
    (Span(recording=4, first=13, n_rows=2), Span(recording=1, first=0, n_rows=1))
    """
    cut = spans_between(np.array([span.n_rows for span in spans]), first, last)
    return tuple(
        Span(spans[one.recording].recording, spans[one.recording].first + one.first, one.n_rows)
        for one in cut
    )


def rows_on(form: DeviceForm, inputs: Sequence[Array]) -> list[Array]:
    """Return the rows (n, F) of each recording, brought back from the device."""
    blocks = ((block.z.T.cpu().numpy(), block.spans) for block in form.blocks(inputs))
    return by_recording(blocks, len(inputs))


def by_recording(blocks: Iterable[tuple[Array, Sequence[Span]]], n_recordings: int) -> list[Array]:
    """Return what belongs to each recording, of blocks (n, m) and whose their rows are.

    >>> spans = [Span(1, 0, 1), Span(0, 0, 2)]
    >>> [z.tolist() for z in by_recording([(np.array([[3.0], [1.0], [2.0]]), spans)], 2)]
    [[[1.0], [2.0]], [[3.0]]]
    """
    found: list[dict[int, Array]] = [{} for _ in range(n_recordings)]
    width = 0
    for z, spans in blocks:
        column, width = 0, z.shape[1]
        for span in spans:
            # In C order, whatever the block's was: last bits of products of rows depend on it.
            found[span.recording][span.first] = np.array(
                z[column : column + span.n_rows], order="C"
            )
            column += span.n_rows
    none = np.zeros((0, width))
    return [
        parts[0]
        if list(parts) == [0]
        else np.concatenate([none, *(parts[k] for k in sorted(parts))])
        for parts in found
    ]
