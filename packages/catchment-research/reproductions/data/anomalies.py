"""Series with labeled anomalies: the runs of SKAB and the files of NAB, a file a client.

Both are read as their publishers wrote them, from the folders `skab` and `nab` of a data directory.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from catchment import Array, Booleans
from catchment.errors import MissingDataError
from reproductions.places import data_directories

Times = NDArray[np.datetime64]

SKAB_TRAIN = 400  # rows at the start of each run, by the publisher's protocol
NAB_PROBATION = 0.15  # of the rows of a file, at most 750 of them
NAB_MOST_PROBATION = 750
NAB_FOLDERS = ("realKnownCause", "realTraffic", "realTweets")
_LABELS = ("anomaly", "changepoint")


@dataclass(frozen=True)
class Series:
    """One client's recording, which of its steps are anomalous, and how many come before any test.

    `windows` are (start, end) steps, both inside; SKAB has one segment a run, NAB what its file of
    labels says.
    """

    name: str
    u: Array  # (T, I)
    times: Times  # (T,)
    windows: tuple[tuple[int, int], ...]
    n_train: int

    @property
    def anomalous(self) -> Booleans:
        """Whether each step (T,) lies in a window."""
        inside = np.zeros(len(self.u), dtype=bool)
        for start, end in self.windows:
            inside[start : end + 1] = True
        return inside

    @property
    def seconds(self) -> Array:
        """Time (T,) of each step after the first, in seconds."""
        return np.asarray((self.times - self.times[0]) / np.timedelta64(1, "s"))


def load_skab(*, directory: Path | None = None) -> tuple[Series, ...]:
    """Return the runs of SKAB's valve1, in the order of their numbers."""
    folder = _folder("skab", "valve1", directory)
    paths = sorted(folder.glob("*.csv"), key=lambda path: int(path.stem))
    if not paths:
        raise MissingDataError(f"{folder} has no runs; put SKAB's valve1/0.csv ... there")
    return tuple(_skab_run(path) for path in paths)


def load_nab(*, directory: Path | None = None) -> tuple[Series, ...]:
    """Return the files of NAB that its labels name, in the order of folder and name."""
    folder = _folder("nab", "combined_windows.json", directory).parent
    labels = json.loads((folder / "combined_windows.json").read_text(encoding="utf-8"))
    names = sorted(name for name in labels if name.split("/")[0] in NAB_FOLDERS)
    return tuple(
        _nab_file(folder / name, name.removesuffix(".csv"), labels[name]) for name in names
    )


def probation(n_rows: int) -> int:
    """Return the rows at the start of a file that NAB does not score.

    >>> probation(1000), probation(20000)
    (150, 750)
    """
    return min(int(NAB_PROBATION * n_rows), NAB_MOST_PROBATION)


def _skab_run(path: Path) -> Series:
    head, rows = _table(path, ";")
    inputs = [k for k, name in enumerate(head) if k and name not in _LABELS]
    times = np.array([row[0] for row in rows], dtype="datetime64[s]")
    u = np.array([[float(row[k]) for k in inputs] for row in rows])
    label = np.array([float(row[head.index("anomaly")]) for row in rows]) > 0
    return Series(path.stem, u, times, _segments(label), SKAB_TRAIN)


def _nab_file(path: Path, name: str, windows: list[tuple[str, str]]) -> Series:
    _, rows = _table(path, ",")
    times = np.array([row[0] for row in rows], dtype="datetime64[s]")
    u = np.array([[float(row[1])] for row in rows])
    steps = tuple((_step(times, start), _step(times, end)) for start, end in windows)
    return Series(name, u, times, steps, probation(len(u)))


def _step(times: Times, when: str) -> int:
    """Return the first step at a time; the publisher's windows begin and end at steps."""
    found = np.flatnonzero(times == np.datetime64(when).astype("datetime64[s]"))
    if not len(found):
        raise ValueError(f"no row has the time {when}; get the file and its labels anew")
    return int(found[0])


def _segments(label: Booleans) -> tuple[tuple[int, int], ...]:
    """Return the first and last step of each segment of truth values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], label, [False]]).astype(int)))
    return tuple((int(a), int(b) - 1) for a, b in edges.reshape(-1, 2))


def _table(path: Path, delimiter: str) -> tuple[list[str], list[list[str]]]:
    with path.open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file, delimiter=delimiter)
    return head, rows


def _folder(name: str, inside: str, directory: Path | None) -> Path:
    places = [root / name for root in data_directories(directory)]
    for place in places:
        if (place / inside).exists():
            return place / inside
    homes = {"skab": "https://github.com/waico/SKAB", "nab": "https://github.com/numenta/NAB"}
    raise MissingDataError(
        f"{name} is not in {', '.join(map(str, places))}; get it from {homes[name]} and put "
        f"{inside} with what belongs to it there"
    )
