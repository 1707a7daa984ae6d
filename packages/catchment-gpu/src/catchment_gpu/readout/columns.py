"""The rows of recordings as columns on a device, whoever makes them, with their targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from catchment import Array
from catchment.features import FeatureMap
from catchment_gpu.echo_state.form import TorchForm, form_on
from catchment_gpu.echo_state.pooling import pooled_rows
from catchment_gpu.echo_state.sequences import Uploaded
from catchment_gpu.readout.targets import Columns, HostTargets, Targets
from catchment_gpu.rows import Span, form_of


def columns_of(
    features: FeatureMap,
    inputs: Sequence[Array],
    targets: Targets,
    device: torch.device,
    threads: int | None = None,
) -> Iterator[Columns]:
    """Yield the rows of recordings and their targets.

    Rows are made on the device if the map has a form for it, else on the CPU.
    """
    if features.reservoir is not None and features.precision == "float64":
        states: Any = features
        form = form_on(states, device)
        checked = states.checked_all(inputs)
        if features.per_step:
            assert isinstance(targets, HostTargets)
            yield from _of_steps(form, checked, targets)
            return
        spans = tuple(Span(k, 0, 1) for k in range(len(inputs)))
        z = pooled_rows(form, checked)
        yield targets.beside(z if features.feature_grid is None else form.whole(z), spans)
        return
    device_form = form_of(features, device)
    if device_form is not None:
        for rows in device_form.blocks(inputs):
            yield targets.beside(_in_units(features, rows.z), rows.spans)
        return
    found = features.rows(inputs, threads=threads)
    spans = tuple(Span(k, 0, len(z)) for k, z in enumerate(found))
    z = torch.from_numpy(np.ascontiguousarray(np.concatenate(found).T)).to(device)
    yield targets.beside(_in_units(features, z), spans)


def _in_units(features: FeatureMap, z: Tensor) -> Tensor:
    """Return features (F, n) that lie on their grid as whole numbers; others as they are."""
    if features.feature_grid is None:
        return z
    digits = features.grid_digits
    return z * torch.from_numpy(np.ldexp(1.0, digits)).to(z.device)[:, None]


def _of_steps(form: TorchForm, checked: Sequence[Array], targets: HostTargets) -> Iterator[Columns]:
    on_grid, gaps = form.features.feature_grid is not None, targets.gaps
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
