"""The series of the study of forecasts: a transformer station's, and the weather of 15 regions."""

from __future__ import annotations

import csv
import gzip
from datetime import datetime
from pathlib import Path

import numpy as np

import catchment as ct
from catchment import Array
from catchment.errors import MissingDataError
from reproductions.places import data_directories

STATION = "ETTh1.csv"
REGIONS = "TRY2010_{:02d}_Jahr.dat.gz"
N_REGIONS = 15
HOUR = 3600.0
CHANNELS = ("t", "p", "x", "RF", "WG", "N", "B", "D", "A")
LARGEST_WIND = 30.0  # m/s; the few values above are spikes of an hour
N_TRAIN, N_VALIDATION, N_TEST = 8640, 2880, 2880  # hours of the station, the usual protocol

WEEK = 168
PERIOD = 4 * WEEK  # two weeks to learn from, one to calibrate on, one to test on
N_PERIODS = 13
WASHOUT = 48  # hours before a segment that are looked at, not predicted


def station(directory: Path | str | None = None) -> ct.Recording:
    """Return ETTh1: 17,420 hours of six loads and the oil temperature, in raw units."""
    path = find_file("etth1", STATION, directory)
    with path.open(newline="") as stream:
        names, *rows = csv.reader(stream)
    u = np.array([[float(value) for value in row[1:]] for row in rows])
    first = datetime.fromisoformat(rows[0][0])
    return _hourly(u, tuple(names[1:]), first)


def regions(directory: Path | str | None = None) -> dict[str, ct.Recording]:
    """Return the 8,760 hours of each region, without the spikes that its README names."""
    found = {}
    for number in range(1, N_REGIONS + 1):
        path = find_file("weather_regions", REGIONS.format(number), directory)
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            lines = stream.read().splitlines()
        end = next(k for k, line in enumerate(lines) if line.startswith("***"))
        names = lines[end - 1].split()
        table = np.array([line.split() for line in lines[end + 1 :] if line.strip()], dtype=float)
        columns = {name: table[:, names.index(name)] for name in CHANNELS}
        columns["WG"] = np.minimum(columns["WG"], LARGEST_WIND)
        columns["N"] = np.minimum(columns["N"], 8.0)  # 9 is a sky that nobody sees
        u = np.stack([columns[name] for name in CHANNELS], axis=1)
        found[f"region {number:02d}"] = _hourly(u, CHANNELS, datetime(2010, 1, 1))
    return found


def parts(region: ct.Recording) -> dict[str, list[ct.Recording]]:
    """Return a year's segments to learn from, to calibrate on and to test on.

    Of every four weeks the first two, the third and the fourth; the last two with the hours before
    them that a washout takes. No target is in two parts.
    """
    found: dict[str, list[ct.Recording]] = {"train": [], "calibration": [], "test": []}
    for period in range(N_PERIODS):
        first = period * PERIOD
        found["train"].append(region.part(first, first + 2 * WEEK))
        for name, week in (("calibration", 2), ("test", 3)):
            start = first + week * WEEK
            found[name].append(region.part(start - WASHOUT, start + WEEK))
    return found


def only(recording: ct.Recording, names: tuple[str, ...]) -> ct.Recording:
    """Return a recording of some of its channels."""
    assert recording.channels is not None
    u = recording.u[:, [recording.channels.index(name) for name in names]]
    return ct.Recording(u, times=recording.times, channels=names, epoch=recording.epoch)


def synthetic(n_steps: int, n_clients: int) -> dict[str, ct.Recording]:
    """Return series with a day, a year and noise, for runs without the files."""
    found = {}
    for k in range(n_clients):
        rng = np.random.default_rng(k)
        hours = np.arange(n_steps, dtype=np.float64)
        day = np.sin(2 * np.pi * (hours - 9) / 24) * (3 + 0.2 * k)
        year = -8 * np.cos(2 * np.pi * hours / 8766)
        t = 9 + day + year + np.convolve(rng.normal(size=n_steps + 47), np.ones(48) / 7, "valid")
        others = [t[:, None] * rng.normal() + rng.normal(size=(n_steps, 1)) for _ in CHANNELS[1:]]
        u: Array = np.hstack([t[:, None], *others])
        found[f"region {k + 1:02d}"] = _hourly(u, CHANNELS, datetime(2010, 1, 1))
    return found


def _hourly(u: Array, channels: tuple[str, ...], first: datetime) -> ct.Recording:
    times = HOUR * np.arange(len(u), dtype=np.float64)
    epoch = (first - datetime(1970, 1, 1)).total_seconds()
    return ct.Recording(u, times=times, channels=channels, epoch=epoch)


def find_file(name: str, file: str, directory: Path | str | None) -> Path:
    roots = data_directories(directory)
    for root in roots:
        for path in (root / name / file, root / file):
            if path.is_file():
                return path
    places = ", ".join(str(root / name) for root in roots)
    raise MissingDataError(f"{file} is in none of {places}; put it there, or pass --data")
