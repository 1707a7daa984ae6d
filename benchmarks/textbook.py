"""Textbook tasks at the default bits and in float64: is any sum too coarse?

    python -m benchmarks.textbook [--seeds 5] [--quick]

Five clients hold consecutive segments of a series. NARMA-10 is predicted at its own step, Lorenz
(all three coordinates, the first is scored) ten steps ahead, the Santa Fe laser (over 256) one step
ahead, and Mackey-Glass runs 84 steps in closed loop from 40 places of the test series, of which the
last is scored. Reservoirs have 300 units; a ridge is chosen by generalized cross-validation. Inputs
are standardized over all clients, as by default, or left as they are. The laser is looked for where
CATCHMENT_DATA says. Writes results/textbook.json and .md, and a table of the page on statistics.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import RESULTS, write
from catchment import Array, EchoState, Pipeline, Preprocessing, Recording, federate
from catchment.data import contiguous, mackey_glass, narma
from catchment.errors import PrecisionWarning
from catchment.readout import ForecastLimitWarning, Model, forecast, nrmse
from catchment_lab.datasets import load
from catchment_research import known_series

PAGE = Path(__file__).parents[1] / "docs" / "concepts" / "statistics.md"
UNITS, WASHOUT, N_CLIENTS, TRAIN, TEST = 300, 100, 5, 6000, 2000
LOOP, STARTS, AHEAD = 84, 40, 10
WAYS: dict[str, Any] = {"sums, default bits": "auto", "sums, float64": None}
SCALES: dict[str, Any] = {"standardized": "federated", "as they are": "none"}
Task = tuple[Recording, Callable[[Model], float]]


def ahead(u: Array, y: Array) -> Task:
    """Return a recording to learn from, and what scores a model on the steps behind it."""

    def score(model: Model) -> float:
        told = model.predict(u[TRAIN - WASHOUT :])
        return float(nrmse(y[TRAIN:, :1], told[:, :1]))

    return Recording(u[:TRAIN], y[:TRAIN]), score


def narma_task(seed: int) -> Task:
    series = narma(TRAIN + TEST, seed=seed)
    assert series.y is not None
    return ahead(series.u, series.y)


def lorenz_task(seed: int) -> Task:
    x = known_series("lorenz", TRAIN + TEST + AHEAD, seed=seed)
    return ahead(x[:-AHEAD], x[AHEAD:])


def laser_task(seed: int) -> Task:
    (series,) = load("santafe_laser", horizon=0).clients.values()
    x = next(iter(series)).u[: TRAIN + TEST + 1] / 256
    return ahead(x[:-1], x[1:])


def mackey_glass_task(seed: int) -> Task:
    x = mackey_glass(TRAIN + TEST, seed=seed)

    def score(model: Model) -> float:
        starts = np.linspace(TRAIN, len(x) - LOOP - 1, STARTS).astype(int)
        ends = [forecast(model, x[at - 500 : at], LOOP)[-1] for at in starts]
        return float(np.sqrt(np.mean((np.array(ends) - x[starts + LOOP - 1]) ** 2)) / x.std())

    return Recording(x[: TRAIN - 1], x[1:TRAIN]), score


TASKS: dict[str, Callable[[int], Task]] = {
    "NARMA-10": narma_task,
    "Mackey-Glass, closed loop": mackey_glass_task,
    "Lorenz": lorenz_task,
    "Santa Fe laser": laser_task,
}


def measured(task: str, scale: str, seed: int) -> dict[str, Any]:
    """Return the error of every way, and whether it warned."""
    recording, score = TASKS[task](seed)
    clients = {name: list(part) for name, part in contiguous(recording, N_CLIENTS).items()}
    found: dict[str, Any] = {"task": task, "inputs": scale, "seed": seed, "ways": {}}
    for way, grid in WAYS.items():
        described = EchoState(UNITS, washout=WASHOUT, seed=seed, bits=grid)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", ForecastLimitWarning)
            run = federate(
                Pipeline(Preprocessing(scale=SCALES[scale]), described),
                dict(clients),
                ridge="gcv",
                threads=1,
            )
            error = score(run.model)
        warned = any(issubclass(one.category, PrecisionWarning) for one in caught)
        ridge = float(np.mean(run.model.readout.ridge))
        found["ways"][way] = {"error": error, "ridge": ridge, "warned": warned}
    return found


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the median errors over seeds, and the default's over float64's: median and range."""
    lines = [
        f"| task | inputs | {' | '.join(WAYS)} | default bits over float64 |",
        f"|{'---|' * (3 + len(WAYS))}",
    ]
    for task in TASKS:
        for scale in SCALES:
            mine = [row["ways"] for row in rows if (row["task"], row["inputs"]) == (task, scale)]
            if not mine:
                continue
            errors = {way: np.array([one[way]["error"] for one in mine]) for way in WAYS}
            more = errors["sums, default bits"] / errors["sums, float64"]
            told = [f"{np.median(each):.3g}" for each in errors.values()]
            told.append(f"{np.median(more):.2f} ({more.min():.2f} to {more.max():.2f})")
            lines.append(f"| {task} | {scale} | {' | '.join(told)} |")
    return "\n".join(lines)


def report(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return results/textbook.md."""
    return f"# Textbook tasks: default bits and float64\n\n{__doc__}\n{table(rows)}\n"


def with_table(page: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a page with its table as it was measured."""
    head, mark, rest = page.partition("<!-- table: textbook -->\n\n")
    return f"{head}{mark}{table(rows)}\n\n{rest.partition(chr(10) * 2)[2]}" if mark else page


def main(arguments: Sequence[str]) -> None:
    """Measure every task and write what was found."""
    n_seeds = int(arguments[arguments.index("--seeds") + 1]) if "--seeds" in arguments else 5
    quick = "--quick" in arguments
    rows = []
    for seed in range(1 if quick else n_seeds):
        for task in TASKS:
            for scale in SCALES:
                rows.append(measured(task, scale, seed))
                errors = {way: f"{told['error']:.3g}" for way, told in rows[-1]["ways"].items()}
                print(task, scale, seed, json.dumps(errors), flush=True)
    if quick:
        return
    settings: dict[str, object] = {"units": UNITS, "train": TRAIN, "test": TEST, "seeds": n_seeds}
    write("textbook", {"settings": settings, "rows": rows})
    (RESULTS / "textbook.md").write_text(report(rows), encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text("utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
