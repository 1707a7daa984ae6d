"""Bytes of instructions, known before a compiler runs: a sum over what a program is made of.

Every trait of a program (a pool, an activation, windows that overlap, ...) adds about as many bytes
wherever it occurs. `code_sizes.json` has them, fitted by `python -m tools.code_sizes` to programs
that arm-none-eabi-gcc compiled for size for a Cortex-M4; the tests compare with the compiler.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

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
    told = {"grid.h", "grid.c", "float_reservoir.c", "prepare.c"}
    others = [name for name in code.sources if name not in told]
    taken = {name for piece in pieces if piece.is_function for name in piece.names}
    own = {name for piece in needed(others, taken) for name in piece.names}
    return [*code.traits, *sorted(taken & own)]


def bytes_of(found: Sequence[str], *, whole: bool) -> int:
    """Return the bytes of instructions that some traits add up to, about."""
    known = _sizes()["whole" if whole else "float32"]
    return max(0, round(sum(known.get(trait, 0.0) for trait in found)))


def with_pairs(found: list[str]) -> list[str]:
    """Return traits, and pairs of them that a compiler makes more or less of than of each alone.

    Loops over one channel vanish, and the type of a feature shows in what writes a row.

    >>> with_pairs(["features float", "hold, one channel", "nvar_row()"])[-1]
    'nvar_row(), one channel'
    """
    kinds = [one for one in found if one.startswith("features ")]
    kinds += ["one channel"] if any(one.endswith(", one channel") for one in found) else []
    maps = [one for one in found if one.endswith("_row()") or one.startswith("echo state, pool")]
    return [*found, *(f"{one}, {kind}" for one in maps for kind in kinds)]


def code_bytes(layout: Layout) -> int:
    """Return the bytes of instructions of a program, about."""
    return bytes_of(traits(layout), whole=layout.whole)


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


@cache
def _sizes() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = json.loads(
        (files("catchment_edge") / "c" / "code_sizes.json").read_text()
    )
    return found
