"""Outputs of a readout on a device: rows and their product with the readout stay there.

The rows of a map on a grid are those of the CPU to the bit. Their product with the readout is a sum
of float64 numbers in the device's own order, so outputs agree to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from catchment import Array
from catchment.features import FeatureMap
from catchment.readout import DEVICE_SEQUENCES, Readout
from catchment_gpu.readout.statistics import usable_device
from catchment_gpu.rows import DeviceForm, by_recording, form_of, rows_on


def outputs_on(
    device: str, features: FeatureMap, readout: Readout, inputs: Sequence[Array]
) -> list[Array]:
    """Return the outputs (rows, K) of each sequence of inputs (T, I).

    Where the map has no form on the device, its rows and their products are made on the CPU.

    >>> import numpy as np
    >>> from catchment import EchoState
    >>> features = EchoState(10).build(1, per_step=True)
    >>> readout = Readout(np.ones((11, 2)), np.zeros(2))
    >>> [y.shape for y in outputs_on("cpu", features, readout, [np.ones((4, 1)), np.ones((7, 1))])]
    [(4, 2), (7, 2)]
    """
    form = form_of(features, usable_device(device))
    if form is None:
        return [readout(z) for z in features.rows(inputs)]
    return [y for some in _some(inputs) for y in _outputs(form, readout, some)]


def device_rows(device: str, features: FeatureMap, inputs: Sequence[Array]) -> list[Array]:
    """Return the rows (n, F) of each sequence, made on a device where the map has a form there."""
    form = form_of(features, usable_device(device))
    if form is None:
        return features.rows(inputs)
    return [z for some in _some(inputs) for z in rows_on(form, some)]


def _some(inputs: Sequence[Array]) -> Iterator[Sequence[Array]]:
    for start in range(0, len(inputs), DEVICE_SEQUENCES):
        yield inputs[start : start + DEVICE_SEQUENCES]


def _outputs(form: DeviceForm, readout: Readout, inputs: Sequence[Array]) -> list[Array]:
    weights = torch.tensor(readout.weights.T, device=form.device)
    made = ((torch.mm(weights, block.z), block) for block in form.blocks(inputs))
    return [y + readout.intercept for y in by_recording(form, inputs, made)]
