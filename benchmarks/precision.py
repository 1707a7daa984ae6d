"""What sums of products lose on noise-free series, beside the rows themselves.

Five clients hold consecutive segments of a noise-free series and predict it some steps ahead: the
error on later steps, the bytes of a client, the seconds of the whole federation. Beside them the
rows of everybody on one pile, by numpy's and scipy's own
least squares, and persistence. A ridge is chosen by clients left out, by generalized
cross-validation, or on a segment between training and test ("best"); the test segment chooses
nothing. The inputs are as they are, or standardized; the states float64, or in fixed point.

    python -m benchmarks.precision               # every cell, kept as it ends; --resume goes on
    python -m benchmarks.precision --workers 8   # side by side; --seeds 9 adds reservoirs
    python -m benchmarks.precision --quick       # one small cell
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.linalg

from benchmarks.record import RESULTS, write
from catchment import (
    Array,
    EchoState,
    Pipeline,
    Preprocessing,
    Recording,
    Run,
    federate,
)
from catchment.data import contiguous, mackey_glass
from catchment.errors import PrecisionWarning, SingularError
from catchment.readout import Readout, nrmse
from catchment.wire import replace_file
from catchment_research import known_series

PAGE = Path(__file__).parents[1] / "docs" / "concepts" / "statistics.md"
HORIZONS = {"Mackey-Glass": 6, "Lorenz": 10}
TRAIN, VALID, TEST, WASHOUT = 6000, 1000, 1000, 100
N_CLIENTS, N_SEEDS = 5, 5
RIDGES = 10.0 ** np.arange(-20.0, 1.0, 0.5)
Library = Literal["numpy", "scipy"]
LIBRARIES: tuple[Library, Library] = ("numpy", "scipy")
WAYS = (
    *("sums, by clients", "sums, gcv", "sums, best"),
    *("rows, best", "persistence"),
)


@dataclass(frozen=True)
class Cell:
    """One series, one reservoir."""

    series: Literal["Mackey-Glass", "Lorenz"]
    inputs: Literal["as they are", "standardized"]
    states: Literal["float64", "grid"]
    units: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.series}, {self.inputs}, {self.states}, {self.units} units, seed {self.seed}"


def cells(n_seeds: int = N_SEEDS) -> Iterator[Cell]:
    """Yield all cells, those that decide first."""
    for seed in range(n_seeds):
        for series in ("Mackey-Glass", "Lorenz"):
            for inputs in ("as they are", "standardized"):
                for units in (300, 100):
                    for states in ("float64", "grid"):
                        yield Cell(series, inputs, states, units, seed)


@dataclass(frozen=True, eq=False)
class Segments:
    """Inputs and targets of training, and feature rows with targets to judge by."""

    train: Recording
    valid: tuple[Array, Array]
    test: tuple[Array, Array]
    last: Array  # (n, 1) value known when the test's targets are predicted


def segments(cell: Cell) -> tuple[Segments, EchoState]:
    """Return the data of a cell and its reservoir's description."""
    h, n = HORIZONS[cell.series], TRAIN + VALID + TEST
    x = mackey_glass(n + h) if cell.series == "Mackey-Glass" else known_series("lorenz", n + h)
    u, y = x[:-h], x[h:, :1]
    raw = u
    if cell.inputs == "standardized":
        u = (u - u[:TRAIN].mean(axis=0)) / u[:TRAIN].std(axis=0)
    grid: Any = None if cell.states == "float64" else "auto"
    described = EchoState(cell.units, washout=WASHOUT, seed=cell.seed, bits=grid)
    features = described.build(u.shape[1], per_step=True)

    def rows(begin: int, end: int) -> tuple[Array, Array]:
        return features.rows([u[begin - WASHOUT : end]])[0], y[begin:end]

    parts = (Recording(u[:TRAIN], y[:TRAIN]), rows(TRAIN, TRAIN + VALID), rows(TRAIN + VALID, n))
    return Segments(*parts, raw[TRAIN + VALID :, :1]), described


def measured(cell: Cell) -> dict[str, Any]:
    """Return the error of every way on the test segment, with its ridge, bytes and seconds."""
    data, described = segments(cell)
    clients = {name: list(part) for name, part in contiguous(data.train, N_CLIENTS).items()}
    runs = {
        f"sums, {how}": _federated(described, clients, ridge)
        for how, ridge in (("by clients", "leave-one-client-out"), ("gcv", "gcv"))
    }
    found = {
        name: {**told, **_scored(run.model.readout, data)} for name, (told, run) in runs.items()
    }
    run = runs["sums, gcv"][1]
    best = _chosen(_sums_path(run.statistics), data)
    found["sums, best"] = {**found["sums, gcv"], **_scored(best, data)}
    features = run.model.features
    z = np.concatenate([features.rows([r.u for r in part])[0] for part in clients.values()])
    y = np.concatenate(
        [r.y[WASHOUT:] for part in clients.values() for r in part if r.y is not None]
    )
    found["rows, best"], s = _of_rows(z, y, data)
    found["persistence"] = {"error": float(nrmse(data.test[1], data.last)), "bytes": 0}
    condition = float((s[0] / s[-1]) ** 2)
    return {**asdict(cell), "condition": condition, "ways": found}


def _federated(
    described: EchoState, clients: Mapping[str, list[Recording]], ridge: Any
) -> tuple[dict[str, Any], Run]:
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = federate(
            Pipeline(Preprocessing(scale="none"), described),
            dict(clients),
            ridge=ridge,
            threads=1,
        )
    seconds = time.perf_counter() - begin
    told = {
        "bytes": round(run.records[0].bytes_up / N_CLIENTS),
        "seconds": seconds,
        "warned": any(issubclass(one.category, PrecisionWarning) for one in caught),
    }
    return told, run


def _scored(readout: Readout, data: Segments) -> dict[str, float]:
    return {"ridge": float(np.mean(readout.ridge)), "error": _error(readout, data.test)}


def _error(readout: Readout, rows: tuple[Array, Array]) -> float:
    return float(nrmse(rows[1], readout(rows[0])))


def _chosen(path: Mapping[float, Readout], data: Segments) -> Readout:
    """Return the readout with the least error between training and test."""
    return min(path.values(), key=lambda readout: _error(readout, data.valid))


def _sums_path(statistics: Any) -> dict[float, Readout]:
    """Return a readout for every ridge at which sums are not refused."""
    path = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        for ridge in RIDGES:
            try:
                path[float(ridge)] = statistics.solve(float(ridge))
            except SingularError:
                continue
    return path


def solved_by(z: Array, y: Array, ridge: float, by: Library) -> Readout:
    """Return the readout of the rows [Z; sqrt(ridge) I] by somebody else's least squares."""
    F = z.shape[1]
    means = z.mean(axis=0), y.mean(axis=0)
    A = np.vstack([z - means[0], np.sqrt(ridge) * np.eye(F)])
    b = np.vstack([y - means[1], np.zeros((F, y.shape[1]))])
    if by == "numpy":
        W = np.linalg.lstsq(A, b, rcond=None)[0]
    else:
        W = scipy.linalg.lstsq(A, b, lapack_driver="gelsd")[0]
    return Readout(W, means[1] - means[0] @ W, ridge)


def _of_rows(z: Array, y: Array, data: Segments) -> tuple[dict[str, Any], Array]:
    """Return the pooled rows' errors at their best ridge, and their singular values."""
    begin = time.perf_counter()
    means = z.mean(axis=0), y.mean(axis=0)
    U, s, V = np.linalg.svd(z - means[0], full_matrices=False)
    # Where the first feature is constant there is one direction of rounding alone.
    kept = s > len(s) * np.finfo(np.float64).eps * s[0]
    U, s, V = U[:, kept], s[kept], V[kept]
    path = {}
    for ridge in RIDGES:
        W = V.T @ ((s / (s**2 + ridge))[:, None] * (U.T @ (y - means[1])))
        path[float(ridge)] = Readout(W, means[1] - means[0] @ W, float(ridge))
    best = _chosen(path, data)
    ridge = float(np.mean(best.ridge))
    numpys, scipys = (_error(solved_by(z, y, ridge, by), data.test) for by in LIBRARIES)
    seconds = time.perf_counter() - begin
    found = {"ridge": ridge, "error": numpys, "by scipy": scipys}
    return {**found, "bytes": 8 * z.size // N_CLIENTS, "seconds": seconds}, s


def table(rows: Sequence[Mapping[str, Any]], units: Sequence[int] = (100, 300)) -> str:
    """Return the mean errors over seeds, a line for each series, inputs, states and units."""
    lines = [
        f"| series | inputs | states | units | condition | {' | '.join(WAYS)} |",
        f"|{'---|' * (5 + len(WAYS))}",
    ]
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in (one for one in rows if one["units"] in units):
        key = (row["series"], row["inputs"], row["states"], str(row["units"]))
        groups.setdefault(key, []).append(row)
    for name, group in sorted(groups.items(), key=lambda one: (one[0][0] == "Lorenz", one[0])):
        condition = np.median([row["condition"] for row in group])
        errors = (np.mean([row["ways"][way]["error"] for row in group]) for way in WAYS)
        series, inputs, states, n = name
        shown = {"grid": "fixed point"}.get(states, states)
        told = (series, inputs, shown, n, f"{condition:.0e}", *(f"{error:.3g}" for error in errors))
        lines.append(f"| {' | '.join(told)} |")
    return "\n".join(lines)


def costs(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the kilobytes of a client, and the median seconds, by way and units."""
    units = sorted({row["units"] for row in rows})
    titles = [f"{n} units, {what}" for n in units for what in ("kB", "s")]
    lines = [f"| way | {' | '.join(titles)} |", f"|{'---|' * (1 + len(titles))}"]
    for way in (one for one in WAYS if one != "persistence" and "best" not in one):
        told = []
        for n in units:
            ours = [row["ways"][way] for row in rows if row["units"] == n]
            told.append(f"{np.median([one['bytes'] for one in ours]) / 1000:.0f}")
            told.append(f"{np.median([one['seconds'] for one in ours]):.2f}")
        lines.append(f"| {way} | {' | '.join(told)} |")
    return "\n".join(lines)


TABLES: dict[str, Callable[[Sequence[Mapping[str, Any]]], str]] = {
    "precision": lambda rows: table(rows, units=(300,)),
    "precision costs": costs,
}


def with_tables(page: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a page with its tables as they were measured."""
    for name, made in TABLES.items():
        head, _, rest = page.partition(f"<!-- table: {name} -->\n\n")
        after = rest.partition("\n\n")[2]
        page = f"{head}<!-- table: {name} -->\n\n{made(rows)}\n\n{after}"
    return page


def report(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return results/precision.md."""
    n_seeds = len({row["seed"] for row in rows})
    ahead = " and ".join(f"{n} steps ahead for {name}" for name, n in HORIZONS.items())
    return f"""# What sums lose on noise-free series

NRMSE on {TEST} steps that chose nothing, {ahead}, mean over
{n_seeds} reservoirs; {N_CLIENTS} clients of {TRAIN // N_CLIENTS} steps each.
Made by `python -m benchmarks.precision`. "best" ridges are those with the least error on {VALID}
steps between training and test. The condition is that of the centered Gram matrix, from the
singular values of the rows.

{table(rows)}

What one client sends, and the seconds of the whole federation on one thread (medians; cells run
side by side, so that seconds compare ways and not machines):

{costs(rows)}
"""


def main(arguments: Sequence[str], folder: Path = RESULTS) -> None:
    """Measure every cell and write results/precision.json and results/precision.md."""
    if "--quick" in arguments:
        small = Cell("Mackey-Glass", "as they are", "float64", 100, 0)
        print(json.dumps(measured(small), indent=1))
        return
    n_seeds = int(_option(arguments, "--seeds", str(N_SEEDS)))
    workers = int(_option(arguments, "--workers", "1"))
    kept_in = folder / "precision-cells"
    kept_in.mkdir(parents=True, exist_ok=True)
    every = list(cells(n_seeds))
    todo = [one for one in every if "--resume" not in arguments or not _file(kept_in, one).exists()]
    with ProcessPoolExecutor(workers) as pool:
        for one, found in zip(todo, pool.map(measured, todo), strict=True):
            replace_file(_file(kept_in, one), json.dumps(found).encode())
            errors = {way: f"{told['error']:.3g}" for way, told in found["ways"].items()}
            print(one.name, errors, flush=True)
    rows = [json.loads(_file(kept_in, one).read_text()) for one in every]
    settings: dict[str, object] = {"train": TRAIN, "valid": VALID, "test": TEST, "seeds": n_seeds}
    settings["horizons"] = HORIZONS
    write("precision", {"settings": settings, "rows": rows}, folder=folder)
    (folder / "precision.md").write_text(report(rows), encoding="utf-8")
    if folder == RESULTS:
        PAGE.write_text(with_tables(PAGE.read_text("utf-8"), rows), encoding="utf-8")


def _file(folder: Path, cell: Cell) -> Path:
    return folder / f"{cell.name.replace(', ', '-').replace(' ', '_')}.json"


def _option(arguments: Sequence[str], name: str, otherwise: str) -> str:
    return arguments[list(arguments).index(name) + 1] if name in arguments else otherwise


if __name__ == "__main__":
    main(sys.argv[1:])
