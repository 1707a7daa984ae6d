"""A folder of CSV files with gaps: each file a client, one model from their sums, saved and loaded.

    python examples/sensor_folder.py [--quick]

The files are made up here: rain and heat at ten river stations and the water level they lead to,
some values missing. Eight stations learn together to tell the level from the weather; what each
would send is its scaler sums and its ridge statistics, never its rows. Two other stations test.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np

from catchment import Model, Recipe, Reservoir, RidgeStatistics, load, save
from catchment.arrays import Array
from catchment.data.gaps import GapReport, fill_gaps
from catchment.data.generators import seeded_generator
from catchment.data.recording import Recording
from catchment.data.scaling import federated_scaler
from catchment.data.tables import read_table
from catchment.features import EchoStateMap
from catchment.readout.accumulate import accumulate
from catchment.readout.metrics import nrmse
from catchment.readout.ridge_choice import choose_by_blocks

STATIONS, STEPS, WASHOUT = 10, 1200, 100
Data = dict[str, list[Recording]]


def write_station(path: Path, seed: int, station: int) -> None:
    """Write one station's record: water runs off the faster the more there is."""
    rng = seeded_generator(seed, station)
    rain = rng.exponential(1.0, STEPS) * (rng.random(STEPS) < 0.15)
    heat = np.sin(np.arange(STEPS) / 40 + rng.uniform(0, 6)) + 0.3 * rng.normal(size=STEPS)
    lines, water = ["hour,rain,heat,level"], 1.0
    for t in range(STEPS):
        water = max(0.0, water + rain[t] - 0.05 * water**1.5 - 0.03 * (1 + heat[t]))
        values = (rain[t], heat[t], water + 0.02 * rng.normal())
        cells = ("" if rng.random() < 0.03 else f"{value:.4f}" for value in values)
        lines.append(f"{t},{','.join(cells)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_folder(folder: Path) -> tuple[Data, GapReport]:
    """Return every station's sequences with missing inputs filled in, and what was missing."""
    clients, report = {}, GapReport()
    for path in sorted(folder.glob("*.csv")):
        rows = read_table(path, inputs=["rain", "heat"], target="level", time="hour")["all"]
        clients[path.stem], found = fill_gaps(rows, "hold")
        report = report + found
    return clients, report


def kept(sequences: list[Recording]) -> list[tuple[Array, Array]]:
    """Return inputs and targets of each sequence after the washout."""
    return [(s.u[WASHOUT:], s.y[WASHOUT:]) for s in sequences if s.y is not None]


def run(folder: Path, seed: int) -> tuple[dict[str, float], GapReport]:
    for station in range(STATIONS):
        write_station(folder / f"station-{station:02d}.csv", seed, station)
    clients, report = read_folder(folder)
    learners, testers = sorted(clients)[:-2], sorted(clients)[-2:]
    scaler = federated_scaler({name: clients[name] for name in learners})
    scaled = {name: scaler.apply(sequences) for name, sequences in clients.items()}

    reservoir = Reservoir.from_recipe(Recipe(units=200, inputs=2, leak_rate=0.2, seed=seed))
    features = EchoStateMap(reservoir, washout=WASHOUT)
    sums = [accumulate(features, scaled[name]) for name in learners]
    readout = reduce(add, sums).solve(choose_by_blocks(sums).best)
    model = load(save(Model(features, readout), folder / "level.safetensors"))

    pairs = [pair for name in learners for pair in kept(scaled[name])]
    plain = reduce(add, (RidgeStatistics.from_states(u, y) for u, y in pairs))
    constant, linear = plain.target_sum / plain.weight, plain.solve(1e-6)
    tests = [s for name in testers for s in scaled[name]]
    u, y = (np.concatenate(parts) for parts in zip(*kept(tests), strict=True))
    return {
        "mean level": nrmse(y, np.tile(constant, (len(y), 1))),
        "linear in the weather now": nrmse(y, linear(u)),
        "reservoir, saved and loaded": nrmse(y, np.concatenate(model.outputs(tests))),
    }, report


def main() -> None:
    parser = argparse.ArgumentParser(description="From a folder of CSV files to a saved model.")
    parser.add_argument("--quick", action="store_true", help="two seeds instead of five")
    seeds = range(2 if parser.parse_args().quick else 5)
    runs = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            runs.append(run(Path(folder), seed))
    report = runs[0][1]
    print(
        f"{STATIONS} files, {report.values_filled} inputs filled, "
        f"{report.target_rows_missing} rows without a level left out"
    )
    print(f"NRMSE of the level at 2 other stations, mean and sd of {len(seeds)} seeds")
    for name in runs[0][0]:
        errors = [result[name] for result, _ in runs]
        print(f"{name:28} {np.mean(errors):.4f} ± {np.std(errors, ddof=1):.4f}")


if __name__ == "__main__":
    main()
