"""A model as C: what is written, by itself or as the tree that a board's own tools unpack.

A tree is a folder of templates in firmware/, whose examples/ differ between a model that reads a
stream and a client that sums one.

What a model needs on a device (RAM, flash, operations) is known before a compiler has run. Bytes of
instructions are a sum over what a program is made of: every trait of it (a pool, an
activation, windows that overlap, ...) adds about as many bytes wherever it occurs.
`code_sizes.json` has them, fitted by `python -m tools.code_sizes` to programs that
arm-none-eabi-gcc compiled for size for a Cortex-M4; the tests compare with the compiler.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from catchment.readout import Model, PersonalModels
from catchment_edge.c.layout import Cutting, Layout
from catchment_edge.c.map_code import MapCode
from catchment_edge.c.pieces import Piece, needed
from catchment_edge.c.program import header_text, pieces_of, source_text
from catchment_edge.ports import filled, write_files

# What libgcc adds to a linked program on a Cortex-M4, measured: arithmetic in double precision and
# divisions of 64 bits.
LIBRARY = 4200
POINTER = 4  # bytes of an address on a small device
BOARDS = ("arduino", "zephyr", "esp-idf", "platformio", "micropython")
_FIRMWARE = Path(__file__).parents[1] / "firmware"
_EXAMPLES = {
    "arduino": ("examples/{0}/{0}.ino", "ino"),
    "platformio": ("examples/{0}/{0}.ino", "ino"),
    "zephyr": ("samples/{0}/src/main.c", "zephyr.c"),
    "esp-idf": ("examples/{0}/main/main.c", "esp-idf.c"),
    "micropython": ("module.c", "micropython.c"),
}
# What a file's own functions start with, and headers that it includes.
_TAKEN = re.compile("(map|grid|float|golden)(_.*)?|stdint|math")


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


def check_name(name: str) -> None:
    """Raise ValueError if a file's functions cannot begin with a name.

    >>> check_name("har")
    >>> check_name("1x")
    Traceback (most recent call last):
    ValueError: --name is '1x'; give a letter, then up to 30 letters, digits and _, a word that ...
    """
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]{0,30}", name) or _TAKEN.fullmatch(name):
        raise ValueError(
            f"--name is {name[:40]!r}; give a letter, then up to 30 letters, digits and _, a word "
            "that does not begin with map, grid, float or golden"
        )


@dataclass(frozen=True, eq=False)
class CCode:
    """The C file and the header of a model, not yet written.

    >>> import numpy as np
    >>> from catchment import EchoState, Recording, fit
    >>> waves = [np.sin(np.arange(60) / (3 + k % 2)) for k in range(10)]
    >>> data = [Recording.labeled(u, k % 2, ("fast", "slow")) for k, u in enumerate(waves)]
    >>> code = c_code(fit(EchoState(20), data), name="waves")
    >>> code.plan.ram > 0, "waves_predict" in code.header
    (True, True)
    """

    layout: Layout
    plan: DevicePlan

    @cached_property
    def source(self) -> str:
        """Text of NAME.c."""
        return source_text(self.layout)

    @cached_property
    def header(self) -> str:
        """Text of NAME.h."""
        return header_text(self.layout)

    def write(self, folder: str | Path) -> list[Path]:
        """Write both files into a folder, which is made if it is not there; return their paths."""
        name = self.layout.name
        files = {f"{name}.c": self.source, f"{name}.h": self.header}
        return write_files(files, Path(folder), name)

    def firmware(self, board: str) -> dict[str, str]:
        """Return the files of the tree that a board's tools unpack, by their paths in it.

        Parameters
        ----------
        board
            "arduino", "zephyr", "esp-idf", "platformio" or "micropython".
        """
        name, model = self.layout.name, self.layout.model
        functions, say = ["reset", "step", "finish", "predict"], "scores[0]"
        marks = {
            "SENTENCE": f"Predicts from recordings of {model.n_inputs} channels.",
            "SELFTEST_KCONFIG": _part("selftest.kconfig"),
            "SAY_PRINTF": 'printf("%g\\n", (double)scores[0]);',
            "CLASSES_FUNCTION": "",
            "CLASSES_ENTRY": "",
        }
        step = f"scores = {name}.step(sample)  # None until there are some"
        marks["USE"] = f"    {name}.reset()\n    {step}"
        if model.classes is not None:
            functions, say = [*functions, "class"], f"{name}_classes[{name}_class(scores)]"
            entry = "mp_store_global(MP_QSTR_classes, MP_OBJ_FROM_PTR(&classes_obj));"
            marks |= {
                "SENTENCE": f"Classifies recordings of {model.n_inputs} channels.",
                "SAY_PRINTF": f'printf("%s\\n", {say});',
                "CLASSES_FUNCTION": f"\n{_part('classes.c')}\n",
                "CLASSES_ENTRY": f"    {entry}\n",
            }
        marks["SAY_ARDUINO"] = f"Serial.println({say});"
        marks["KEYWORDS"] = "\n".join(f"{name}_{one}\tKEYWORD2" for one in functions)
        sources = {f"{name}.c": self.source, f"{name}.h": self.header}
        return tree(board, name, "stream", sources, marks)


def tree(
    board: str, name: str, example: str, sources: Mapping[str, str], marks: Mapping[str, str]
) -> dict[str, str]:
    """Return a board's templates, an example and the sources, every @MARK@ replaced."""
    if board not in BOARDS:
        raise ValueError(f"there is no board {board!r}; take one of {', '.join(BOARDS)}")
    where, kind = _EXAMPLES[board]
    code = _FIRMWARE / "examples" / f"{example}.{kind}"
    if not code.exists():
        code = code.with_name(f"{example}.console.c")
    files = [file for file in sorted((_FIRMWARE / board).rglob("*")) if file.is_file()]
    texts = {
        file.relative_to(_FIRMWARE / board).as_posix(): file.read_text("utf-8") for file in files
    }
    texts[where.format(example)] = code.read_text("utf-8")
    known = {"NAME": name, "UPPER": name.upper(), "EXAMPLE": example}
    values = {**marks, **known, "VERSION": version("catchment-edge")}
    found = {filled(path, values): filled(text, values).rstrip() for path, text in texts.items()}
    whole = {path: f"{text}\n" for path, text in found.items() if text}
    return whole | {f"src/{path}": text for path, text in sources.items()}


def _part(name: str) -> str:
    return (_FIRMWARE / "parts" / name).read_text("utf-8").strip("\n")


def to_c(
    model: Model,
    folder: str | Path,
    *,
    name: str = "model",
    rate: float | None = None,
    steps: int | None = None,
) -> DevicePlan:
    """Write a model as NAME.c and NAME.h and return the plan of what it needs on a device.

    All numbers are integers, the very features of the library, so the map must be in fixed point.

    Parameters
    ----------
    name
        What the files and their functions are called.
    rate
        Samples a second of the device, for windows in seconds of a model that has no rate.
    steps
        Steps of the longest recording, for maps that need all of it at once.

    >>> import tempfile
    >>> import numpy as np
    >>> from catchment import EchoState, Recording, fit
    >>> waves = [np.sin(np.arange(60) / (3 + k % 2)) for k in range(10)]
    >>> data = [Recording.labeled(u, k % 2, ("fast", "slow")) for k, u in enumerate(waves)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan = to_c(fit(EchoState(20), data), folder, name="waves")
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['waves.c', 'waves.h']
    """
    code = c_code(model, name=name, rate=rate, steps=steps)
    code.write(folder)
    return code.plan


def c_code(
    model: Any,
    *,
    name: str = "model",
    rate: float | None = None,
    steps: int | None = None,
) -> CCode:
    """Return a model as C, not yet written; the parameters are those of `to_c`."""
    if isinstance(model, PersonalModels):
        raise ValueError(
            "PersonalModels cannot be written as C, only one model of them; say whose with "
            "--client NAME, or in Python pass models.model or models.of(name)"
        )
    if not isinstance(model, Model):
        raise ValueError(
            f"{type(model).__name__} cannot be written as C, only a model of one map and one "
            "readout; pass the model_ of an estimator, or train without a network"
        )
    check_name(name)
    if model.n_inputs is None:
        raise ValueError("the map takes any number of channels; build it for the device's first")
    if model.preprocessing.scale in ("recording", "own"):
        raise ValueError(
            f'the scale is "{model.preprocessing.scale}", by whole recordings at once, which a '
            'device does not have; train with scale="federated" or "none"'
        )
    if model.preprocessing.scale == "federated":
        raise ValueError("the scale is not fitted yet; train the model first")
    if steps is not None and steps < 1:
        raise ValueError(f"steps is {steps}; give the length of recordings, from 1 on")
    layout = Layout(model, name, Cutting.of(model.preprocessing, rate), steps)
    return CCode(layout, plan_of(layout))
