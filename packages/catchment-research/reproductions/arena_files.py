"""Sets as the package of WHAR Arena leaves them on a disk, read without that package.

Its pipeline (teco-kit/whar-datasets) parses and cuts each of its 30 sets into windows and keeps
them in one folder per set, which is all that is read here:

    metadata/activity_df.csv    activity_id, activity_name
    metadata/session_df.csv     session_id, subject_id, activity_id
    metadata/window_df.csv      window_id, session_id
    windows/windows.parquet     the channels, window_id of every row, and perhaps timestamp

Windows are those of its settings (the Arena's: 3 s, half overlapping). Rows of a window are put in
the order of their time stamps where they have some.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from catchment.data import Recording
from catchment.errors import MissingDataError

WINDOWS = Path("windows") / "windows.parquet"
ABOUT = ("window_id", "session_id", "timestamp")


def prepared_sets(folder: Path) -> dict[str, Path]:
    """Return the sets of a folder that have windows, by name."""
    found = {path.parents[1].name: path.parents[1] for path in sorted(folder.glob(f"*/{WINDOWS}"))}
    if not found:
        raise MissingDataError(
            f"{folder} has no set with {WINDOWS}; name the folder into which whar-datasets writes"
        )
    return found


def prepared_people(folder: Path) -> tuple[dict[str, list[Recording]], tuple[str, ...]]:
    """Return everybody's windows, and the names of the classes, of one set."""
    import pyarrow.parquet

    activity = {one["activity_id"]: one["activity_name"] for one in _rows(folder, "activity_df")}
    session = {one["session_id"]: one for one in _rows(folder, "session_df")}
    of_window = {one["window_id"]: session[one["session_id"]] for one in _rows(folder, "window_df")}
    used = {one["activity_id"] for one in of_window.values()}
    classes = tuple(name for number, name in activity.items() if number in used)
    table = pyarrow.parquet.read_table(folder / WINDOWS)
    names = [name for name in table.column_names if name not in ABOUT]
    z = np.column_stack([np.asarray(table[name], float) for name in names])
    window = np.asarray(table["window_id"].to_pylist(), dtype=str)
    order = np.arange(len(window))
    if "timestamp" in table.column_names:
        order = np.argsort(table["timestamp"].to_numpy(), kind="stable")
    order = order[np.argsort(window[order], kind="stable")]
    starts = np.flatnonzero(np.r_[True, window[order][1:] != window[order][:-1]])
    people: dict[str, list[Recording]] = {}
    for rows in np.split(order, starts[1:]):
        about = of_window[window[rows[0]]]
        label = classes.index(activity[about["activity_id"]])
        one = Recording.labeled(z[rows], label, classes)
        people.setdefault(f"subject {about['subject_id']}", []).append(one)
    return people, classes


def _rows(folder: Path, name: str) -> list[dict[str, Any]]:
    with (folder / "metadata" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
