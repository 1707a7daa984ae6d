"""Feature rows of maps computed by torch on a device, to the bit those of the CPU.

A map of the library has a form in `inner_form`; the rows of maps without one are made on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from catchment.arrays import Array
from catchment.features.feature_map import FeatureMap
from catchment.features.grid import digits_after_point
from catchment.features.own import Adapted


@dataclass(frozen=True)
class Span:
    """Rows of one recording that lie together: its number, the first row's, and how many."""

    recording: int
    first: int
    n_rows: int


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Some rows on a device, one a column: z (F, n) float64, and whose they are, in order."""

    z: Tensor
    spans: tuple[Span, ...]


class DeviceForm(Protocol):
    """A map on one device."""

    def blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        """Yield the rows of checked inputs (T, I), a part of them at a time.

        Every row comes once: whole recordings, or parts of long ones, in any order. A block is
        valid until the next one is taken.
        """


def inner_form(inner: object, device: torch.device) -> DeviceForm | None:
    """Return the form of a map of the library before its rows are rounded, None if it has none."""
    from catchment.features.diagonal.diagonal import DiagonalReservoir

    if isinstance(inner, DiagonalReservoir):
        from catchment.features.diagonal.torch_form import DiagonalForm

        return DiagonalForm(inner, device)
    return None


def form_of(features: FeatureMap, device: torch.device) -> DeviceForm | None:
    """Return the form of a map on a device, None if its rows are made on the CPU.

    Its rows are those of `features.rows`, to the bit where the map has a grid.
    """
    if isinstance(features, Adapted):
        inner = inner_form(features.inner, device)
        return None if inner is None else CheckedForm(features, inner, device)
    return None


@dataclass(frozen=True, eq=False)
class CheckedForm:
    """The rows of a map of the library, finite and within their bounds, on the grid."""

    features: Adapted
    inner: DeviceForm
    device: torch.device

    def blocks(self, inputs: Sequence[ArrayLike]) -> Iterator[DeviceRows]:
        features, bits = self.features, self.features.grid
        limits = torch.from_numpy(features._limits).to(self.device)[:, None]
        digits = None if bits is None else digits_after_point(features.bounds, bits)
        checked = [features.checked_inputs(u, k) for k, u in enumerate(inputs)]
        for block in self.inner.blocks(checked):
            if not bool((block.z.abs() <= limits).all()):
                features.checked_rows(block.z.cpu().numpy().T)  # which says what is wrong
            z = block.z
            if digits is not None and bits is not None:
                scale = torch.from_numpy(np.ldexp(1.0, digits)).to(self.device)[:, None]
                z = (z * scale).round_().clamp_(-(2.0**bits), 2.0**bits) / scale + 0.0
            yield DeviceRows(z, block.spans)


def rows_on(form: DeviceForm, inputs: Sequence[Array]) -> list[Array]:
    """Return the rows (n, F) of each recording, brought back from the device."""
    found: list[dict[int, Array]] = [{} for _ in inputs]
    for block in form.blocks(inputs):
        z, column = block.z.T.cpu().numpy(), 0
        for span in block.spans:
            found[span.recording][span.first] = z[column : column + span.n_rows]
            column += span.n_rows
    return [np.concatenate([parts[first] for first in sorted(parts)]) for parts in found]
