"""What maps are given in a graph, and the grid that their features are rounded to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from catchment import Integers
from catchment.features import FeatureMap
from catchment_edge.onnx.values import Value


@dataclass(frozen=True, eq=False)
class Sequences:
    """Inputs (B, T, I) after preparation; `steps` is T where the file says it."""

    u: Value
    steps: int | None
    channels: int

    @property
    def length(self) -> Value | int:
        """T, known now or later."""
        return self.u.length(1) if self.steps is None else self.steps

    def known_steps(self, features: FeatureMap) -> int:
        """Return T for a map that is laid out for it; ValueError if it is not known."""
        if self.steps is None:
            raise ValueError(
                f"{type(features).__name__} is laid out for recordings of one length, and the "
                "model cuts no windows; pass the length, steps=128 or --steps 128"
            )
        return self.steps


def on_grid(z: Value, digits: Integers, bits: int) -> Value:
    """Return features (.., F) rounded to their grid and cut off where it ends."""
    unit = np.ldexp(1.0, digits)
    return (z * unit).rint().clip(-(2.0**bits), 2.0**bits) / unit
