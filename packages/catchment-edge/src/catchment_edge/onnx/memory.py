"""What a graph of one step remembers: states that come in and go out under names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from catchment_edge.onnx.builder import Builder
from catchment_edge.onnx.values import INT64, Value

NEXT = "_next"


@dataclass(eq=False)
class Memory:
    """States (.., n) of a graph of one step; all of them are zeros before the first.

    `going` is 0 where a window begins, which sets states to rest, and 1 elsewhere; None if no
    window ever begins.
    """

    builder: Builder
    going: Value | None = None
    shapes: dict[str, list[int]] = field(default_factory=dict)
    before: dict[str, Value] = field(default_factory=dict)
    after: dict[str, Value] = field(default_factory=dict)

    def recall(
        self, name: str, shape: Sequence[int], *, lasting: bool = False, whole: bool = False
    ) -> Value:
        """Return a state as it came in.

        Parameters
        ----------
        lasting
            Whether it goes on from window to window.
        whole
            Whether it holds integers.
        """
        dtype: np.dtype[Any] = INT64 if whole else self.builder.real
        self.shapes[name] = list(shape)
        state = self.before[name] = Value(self.builder, name, dtype)
        if lasting or self.going is None:
            return state
        return state * self.going.cast(dtype)

    def keep(self, name: str, value: Value) -> None:
        self.after[name] = value

    def name(self, word: str) -> str:
        """Return a name that no state has yet: of two maps side by side both have states."""
        taken = [name for name in self.shapes if name.rstrip("0123456789") == word]
        return f"{word}{len(taken)}"
