"""What a model needs on a device: RAM, flash, operations; known before a compiler has run."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from catchment.export.c.code_size import code_bytes
from catchment.export.c.layout import Layout
from catchment.readout.model import Model

POINTER = 4  # bytes of an address on a small device


@dataclass(frozen=True, kw_only=True)
class DevicePlan:
    """What a model in C needs.

    Parameters
    ----------
    ram
        Bytes of its state, exactly.
    tables
        Bytes of constants: weights, scale, readout.
    code
        Bytes of instructions, about, for an ARM Cortex-M4 compiled for size.
    operations
        Multiplications with additions for one step, the readout counted where it runs at every one.
    """

    name: str
    number: str
    ram: int
    tables: int
    code: int
    operations: int

    @property
    def flash(self) -> int:
        """Bytes of constants and instructions."""
        return self.tables + self.code

    def facts(self) -> dict[str, Any]:
        """Return the plan as plain values for scripts."""
        return {**asdict(self), "flash": self.flash}

    def text(self) -> str:
        """Return the plan for people."""
        return (
            f"{self.name}: {self.number}, {self.ram:,} bytes of RAM, {self.flash:,} of flash "
            f"({self.tables:,} tables, {self.code:,} code on a Cortex-M4), "
            f"{self.operations:,} multiply-adds a step"
        )


def plan_of(layout: Layout, original: Model) -> DevicePlan:
    """Return the plan of a layout; `original` is the model before it was rounded, if it was."""
    readout = layout.map.n_features * layout.n_outputs
    each = 1.0 if layout.map.per_step else 1.0 / max(1, layout.cutting.step)
    return DevicePlan(
        name=layout.name,
        number=layout.number,
        ram=layout.ram,
        tables=constant_bytes(layout),
        code=code_bytes(layout),
        operations=round(layout.map.operations + each * readout),
    )


def constant_bytes(layout: Layout) -> int:
    """Return the bytes of constants: tables, structs that point to them, and names of classes."""
    found = sum(-(-table.n_bytes // 2) * 2 for table in layout.tables)
    for struct in re.finditer(
        r"static const struct .*? = (\{.*?\n\});", layout.map.text, re.DOTALL
    ):
        found += 4 * len(re.findall(r"\w+", struct[1]))
    names = layout.model.classes or ()
    return found + sum(POINTER + len(name.encode()) + 1 for name in names)
