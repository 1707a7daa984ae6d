"""A device that trains, as files of C, and the plan of what it needs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from catchment_edge.c.code import check_name
from catchment_edge.ports import CODE, MASKS, port_files, write_files
from catchment_edge.training.code import (
    code_bytes,
    header_of,
    most_bytes,
    secret_text,
    source_text,
    sums_parts,
    table_bytes,
)
from catchment_edge.training.layout import ROWS, Layout, task_of

MONOCYPHER = resources.files("catchment_edge") / "vendor" / "monocypher"


@dataclass(frozen=True, eq=False)
class TrainingDevice:
    """A client of a plan in C, not yet written."""

    layout: Layout

    @property
    def ram(self) -> int:
        """Bytes that are there for as long as the device runs; the stack is not counted."""
        return sum(self.layout.ram.values())

    @property
    def flash(self) -> int:
        """Bytes of constants and instructions, about, on a Cortex-M4 compiled for size."""
        return table_bytes(self.layout) + code_bytes(self.layout)

    @property
    def upload(self) -> int:
        """Most bytes of the upload of as many rows as were asked for, frames not counted."""
        if self.layout.neighbors:  # under masks every number has all its bits
            return 8 * sum(array.size for array in sums_parts(self.layout).arrays)
        return most_bytes(sums_parts(self.layout), self.layout.entry_bits)

    @property
    def operations(self) -> tuple[int, int]:
        """Multiply-adds of a step, and of a row that is added to the sums."""
        F, K = self.layout.map.n_features, self.layout.task.outputs
        return round(self.layout.map.operations), F * (F + 1) // 2 + F * K

    def facts(self) -> dict[str, Any]:
        """Return the plan as plain values for scripts."""
        step, row = self.operations
        return {
            "name": self.layout.name,
            "features": self.layout.map.n_features,
            "rows": self.layout.sums.most_rows,
            "sums": self.layout.sums.gram,
            "ram": self.ram,
            "ram_of": self.layout.ram,
            "tables": table_bytes(self.layout),
            "code": code_bytes(self.layout),
            "flash": self.flash,
            "operations": step,
            "operations_row": row,
            "upload": self.upload,
        }

    def text(self) -> str:
        """Return the plan for people."""
        known, of = self.facts(), self.layout.ram
        parts = ", ".join(f"{name} {size:,}" for name, size in of.items() if size)
        return (
            f"{known['name']}: trains in integers, {known['features']} features, room for "
            f"{known['rows']:,} rows in {known['sums']}\n"
            f"RAM {known['ram']:,} bytes ({parts}); flash about {known['flash']:,} "
            f"({known['tables']:,} tables); upload at most {known['upload']:,}\n"
            f"{known['operations']:,} multiply-adds a step, {known['operations_row']:,} a row"
        )

    def files(self) -> dict[str, bytes]:
        """Return the files of C by their names."""
        name, task, code = self.layout.name, self.layout.task, self.layout.map
        sizes = task.channels, task.outputs, code.n_features, task.window
        texts = {f"{name}.c": source_text(self.layout), f"{name}.h": header_of(name, *sizes)}
        if self.layout.neighbors:
            texts[f"{name}_secret.h"] = secret_text()
            texts |= {file.name: file.read_text("utf-8") for file in MONOCYPHER.iterdir()}
        return {file: text.encode() for file, text in texts.items()}

    def write(self, folder: str | Path, *, port: str | None = None) -> list[Path]:
        """Write the files, and those of a port, into a folder; return their paths."""
        files, name = self.files(), self.layout.name
        if port is not None:
            tables = table_bytes(self.layout)
            code = CODE + (MASKS if self.layout.neighbors else 0)
            around = port_files(port, model=name, tables=tables, code=code)
            files |= {file: text.encode() for file, text in around.items()}
        return write_files(files, Path(folder), name)


def device_of(
    plan_file: str | Path,
    *,
    rows: int = ROWS,
    steps: int | None = None,
    name: str = "model",
    masks: int = 0,
) -> TrainingDevice:
    """Return the device of a plan, not yet written; the parameters are those of `to_device`."""
    check_name(name)
    task = task_of(plan_file)
    if masks and not task.secure:
        raise ValueError(
            f"--masks is {masks}, and the plan has no secure aggregation under whose masks the "
            "sums would "
            'leave; add [[protections]] with name = "secure_aggregation", or leave --masks out'
        )
    layout = Layout(task, name, rows, steps, masks)
    _ = layout.ram, layout.sums  # what cannot be done is said now
    return TrainingDevice(layout)


def to_device(
    plan_file: str | Path,
    folder: str | Path,
    *,
    rows: int = ROWS,
    steps: int | None = None,
    name: str = "model",
    port: str | None = None,
    masks: int = 0,
) -> TrainingDevice:
    """Write a device that trains for a plan into a folder, and return it with its plan.

    Parameters
    ----------
    rows
        How many rows its sums have room for at least.
    steps
        Steps of the longest recording, for maps that need all of one at once.
    name
        What the files and their function are called.
    port
        Whose files are written beside it: "host" or "mps2_an386"; none if not given.
    masks
        Neighbors of secure aggregation for which the device has room, if it is to mask its sums
        itself; its secret is written beside it, for this device alone. 0: the gateway masks.
    """
    device = device_of(plan_file, rows=rows, steps=steps, name=name, masks=masks)
    device.write(folder, port=port)
    return device
