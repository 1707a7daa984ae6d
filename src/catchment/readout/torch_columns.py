"""The rows of recordings as columns on a device, whoever makes them, with their targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from catchment.arrays import Array, Integers
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.echo_state.torch_form import TorchForm, form_on
from catchment.features.echo_state.torch_pooling import pooled_rows
from catchment.features.echo_state.torch_sequences import Uploaded
from catchment.features.feature_map import FeatureMap
from catchment.features.grid import digits_after_point
from catchment.features.torch_rows import Span, form_of


@dataclass(frozen=True, eq=False)
class Columns:
    """Some rows of some recordings, one a column.

    On a grid z (F, n) are whole numbers of its units; without one they are plain float64. y (P, n)
    are the targets; where `used` (n,) says no, neither counts. Nobody else holds any of them.
    """

    z: Tensor
    y: Tensor
    used: Tensor | None  # None: all
    recordings: Integers  # (n,) number of the recording


def columns_of(
    features: FeatureMap,
    inputs: Sequence[Array],
    targets: Sequence[Array],
    device: torch.device,
    threads: int | None = None,
) -> Iterator[Columns]:
    """Yield the rows of recordings with targets (T, P) or (P,); NaN where there is none.

    Rows are made on the device if the map has a form for it, else on the CPU.
    """
    made = _Targets(targets, features.washout if features.per_step else 0, device)
    if isinstance(features, EchoStateMap) and features.precision == "float64":
        form = form_on(features, device)
        checked = features.checked_all(inputs)
        if features.per_step:
            yield from _of_steps(form, checked, made)
            return
        spans = tuple(Span(k, 0, 1) for k in range(len(inputs)))
        z = pooled_rows(form, checked)
        yield made.beside(z if features.grid is None else form.whole(z), spans)
        return
    device_form = form_of(features, device)
    if device_form is not None:
        for rows in device_form.blocks(inputs):
            yield made.beside(_in_units(features, rows.z), rows.spans)
        return
    found = features.rows(inputs, threads=threads)
    spans = tuple(Span(k, 0, len(z)) for k, z in enumerate(found))
    z = torch.from_numpy(np.ascontiguousarray(np.concatenate(found).T)).to(device)
    yield made.beside(_in_units(features, z), spans)


def _in_units(features: FeatureMap, z: Tensor) -> Tensor:
    """Return features (F, n) that lie on their grid as whole numbers; others as they are."""
    if features.grid is None:
        return z
    digits = digits_after_point(features.bounds, features.grid)
    return z * torch.from_numpy(np.ldexp(1.0, digits)).to(z.device)[:, None]


def _of_steps(form: TorchForm, checked: Sequence[Array], targets: _Targets) -> Iterator[Columns]:
    on_grid, gaps = form.features.grid is not None, targets.gaps
    uploaded, pieces = Uploaded(targets.targets, form.device), None
    for block in form.blocks(checked):
        if block.pieces is not pieces:
            pieces = block.pieces
            lanes = uploaded.lanes(pieces)
        z = form.select(block.rows)
        z = form.whole(z) if on_grid else z.clone()
        T, B = z.shape[1:]
        y = lanes.block(block.start, T, np.nan)
        used = block.used
        if gaps:
            known = ~torch.isnan(y).any(0)
            used = known if used is None else used & known
        yield Columns(
            z.reshape(len(z), T * B),
            y.reshape(len(y), T * B),
            None if used is None else used.reshape(T * B),
            np.tile(pieces.source, T),
        )


@dataclass(frozen=True, eq=False)
class _Targets:
    """Targets (T, P) or (P,) of recordings whose first `skip` steps give no row."""

    targets: Sequence[Array]
    skip: int
    device: torch.device

    @property
    def gaps(self) -> bool:
        """Whether a target is missing."""
        return any(bool(np.isnan(y).any()) for y in self.targets)

    def beside(self, z: Tensor, spans: Sequence[Span]) -> Columns:
        """Return rows (F, n) with the targets of their spans."""
        told = [self.targets[span.recording] for span in spans]
        counts = [span.n_rows for span in spans]
        if all(y.ndim == 1 for y in told):
            y = np.repeat(np.stack(told), counts, axis=0)
        else:
            y = np.concatenate([self._of(span) for span in spans])
        known = ~np.isnan(y).any(axis=1)
        return Columns(
            z,
            torch.from_numpy(np.ascontiguousarray(y.T)).to(self.device),
            None if known.all() else torch.from_numpy(known).to(self.device),
            np.repeat([span.recording for span in spans], counts),
        )

    def _of(self, span: Span) -> Array:
        y = self.targets[span.recording]
        if y.ndim == 1:
            return np.broadcast_to(y, (span.n_rows, len(y)))
        return y[self.skip + span.first :][: span.n_rows]
