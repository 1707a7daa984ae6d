"""A model as C: what is written, by itself or as the tree that a board's own tools unpack.

A tree is a folder of templates in firmware/, whose examples/ differ between a model that reads a
stream and a client that sums one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from catchment.readout import Model, PersonalModels
from catchment_edge.c.layout import Cutting, Layout
from catchment_edge.c.plan import DevicePlan, plan_of
from catchment_edge.c.program import header_text, source_text
from catchment_edge.ports import filled, write_files

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
        texts = {f"{name}.c": self.source, f"{name}.h": self.header}
        files = {file: text.encode() for file, text in texts.items()}
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
