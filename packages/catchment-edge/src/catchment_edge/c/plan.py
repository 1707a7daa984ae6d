"""What a model needs on a device: RAM, flash, operations; known before a compiler has run.

Bytes of instructions are a sum over what a program is made of: every trait of it (a pool, an
activation, windows that overlap, ...) adds about as many bytes wherever it occurs.
`code_sizes.json` has them, fitted by `python -m tools.code_sizes` to programs that
arm-none-eabi-gcc compiled for size for a Cortex-M4; the tests compare with the compiler.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from catchment_edge.c.layout import Layout
from catchment_edge.c.map_code import MapCode
from catchment_edge.c.pieces import Piece, needed
from catchment_edge.c.program import pieces_of


def traits(layout: Layout) -> list[str]:
    """Return what adds instructions to a program: its frame's traits and its map's."""
    return with_pairs([*_frame_traits(layout), *map_traits(layout.map, pieces_of(layout))])


def map_traits(code: MapCode, pieces: Sequence[Piece]) -> list[str]:
    """Return what adds instructions to a map.

    What it names itself; and for maps that name nothing the functions that they take from the
    sources.

    Parameters
    ----------
    pieces
        What the program takes from the sources.
    """
    told = {"grid.h", "grid.c", "prepare.c"}
    others = [name for name in code.sources if name not in told]
    taken = {name for piece in pieces if piece.is_function for name in piece.names}
    own = {name for piece in needed(others, taken) for name in piece.names}
    return [*code.traits, *sorted(taken & own)]


def bytes_of(found: Sequence[str]) -> int:
    """Return the bytes of instructions that some traits add up to, about."""
    known: dict[str, float] = json.loads(
        (files("catchment_edge") / "c" / "code_sizes.json").read_text("utf-8")
    )
    return max(0, round(sum(known.get(trait, 0.0) for trait in found)))


def with_pairs(found: list[str]) -> list[str]:
    """Return traits, and pairs of them that a compiler makes more or less of than of each alone.

    Loops over one channel vanish, and the type of a feature shows in what writes a row.

    >>> with_pairs(["features int16_t", "hold, one channel", "nvar_row()"])[-1]
    'nvar_row(), one channel'
    """
    kinds = [one for one in found if one.startswith("features ")]
    kinds += ["one channel"] if any(one.endswith(", one channel") for one in found) else []
    maps = [one for one in found if one.endswith("_row()") or one.startswith("echo state, pool")]
    return [*found, *(f"{one}, {kind}" for one in maps for kind in kinds)]


def _frame_traits(layout: Layout) -> list[str]:
    cutting, mode = layout.cutting, "recording"
    if layout.map.per_step:
        mode = "steps"
    elif cutting.window:
        mode = "windows"
    held = "hold" if layout.holds else "refuse"
    scaled = "scaled" if layout.scaler is not None else "raw"
    one = "one channel" if layout.map.n_inputs == 1 else "channels"
    return [
        f"{mode}, {'kept' if layout.kept_steps else 'streamed'}",
        f"{held}, {scaled}",
        f"{held}, {one}",
        f"{scaled}, {one}",
        "one output" if layout.n_outputs == 1 else "outputs",
        *(["classes"] if layout.model.classes is not None else []),
        *(["window"] if layout.map.per_step and cutting.window else []),
        *(["gap between windows"] if cutting.step > cutting.window else []),
        *(["overlap"] if cutting.window and cutting.overlaps else []),
        *(["washout"] if layout.map.washout else []),
        *(["told steps"] if layout.told_steps else []),
        f"features {layout.feature}",
    ]


# What libgcc adds to a linked program on a Cortex-M4, measured: arithmetic in double precision and
# divisions of 64 bits.
LIBRARY = 4200
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
    """

    name: str
    ram: int
    tables: int
    code: int
    library: int
    operations: int
    readout_operations: int

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
            self.name,
            f"RAM         {self.ram:>9,} bytes, the state",
            f"flash       {self.flash:>9,} bytes: tables {self.tables:,}, code {self.code:,} on a "
            f"Cortex-M4 (the compiler's library: about {self.library:,} more)",
            f"operations  {self.operations:>9,} multiply-adds a step, and "
            f"{self.readout_operations:,} for each row of scores",
        ]
        return "\n".join(lines)


def plan_of(layout: Layout) -> DevicePlan:
    """Return the plan of a layout."""
    W, S = layout.cutting.window, layout.cutting.step
    names = layout.model.classes or ()
    # Constants are tables, structs that point to them, and names of classes.
    constants = sum(-(-table.n_bytes // 2) * 2 for table in layout.tables)
    constants += sum(POINTER + len(name.encode()) + 1 for name in names)
    again = W / S if W else 1.0  # how often a step is run, in windows that overlap
    return DevicePlan(
        name=layout.name,
        ram=layout.ram,
        tables=constants + struct_bytes(layout.map.text),
        code=bytes_of(traits(layout)),
        library=LIBRARY,
        operations=round(again * layout.map.operations),
        readout_operations=layout.map.n_features * layout.n_outputs,
    )


def struct_bytes(text: str) -> int:
    """Return the bytes of the constant structs in C text, whose entries have a word each.

    >>> struct_bytes("static const struct pair a = {\\n    1, table\\n};")
    8
    """
    pattern = re.compile(r"static const struct .*? = (\{.*?\n\});", re.DOTALL)
    return sum(4 * len(re.findall(r"\w+", one[1])) for one in pattern.finditer(text))
