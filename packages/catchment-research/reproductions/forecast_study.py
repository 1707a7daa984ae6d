"""Forecasts for many owners: cells of both tasks, kept as they end, and the tables of them."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from catchment.wire import replace_file
from reproductions import forecast_station as station
from reproductions import forecast_weather as weather
from reproductions.forecast_data import CHANNELS, regions, synthetic
from reproductions.forecast_data import station as load_station
from reproductions.weather_trees import BOOSTED, boosted_cell

STEM = "forecast"
SEEDS = 3
QUICK_REGIONS = 4
DRAWS = 2000
Cell = dict[str, Any]
Job = tuple[str, tuple[Any, ...], Callable[[], Cell]]

# MSE and MAE as LTSF-Benchmark.md of the linear models' authors has them, DLinear and NLinear under
# the names that others quote from the paper; PatchTST/64 as others quote it. No paper was read.
PUBLISHED: dict[str, dict[int, tuple[float, float]]] = {
    "Linear": {96: (0.375, 0.397), 192: (0.418, 0.429), 336: (0.479, 0.476), 720: (0.624, 0.592)},
    "DLinear": {96: (0.375, 0.399), 192: (0.405, 0.416), 336: (0.439, 0.443), 720: (0.472, 0.490)},
    "NLinear": {96: (0.374, 0.394), 192: (0.408, 0.415), 336: (0.429, 0.427), 720: (0.440, 0.453)},
    "PatchTST/64": {
        96: (0.370, 0.400),
        192: (0.413, 0.429),
        336: (0.422, 0.440),
        720: (0.447, 0.468),
    },
}
SOURCE = (
    "*As quoted*: these figures were not read in the papers. Linear, DLinear, NLinear (Zeng, Chen, "
    "Zhang and Xu, Are Transformers Effective for Time Series Forecasting?, AAAI 2023, arXiv "
    "2205.13504; look-back 336) are those of the authors' "
    "<https://github.com/cure-lab/LTSF-Linear/blob/main/LTSF-Benchmark.md>. There the rows of "
    "DLinear and NLinear are exchanged against the paper's Table 2 as others quote it, and the "
    "heading says a look-back of 96; names and look-back here are those of the quotations. "
    "PatchTST/64 (Nie et al., A Time Series is Worth 64 Words, ICLR 2023, arXiv 2211.14730, "
    "Table 3; look-back 512) is as the table of another repository quotes it."
)


def run(
    *,
    quick: bool = False,
    resume: bool = False,
    seeds: int = SEEDS,
    directory: Path | None = None,
    out: Path = Path("results"),
    each: Callable[[Sequence[Job], str], Iterable[Job]] = lambda jobs, text: jobs,
) -> Path:
    """Compute the cells that are missing, write the result after each, and return its file."""
    path = out / f"{STEM}{'-quick' if quick else ''}.json"
    cells = json.loads(path.read_text())["cells"] if resume and path.is_file() else []
    done = {_key(cell) for cell in cells}
    every = [*_station_jobs(directory, quick), *_weather_jobs(directory, seeds, quick)]
    missing = [job for job in every if job[1] not in done]
    for _, _, make in each(missing, "forecasts"):
        cells.append(make())
        _write(path, cells, seeds, quick)
    _write(path, cells, seeds, quick)
    return path


def _key(cell: Cell) -> tuple[Any, ...]:
    last = cell["horizon"] if cell["task"] == "station" else cell["seed"]
    return cell["task"], cell["contender"], last


def _station_jobs(directory: Path | None, quick: bool) -> list[Job]:
    series: dict[str, Any] = {}
    ridges: dict[str, tuple[float, dict[str, float]]] = {}

    def held() -> dict[str, Any]:
        if not series:
            found = station.standardized(load_station(directory))
            series.update(dict(list(found.items())[: 2 if quick else None]))
        return series

    def naive(name: str, horizon: int) -> Cell:
        test = station.naive(held(), name, horizon)
        return {"task": "station", "contender": name, "horizon": horizon, "test": test}

    def ours(form: str, horizon: int) -> Cell:
        if form not in ridges:
            ridges[form] = (100.0, {}) if quick else station.chosen_ridge(held(), form)
        ridge, tried = ridges[form]
        return {**station.station_cell(held(), horizon, form, ridge), "tried": tried}

    horizons = station.HORIZONS[:1] if quick else station.HORIZONS
    jobs: list[Job] = []
    for horizon in horizons:
        for name in station.NAIVE:
            jobs.append((name, ("station", name, horizon), partial(naive, name, horizon)))
        for form in station.FORMS:
            jobs.append((form, ("station", form, horizon), partial(ours, form, horizon)))
    return jobs


def _weather_jobs(directory: Path | None, seeds: int, quick: bool) -> list[Job]:
    found: dict[str, Any] = {}

    def held() -> weather.Message:
        if not found:
            years = synthetic(8760, QUICK_REGIONS) if quick else regions(directory)
            found.update(weather.regions_parts(years))
        return found

    def naive(name: str) -> Cell:
        return weather.naive_cell(name, held())

    def ours(contender: weather.Contender, seed: int) -> Cell:
        return weather.weather_cell(contender, held(), seed)

    jobs: list[Job] = [(name, ("weather", name, 0), partial(naive, name)) for name in weather.NAIVE]
    jobs.append((BOOSTED, ("weather", BOOSTED, 0), lambda: boosted_cell(held())))
    for one in weather.contenders(CHANNELS):
        for seed in range(seeds if one.reservoir and not quick else 1):
            jobs.append((one.name, ("weather", one.name, seed), partial(ours, one, seed)))
    return jobs


def _write(path: Path, cells: Sequence[Cell], seeds: int, quick: bool) -> None:
    result = {
        "study": STEM,
        "quick": quick,
        "seeds": seeds,
        "horizons": {"station": station.HORIZONS, "weather": weather.HORIZONS},
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cells": cells,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps(result, indent=1).encode())


def root_mean(cells: Sequence[Cell], horizon: int) -> tuple[float, float, float]:
    """Return the root mean squared error over regions and seeds, and 95 % of it over regions."""
    k = weather.HORIZONS.index(horizon)
    names = sorted(cells[0]["by_client"])
    table = np.array([[cell["by_client"][name]["squares"][k] for name in names] for cell in cells])
    by_region = table.mean(axis=0)
    rng = np.random.default_rng(0)
    drawn = by_region[rng.integers(len(names), size=(DRAWS, len(names)))].mean(axis=1)
    low, high = np.quantile(np.sqrt(drawn), (0.025, 0.975))
    return float(np.sqrt(by_region.mean())), float(low), float(high)


def covered(cells: Sequence[Cell], coverage: str, horizon: int) -> tuple[float, float, float]:
    """Return the share inside over all rows, that of the worst region, and the mean width."""
    k = weather.HORIZONS.index(horizon)
    by_region = [
        np.mean([cell["by_client"][name]["inside"][coverage][k] for cell in cells])
        for name in cells[0]["by_client"]
    ]
    width = [one["width"][coverage][k] for cell in cells for one in cell["by_client"].values()]
    return float(np.mean(by_region)), float(min(by_region)), float(np.mean(width))


def of(cells: Sequence[Cell], task: str, contender: str) -> list[Cell]:
    """Return the cells of one contender."""
    return [cell for cell in cells if (cell["task"], cell["contender"]) == (task, contender)]
