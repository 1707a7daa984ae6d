"""A frozen network on a GPU, by `onnxruntime`; its rows are brought to torch's device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from catchment import Array
from catchment.features import Encoder, form
from catchment_gpu.arrays import joined
from catchment_gpu.rows import DeviceRows, Span


@form("torch", Encoder)
def encoder_form(inner: Encoder, device: torch.device) -> EncoderForm | None:
    """Return the form of an encoder, None if this `onnxruntime` has no provider for a GPU."""
    if device.type != "cuda":
        return None
    from catchment.features import runs_on_gpus

    return EncoderForm(inner, device) if runs_on_gpus() else None


@dataclass(frozen=True, eq=False)
class EncoderForm:
    """The rows of an encoder, one recording after another."""

    inner: Encoder
    device: torch.device

    def blocks(self, inputs: Sequence[Array]) -> Iterator[DeviceRows]:
        rows = self.inner.gpu_rows(inputs, self.device.index or 0)
        yield DeviceRows(
            joined(rows, self.device).T, tuple(Span(k, 0, 1) for k in range(len(rows)))
        )
