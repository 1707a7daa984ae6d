"""What a model needs on a device: RAM, flash, operations; known before a compiler has run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from catchment.export.c.layout import Layout
from catchment.readout.model import Model


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
        tables=sum(table.n_bytes for table in layout.tables),
        code=0,
        operations=round(layout.map.operations + each * readout),
    )
