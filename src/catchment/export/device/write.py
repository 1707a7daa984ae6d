"""A device that trains, as files of C."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from catchment.export.device.code import device_code
from catchment.export.device.sums_form import ROWS, SumsForm
from catchment.export.device.task import Task, task_of
from catchment.export.ports import port_files
from catchment.files import replace_file

_NAME = re.compile(r"[a-z][a-z0-9_]{0,30}")


@dataclass(frozen=True, eq=False)
class Device:
    """A client of a plan in C: what it does, and in which numbers.

    Parameters
    ----------
    task
        The map, the preparation and the targets.
    form
        How wide its sums are.
    name
        What its files are called, and the beginning of their names in C.
    """

    task: Task
    form: SumsForm
    name: str

    def files(self) -> dict[str, bytes]:
        """Return the files of C by their names."""
        code = device_code(self.task, self.form, self.name)
        texts = {
            f"{self.name}.c": code.source,
            f"{self.name}.h": code.header,
        }
        return {name: text.encode() for name, text in texts.items()}


def device_of(
    plan_file: str | Path,
    *,
    number: str | None = None,
    rows: int = ROWS,
    name: str = "device",
) -> Device:
    """Return the device of a plan; ValueError if no device can do it, with what to change.

    Parameters
    ----------
    number
        "whole", for maps on a grid, or "float32"; what the map has if not given.
    rows
        How many rows its sums must have room for between two acknowledged rounds.
    name
        What its files are called.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"name is {name!r}; use small letters, digits and _, a letter first")
    task = task_of(plan_file)
    return Device(task, SumsForm.of(task.features, rows, whole=True), name)


def to_device(
    plan_file: str | Path,
    folder: str | Path,
    *,
    number: str | None = None,
    rows: int = ROWS,
    name: str = "device",
    port: str | None = None,
) -> Device:
    """Write a device that trains for a plan into a folder, and return it.

    Parameters
    ----------
    number, rows, name
        As in `device_of`.
    port
        Whose files are written beside it: "host" or "mps2_an386"; none if not given.
    """
    device = device_of(plan_file, number=number, rows=rows, name=name)
    files = device.files()
    if port is not None:
        around = port_files(port, model=name)
        files |= {file: text.encode() for file, text in around.items()}
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        replace_file(place / file, content)
    return device
