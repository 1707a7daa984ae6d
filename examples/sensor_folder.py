"""A folder of CSV files with gaps: each file a client, one model from their sums, saved and loaded.

    python examples/sensor_folder.py [--quick]

The files are made up here: rain and heat at ten river stations and the water level they lead to,
some values missing. Stations learn together to tell the level from the weather; what each sends is
sums of its inputs and its ridge statistics, never its rows. Two other stations test.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import catchment as ct
from catchment.arrays import Array
from catchment.data import Clients
from catchment.readout import nrmse

STATIONS, STEPS, WASHOUT = 10, 1200, 100


def write_station(path: Path, seed: int, station: int) -> None:
    """Write one station's record: water runs off the faster the more there is."""
    rng = np.random.default_rng([seed, station])
    rain = rng.exponential(1.0, STEPS) * (rng.random(STEPS) < 0.15)
    heat = np.sin(np.arange(STEPS) / 40 + rng.uniform(0, 6)) + 0.3 * rng.normal(size=STEPS)
    lines, water = ["hour,rain,heat,level"], 1.0
    for t in range(STEPS):
        water = max(0.0, water + rain[t] - 0.05 * water**1.5 - 0.03 * (1 + heat[t]))
        values = (rain[t], heat[t], water + 0.02 * rng.normal())
        cells = ("" if rng.random() < 0.03 else f"{value:.4f}" for value in values)
        lines.append(f"{t},{','.join(cells)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def rows(clients: Clients) -> tuple[Array, Array]:
    """Return inputs with their gaps held, and targets, of all steps after the washout."""
    recordings = [one for held in clients.values() for one in held]
    held = ct.Preprocessing(gaps="hold", scale="none").apply(recordings)
    pairs = [(one.u[WASHOUT:], one.y[WASHOUT:]) for one in held if one.y is not None]
    return np.concatenate([u for u, _ in pairs]), np.concatenate([y for _, y in pairs])


def run(folder: Path, seed: int) -> dict[str, float]:
    for station in range(STATIONS):
        write_station(folder / f"station-{station:02d}.csv", seed, station)
    clients = ct.read(folder / "*.csv", target="level", time="hour")
    train, test = ct.split(clients, test=2, seed=None)

    reservoir = ct.EchoState(200, seed=seed, leak_rate=0.2, washout=WASHOUT)
    ct.federate(reservoir, train).model.save(folder / "level.safetensors")
    scores = ct.evaluate(ct.load(folder / "level.safetensors"), test)
    assert scores.total is not None

    statistics = ct.RidgeStatistics.from_states(*rows(train))
    (u, y), linear = rows(test), statistics.solve(1e-6)
    constant = statistics.target_sum / statistics.weight
    return {
        "mean level": nrmse(y, np.tile(constant, (len(y), 1))),
        "linear in the weather now": nrmse(y, linear(u)),
        "reservoir, saved and loaded": scores.total.value,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="From a folder of CSV files to a saved model.")
    parser.add_argument("--quick", action="store_true", help="two seeds instead of five")
    seeds = range(2 if parser.parse_args().quick else 5)
    runs = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            runs.append(run(Path(folder), seed))
    print(f"{STATIONS} files; NRMSE of the level at 2 other stations, {len(seeds)} seeds")
    for name in runs[0]:
        errors = [result[name] for result in runs]
        print(f"{name:28} {np.mean(errors):.4f} ± {np.std(errors, ddof=1):.4f}")


if __name__ == "__main__":
    main()
