"""A device that trains, as files of C, and the plan of what it needs.

A client of a Yule-Walker forecast has its autocovariances in below 8 kB: it is the C of
`lags_c_code` behind the same frames as a device that trains a ridge. It reads its sensor, is told a
scale where the plan fits one, sends its sums, and forgets them once they count.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from catchment.federation.learn import FederatedYuleWalker
from catchment.plans import read_plan
from catchment_edge.c.code import check_name, tree
from catchment_edge.c.map_code import table_text
from catchment_edge.c.pieces import template
from catchment_edge.c.program import joined
from catchment_edge.ports import CODE, MASKS, port_files, write_files
from catchment_edge.training.code import (
    BASE,
    GAPS,
    SOURCES,
    code_bytes,
    constants,
    header_of,
    message_text,
    moments_texts,
    most_bytes,
    secret_text,
    serving_text,
    source,
    source_text,
    sums_parts,
    table_bytes,
    title_of,
)
from catchment_edge.training.layout import ROWS, Layout, scale_kind, struct_size, task_of

MOST = 60_000  # lags that the counters hold
PIECE = 256  # bytes of an upload in one frame: less than other devices have, whose sums are larger
RANGES = 32
MONOCYPHER = resources.files("catchment_edge") / "vendor" / "monocypher"


def lags_c_code(lookback: int, horizon: int, *, board: str | None = None) -> dict[str, str]:
    """Return the C of a client's autocovariances, by the names of its two files.

    It needs 7 bytes for each lag, below 8 kB for a lookback of 336 values and a horizon of 720, and
    makes the integers that `catchment.readout.autocovariances` makes. A value that is missing
    begins another series.

    Parameters
    ----------
    lookback, horizon
        As of the plan: its `delays`, and its largest horizon.
    board
        The files of the tree that this board's tools unpack, as of `CCode.firmware`.

    >>> files = lags_c_code(336, 720)
    >>> sorted(files), "#define LAGS 1056" in files["lags.h"]
    (['lags.c', 'lags.h'], True)
    """
    lags = lookback + horizon
    if not 0 < lookback < lags <= MOST:
        raise ValueError(
            f"lookback is {lookback} and horizon {horizon}; give two numbers from 1 on, together "
            f"{MOST} at most"
        )
    files = {name: (SOURCES / name).read_text("utf-8") for name in ("lags.h", "lags.c")}
    files["lags.h"] = files["lags.h"].replace("#define LAGS 1056", f"#define LAGS {lags}")
    if board is None:
        return files
    main = Path(__file__).parents[1] / "firmware" / "parts" / f"{board}.c"
    marks = {
        "SENTENCE": f"Sums the autocovariances of one series up to lag {lags}.",
        "KEYWORDS": "\n".join(f"lags_{one}\tKEYWORD2" for one in ("start", "feed", "gap", "sent")),
        "SELFTEST_KCONFIG": "",
        "MAIN": main.read_text("utf-8") if main.exists() else "",
        "INCLUDES": "#include <zephyr/console/console.h>\n\n" if board == "zephyr" else "",
        "USE": "    lags.feed(lags.fixed(21.5, mean, scale))\n    sums = lags.sums()",
    }
    return tree(board, "lags", "autocovariances", files, marks)


@dataclass(frozen=True, eq=False)
class LagsDevice:
    """A client of a plan of autocovariances in C, not yet written.

    Parameters
    ----------
    learn
        The plan's algorithm.
    workflow
        Fingerprint of the plan, or nothing.
    name
        What its files are called.
    """

    learn: FederatedYuleWalker
    workflow: str = ""
    name: str = "model"

    def __post_init__(self) -> None:
        prepare = self.learn.preprocessing
        channels = self.learn.features.known_inputs
        if prepare.known or prepare.calendar or prepare.rate is not None or channels != 1:
            raise ValueError(
                f"the plan has {channels} inputs, rate {prepare.rate}, known {prepare.known} and "
                f"calendar {prepare.calendar}; a device sums autocovariances of one series as it "
                "comes: leave the others out"
            )
        if self.learn.n_lags > MOST:
            raise ValueError(f"the plan has {self.learn.n_lags} lags, a device {MOST} at most")

    @property
    def scale(self) -> int:
        return scale_kind(self.learn.preprocessing)

    @property
    def ram(self) -> int:
        """Bytes that are there for as long as the device runs; the stack is not counted."""
        n, fitted = self.learn.n_lags, self.scale == 2
        lags = [(8, 1), (4, 1), (4, n), (1, n), (2, n), (2, 2), (2, 2 * RANGES), (1, 1)]
        round_ = struct_size([(4, 1), (1, 2), (4, 1)])
        link = [(1, 1), (4, 1), (1, 16 + PIECE), (4, 1), (4, (1 + fitted) * round_ // 4), (4, 1)]
        feed = struct_size([(8, 2), (4, 1), (4, 2), (4, 1)])
        moments = struct_size([(4, 15), (8, 1), (4, 1)]) * fitted
        return struct_size(lags) + struct_size([*link, (8, 2)]) + feed + moments + 8

    @property
    def upload(self) -> int:
        """Most bytes of the upload, frames not counted."""
        return most_bytes(self.learn.zero().parts(), (0, 40, 32, 0, 0, 0))

    def facts(self) -> dict[str, Any]:
        """Return the plan as plain values for scripts."""
        known = {"name": self.name, "lags": self.learn.n_lags, "ram": self.ram}
        return known | {"upload": self.upload, "operations": self.learn.n_lags}

    def text(self) -> str:
        """Return the plan for people."""
        lags = self.learn.n_lags
        return (
            f"{self.name}: sums {lags:,} autocovariances in integers\n"
            f"RAM {self.ram:,} bytes; upload at most {self.upload:,}\n"
            f"{lags:,} multiply-adds a value"
        )

    def files(self) -> dict[str, str]:
        """Return the files of C by their names."""
        header = header_of(self.name, 1, 1, 0, 0)
        return {f"{self.name}.c": self._source(), f"{self.name}.h": header}

    def write(self, folder: str | Path, *, port: str | None = None) -> list[Path]:
        """Write the files, and those of a port, into a folder; return their paths."""
        around = {} if port is None else port_files(port, model=self.name)
        return write_files({**self.files(), **around}, Path(folder), self.name)

    def _source(self) -> str:
        name = self.name
        known = {"TITLE": title_of(name), "NAME": name, "D": self, "GAPS": GAPS, "PIECE": PIECE}
        tables = constants(self.learn.features, self.workflow, self.learn.preprocessing)
        return joined(
            [
                template("lags_device.c", known),
                *map(source, BASE),
                *map(table_text, tables),
                *map(source, ("lags.h", "lags.c", "lags_feed.c")),
                message_text("SUMS", self.learn.zero().parts(), "autocovariances"),
                *moments_texts(self.scale, 1),
                source("link.c"),
                serving_text(name),
            ]
        )


def lags_device(plan_file: str | Path, *, name: str = "model") -> LagsDevice | None:
    """Return the device of a plan of autocovariances, not yet written; None if it is another's."""
    file = read_plan(plan_file)
    if file.algorithm != "yule_walker":
        return None
    check_name(name)
    workflow = file.workflow(file.about())
    learner = workflow.learn(workflow.start().maps)
    assert isinstance(learner, FederatedYuleWalker)
    return LagsDevice(learner, "" if file.is_secret else workflow.fingerprint, name)


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

    def files(self) -> dict[str, str]:
        """Return the files of C by their names."""
        name, task, code = self.layout.name, self.layout.task, self.layout.map
        sizes = task.channels, task.outputs, code.n_features, task.window
        texts = {f"{name}.c": source_text(self.layout), f"{name}.h": header_of(name, *sizes)}
        if self.layout.neighbors:
            texts[f"{name}_secret.h"] = secret_text()
            texts |= {file.name: file.read_text("utf-8") for file in MONOCYPHER.iterdir()}
        return texts

    def write(self, folder: str | Path, *, port: str | None = None) -> list[Path]:
        """Write the files, and those of a port, into a folder; return their paths."""
        files, name = self.files(), self.layout.name
        if port is not None:
            tables = table_bytes(self.layout)
            code = CODE + (MASKS if self.layout.neighbors else 0)
            files |= port_files(port, model=name, tables=tables, code=code)
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
