"""What a model needs on a device: RAM, flash, operations; known before a compiler has run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from catchment.data import Recording
from catchment.readout import Model
from catchment_edge.c.agreement import Agreement
from catchment_edge.c.code_size import code_bytes
from catchment_edge.c.golden import golden, in_steps
from catchment_edge.c.layout import Layout

MADE_UP = 50  # recordings to compare a rounded model on
# What libgcc and newlib add to a linked program on a Cortex-M4, measured: arithmetic in double
# precision and divisions of 64 bits, or the functions of math.h.
LIBRARY = {"whole": 4200, "q15": 4200, "float32": 2300}
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
    library
        Bytes that the compiler's own library adds there, about.
    operations
        Multiplications with additions for one step, of the map; those of a window are shared among
        its steps.
    readout_operations
        Multiplications with additions for one row, of the readout.
    agreement
        How well a model that had to be rounded agrees with the one that was trained.
    """

    name: str
    number: str
    ram: int
    tables: int
    code: int
    library: int
    operations: int
    readout_operations: int
    agreement: Agreement | None = None

    @property
    def flash(self) -> int:
        """Bytes of constants and instructions."""
        return self.tables + self.code

    def facts(self) -> dict[str, Any]:
        """Return the plan as plain values for scripts."""
        return {**asdict(self), "flash": self.flash}

    def text(self) -> str:
        """Return the plan for people."""
        lines = [
            f"RAM         {self.ram:>9,} bytes, the state",
            f"flash       {self.flash:>9,} bytes: tables {self.tables:,}, code {self.code:,} on a "
            f"Cortex-M4 (the compiler's library: about {self.library:,} more)",
            f"operations  {self.operations:>9,} multiply-adds a step, and "
            f"{self.readout_operations:,} for each row of scores",
        ]
        if self.agreement is not None:
            lines.append(f"rounded to 15 digits: {self.agreement.text()}")
        return "\n".join([f"{self.name}, numbers: {self.number}", *lines])


def plan_of(layout: Layout, trained: Model, check: Sequence[Recording] | None = None) -> DevicePlan:
    """Return the plan of a layout.

    Parameters
    ----------
    trained
        The model before it was rounded, if it was.
    check
        Recordings to compare both on; made up if not given.
    """
    W, S = layout.cutting.window, layout.cutting.step
    again = W / S if W else 1.0  # how often a step is run, in windows that overlap
    return DevicePlan(
        name=layout.name,
        number=layout.number,
        ram=layout.ram,
        tables=constant_bytes(layout),
        code=code_bytes(layout),
        library=LIBRARY[layout.number],
        operations=round(again * layout.map.operations),
        readout_operations=layout.map.n_features * layout.n_outputs,
        agreement=_agreement(layout, trained, check),
    )


def _agreement(
    layout: Layout, trained: Model, check: Sequence[Recording] | None
) -> Agreement | None:
    if layout.model is trained:
        return None
    if check is not None:
        return Agreement.between(trained, layout.model, check, "the recordings given")
    made_up = golden(layout, n_recordings=MADE_UP, most_numbers=MADE_UP * 10000).recordings()
    before, after = (in_steps(one, layout.cutting) for one in (trained, layout.model))
    return Agreement.between(before, after, made_up, "recordings made up")


def constant_bytes(layout: Layout) -> int:
    """Return the bytes of constants: tables, structs that point to them, and names of classes."""
    found = sum(-(-table.n_bytes // 2) * 2 for table in layout.tables)
    names = layout.model.classes or ()
    found += struct_bytes(layout.map.text)
    return found + sum(POINTER + len(name.encode()) + 1 for name in names)


def struct_bytes(text: str) -> int:
    """Return the bytes of the constant structs in C text, whose entries have a word each.

    >>> struct_bytes("static const struct pair a = {\\n    1, table\\n};")
    8
    """
    pattern = re.compile(r"static const struct .*? = (\{.*?\n\});", re.DOTALL)
    return sum(4 * len(re.findall(r"\w+", one[1])) for one in pattern.finditer(text))
