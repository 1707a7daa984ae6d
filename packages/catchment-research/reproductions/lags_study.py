"""Forecasts from autocovariances beside the exact Gram and naive ones: cells, kept as they end.

The rule, written down before the test parts of all sets but ETTh1 were looked at: 70 % of a series
to learn from, 10 % left alone, the last 20 % to test on (ETTh1 has the usual hours), and lookbacks
as `load` has them. Targets are differences from a trailing mean, unless the level is
forgotten within the lags. Lookback, trailing mean and ridge are chosen by clients left out, on the
training part alone.
"""

from __future__ import annotations

import csv
import json
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

import catchment as ct
from catchment import Array
from catchment.data import Preprocessing
from catchment.federation.learn import FederatedYuleWalker
from catchment.federation.measure import season_of
from catchment.readout import Equations, autocovariances, candidates, choose
from catchment.wire import replace_file
from reproductions.forecast_data import N_TEST, N_TRAIN, N_VALIDATION, find_file, regions
from reproductions.forecast_data import station as load_station

STEM = "lags"
RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e3)
COVERAGE = 0.9
QUANTILES = (0.1, 0.5, 0.9)
EPSILONS = (1.0, 4.0, 8.0)
REPEATS = 5  # draws of noise
LONG = 10
SETS = ("ETTh1", "exchange rates", "weather", "tweets")
# Sets whose series are long for their lags: two of them are others, no further ahead than that.
NEAR = {
    "ETTh1, 336 hours": ("ETTh1", (96, 192, 336)),
    "exchange rates, 336 days": ("exchange rates", (96, 192, 336)),
}
LONG_SETS = ("weather", "tweets", *NEAR, "autoregressions")
FEW_ORIGINS = 4
Cell = dict[str, Any]
Job = tuple[tuple[str, ...], Callable[[], list[Cell]]]


@dataclass(frozen=True, eq=False)
class Series:
    """Series of one length by client, standardized by their training part, and how they are cut.

    Every channel or region is a client of its own.
    """

    name: str
    series: dict[str, Array]
    n_train: int
    n_test: int
    lookback: int
    horizons: tuple[int, ...]

    @property
    def train(self) -> dict[str, Array]:
        return {name: x[: self.n_train] for name, x in self.series.items()}

    @property
    def season(self) -> int | None:
        return season_of([x[:, None] for x in self.train.values()])

    @property
    def is_long(self) -> bool:
        """Whether series are as long as autocovariances want them."""
        return self.n_train >= LONG * (self.lookback + max(self.horizons))

    def origins(self, h: int) -> Any:
        """Return the last known step of every test forecast of h steps."""
        T = len(next(iter(self.series.values())))
        return np.arange(T - self.n_test - 1, T - h)


def standardized(
    name: str, columns: dict[str, Array], cut: tuple[int, int], L: int, horizons: Sequence[int]
) -> Series:
    """Return a set whose series have mean 0 and deviation 1 on their training part."""
    n_train, n_test = cut
    ready = {}
    for key, x in columns.items():
        known = x[:n_train]
        ready[key] = (x - known.mean()) / known.std()
    return Series(name, ready, n_train, n_test, L, tuple(horizons))


def load(name: str, directory: Path | None) -> Series:
    """Return one of the sets, each channel, region or company a client."""
    if name in NEAR:
        of, horizons = NEAR[name]
        return replace(load(of, directory), name=name, horizons=horizons)
    if name == "ETTh1":
        one = load_station(directory)
        whole = N_TRAIN + N_VALIDATION + N_TEST
        assert one.channels is not None
        columns = {c: one.u[:whole, k] for k, c in enumerate(one.channels)}
        return standardized(name, columns, (N_TRAIN, N_TEST), 336, (96, 192, 336, 720))
    if name == "exchange rates":
        path = find_file("exchange", "exchange_rate.csv", directory)
        with path.open(newline="") as stream:
            names, *rows = csv.reader(stream)
        table = np.array([[float(v) for v in row[1:]] for row in rows])
        columns = {c: table[:, k] for k, c in enumerate(names[1:])}
        n = len(table)
        return standardized(name, columns, (n * 7 // 10, n // 5), 96, (96, 192, 336, 720))
    if name == "weather":
        columns = {key: one.u[:, 0] for key, one in regions(directory).items()}
        n = len(next(iter(columns.values())))
        return standardized(name, columns, (n * 7 // 10, n // 5), 168, (24, 48, 96, 168))
    if name == "tweets":
        first = find_file("nab/realTweets", "Twitter_volume_AAPL.csv", directory)
        counts = {path.stem.split("_")[-1]: path for path in sorted(first.parent.glob("*.csv"))}
        columns = {}
        for key, path in counts.items():
            with path.open(newline="") as stream:
                columns[key] = np.array([float(row["value"]) for row in csv.DictReader(stream)])
        n = min(map(len, columns.values()))
        columns = {key: np.log1p(x[:n]) for key, x in columns.items()}
        return standardized(name, columns, (n * 7 // 10, n // 5), 288, (12, 72, 144, 288))
    return synthetic(name)


def synthetic(name: str = "synthetic") -> Series:
    """Return eight series of an autoregression, for runs without the files."""
    columns = {f"c{k}": wave(2_000, k) for k in range(8)}
    return standardized(name, columns, (1_400, 400), 24, (4, 8))


# What a contender makes of a set, for forecasts of h steps: forecasts (n, h) of a client's series
# from origins (n,), and the deviation (h,) that it expects of their errors.
Forecaster = tuple[Callable[[str, Array], Array], Array]


def naive(held: Series, h: int, season: int) -> Forecaster:
    """Return the forecaster that repeats the last season, or value."""
    steps = np.arange(1, h + 1)
    back = season * -(-steps // season)

    def forecast(name: str, origins: Array) -> Array:
        return np.asarray(held.series[name][origins[:, None] + steps - back])

    squares = [np.mean([np.mean((x[b:] - x[:-b]) ** 2) for x in held.train.values()]) for b in back]
    return forecast, np.sqrt(squares)


@dataclass(frozen=True, eq=False)
class Uploads:
    """What clients sent once, from which every horizon is solved."""

    by_client: dict[str, Any]
    bytes_each: float

    @classmethod
    def of(cls, held: Series) -> Uploads:
        """Run the federation of a set, for its largest horizon."""
        H = max(held.horizons)
        ahead = Preprocessing(horizon=tuple(range(1, H + 1)), scale="none")
        lags = ct.NVAR(held.lookback, order=1).build(1, per_step=True)
        learn = FederatedYuleWalker(features=lags, preprocessing=ahead, ridge=1e-3)
        clients = {name: [ct.Recording(x)] for name, x in held.train.items()}
        run = ct.federate(ct.Plan(algorithm=learn, preprocessing=ahead), clients)
        return cls(dict(run.state.by_client), run.records[0].bytes_up / len(clients))


def from_lags(held: Series, h: int, sent: Uploads, *, own: bool = False) -> Forecaster:
    """Return the forecaster from all clients' sums, or from each client's own."""
    steps, parts = tuple(range(1, h + 1)), list(sent.by_client.values())
    total = reduce(add, parts)
    weights: dict[str, Array] = {}
    deviations = []
    for name, one in sent.by_client.items() if own else (("", total),):
        tried = candidates(held.lookback, forgets=one.forgets)
        made = choose(one, [] if own else parts, tried, RIDGES, steps=steps)
        best = made.best
        solved = Equations(one, best.lookback, best.mean, steps, steps)
        W, _ = solved.solve(best.ridge)
        weights[name] = solved.weights(W)
        deviations.append(made.deviations)

    def forecast(name: str, origins: Array) -> Array:
        W = weights[name if own else ""]
        return np.asarray(held.series[name][origins[:, None] - np.arange(len(W))] @ W)

    return forecast, np.sqrt(np.mean(np.square(deviations), axis=0))


@dataclass(frozen=True, eq=False)
class Gram:
    """Products of rows with each other, with targets, and of targets, of one client or several."""

    G: Array
    C: Array
    q: Array
    n: float

    def __add__(self, other: Gram) -> Gram:
        return Gram(self.G + other.G, self.C + other.C, self.q + other.q, self.n + other.n)

    def __sub__(self, other: Gram) -> Gram:
        return Gram(self.G - other.G, self.C - other.C, self.q - other.q, self.n - other.n)

    def errors(self, W: Array) -> Array:
        """Return mean squared errors (h,) of weights (F, h)."""
        h = W.shape[1]
        cross = np.einsum("lh,lh->h", W, self.C[:, :h])
        return np.asarray((self.q[:h] - 2 * cross + np.einsum("lh,lh->h", W, self.G @ W)) / self.n)

    def solve(self, ridge: float, h: int) -> Array:
        """Return the weights (F, h) at a ridge in units of the mean square of a feature."""
        own = ridge * np.trace(self.G) / len(self.G) + 1e-9 * self.n
        return np.linalg.solve(self.G + own * np.eye(len(self.G)), self.C[:, :h])


def chosen(parts: Sequence[Gram], h: int) -> tuple[Array, Array]:
    """Return the weights at the ridge with the least error on clients left out, and that error."""
    total = reduce(add, parts)
    tried = []
    for ridge in RIDGES:
        sums = [one.n * one.errors((total - one).solve(ridge, h)) for one in parts]
        tried.append(np.sum(sums, axis=0) / total.n)
    best = int(np.argmin([one.mean() for one in tried]))
    return total.solve(RIDGES[best], h), np.sqrt(tried[best])


def gram_rows(x: Array, L: int, H: int) -> tuple[Array, Array]:
    """Return windows (n, L), the newest value first, and what follows (n, H)."""
    windows = np.lib.stride_tricks.sliding_window_view(x, L + H)
    return windows[:, :L][:, ::-1], windows[:, L:]


def level_of(z: Array, mean: int) -> Array:
    """Return the trailing mean (n, 1) of windows (n, L), 0 where none is taken off."""
    return z[:, :mean].mean(axis=1, keepdims=True) if mean else np.zeros((len(z), 1))


def from_gram(held: Series, grams: dict[int, list[Gram]], h: int) -> Forecaster:
    """Return the exact ridge regression on lags, its trailing mean by clients left out."""
    found = {mean: chosen(parts, h) for mean, parts in grams.items()}
    mean = min(found, key=lambda one: float(np.square(found[one][1]).mean()))
    W, deviation = found[mean]
    L = held.lookback

    def forecast(name: str, origins: Array) -> Array:
        z = held.series[name][origins[:, None] - np.arange(L)]
        level = level_of(z, mean)
        return np.asarray((z - level) @ W + level)

    return forecast, deviation


def grams_of(held: Series) -> dict[int, list[Gram]]:
    """Return every client's Gram of lags, by the trailing mean that is taken off."""
    L, H = held.lookback, max(held.horizons)
    found: dict[int, list[Gram]] = {}
    forgets = autocovariances(np.stack([*held.train.values()], axis=1), L + H).forgets
    for mean in (0, 1, L) if forgets else (1, L):
        for x in held.train.values():
            z, y = gram_rows(x, L, H)
            level = level_of(z, mean)
            z, y = z - level, y - level
            one = Gram(z.T @ z, z.T @ y, np.square(y).sum(axis=0), float(len(z)))
            found.setdefault(mean, []).append(one)
    return found


def reservoir_of(held: Series) -> tuple[list[Gram], dict[str, Array]]:
    """Return every client's Gram of a reservoir's rows, and the rows of its whole series."""
    H, washout = max(held.horizons), 100
    features = ct.EchoState(300, seed=0).build(1, per_step=True)
    parts, rows = [], {}
    for name, x in held.series.items():
        (rows[name],) = features.rows([x[:, None]])
        n = held.n_train - H
        z = rows[name][washout:n]
        ahead = np.lib.stride_tricks.sliding_window_view(x[: held.n_train], H)[washout + 1 : n + 1]
        y = ahead - x[washout:n, None]
        parts.append(Gram(z.T @ z, z.T @ y, np.square(y).sum(axis=0), float(len(z))))
    return parts, rows


def from_reservoir(held: Series, made: tuple[list[Gram], dict[str, Array]], h: int) -> Forecaster:
    """Return ridge regression of differences from the last value on a reservoir's rows."""
    W, deviation = chosen(made[0], h)

    def forecast(name: str, origins: Array) -> Array:
        return np.asarray(made[1][name][origins] @ W + held.series[name][origins, None])

    return forecast, deviation


def few_origins(held: Series) -> Any:
    """Return origins spread evenly over the test part, for models that are fitted at each."""
    every = held.origins(max(held.horizons))
    return every[np.linspace(0, len(every) - 1, FEW_ORIGINS).round().astype(int)]


def scored(held: Series, h: int, forecaster: Forecaster) -> dict[str, float]:
    """Return the errors of forecasts of h steps from every test origin."""
    forecast, deviation = forecaster
    origins, steps = held.origins(h), np.arange(1, h + 1)
    season, some = held.season or 1, few_origins(held)
    figures = ("mse", "mae", "mase", "pinball", "inside", "few")
    found: dict[str, list[float]] = {key: [] for key in figures}
    half = float(ndtri((1 + COVERAGE) / 2)) * deviation
    for name, x in held.series.items():
        said, truth = forecast(name, origins), x[origins[:, None] + steps]
        error = truth - said
        known = held.train[name]
        naive_error = float(np.abs(known[season:] - known[:-season]).mean())
        found["mse"].append(float(np.square(error).mean()))
        found["few"].append(float(np.square(error[some - origins[0]]).mean()))
        found["mae"].append(float(np.abs(error).mean()))
        found["mase"].append(found["mae"][-1] / naive_error)
        losses = []
        for q in QUANTILES:
            away = error - float(ndtri(q)) * deviation
            losses.append(float(np.maximum(q * away, (q - 1) * away).mean()))
        found["pinball"].append(float(np.mean(losses)))
        found["inside"].append(float((np.abs(error) <= half).mean()))
    return {key: float(np.mean(values)) for key, values in found.items()}


def cells_of(held: Series, contender: str) -> list[Cell]:
    """Return the cells of one contender on one set, one for each horizon."""
    L, H = held.lookback, max(held.horizons)
    numbers, sent = 0, 0.0
    make: Callable[[int], Forecaster]
    match contender:
        case "last value":
            make = lambda h: naive(held, h, 1)  # noqa: E731
        case "seasonal naive":
            season = held.season
            if season is None:
                return []
            make = lambda h: naive(held, h, season)  # noqa: E731
        case "autocovariances" | "autocovariances, each alone":
            own, uploads = contender != "autocovariances", Uploads.of(held)
            numbers, sent = (0, 0.0) if own else (3 * (L + H), uploads.bytes_each)
            make = lambda h: from_lags(held, h, uploads, own=own)  # noqa: E731
        case "exact Gram":
            grams = grams_of(held)
            numbers = L * (L + 1) // 2 + L * H + H
            sent = 8.0 * numbers
            make = lambda h: from_gram(held, grams, h)  # noqa: E731
        case _:
            made = reservoir_of(held)
            F = len(made[0][0].G)
            numbers = F * (F + 1) // 2 + F * H + H
            sent = 8.0 * numbers
            make = lambda h: from_reservoir(held, made, h)  # noqa: E731
    about = {"set": held.name, "contender": contender, "numbers": numbers, "bytes": sent}
    return [{**about, "horizon": h, **scored(held, h, make(h))} for h in held.horizons]


CONTENDERS = (
    *("last value", "seasonal naive", "autocovariances, each alone", "reservoir"),
    *("exact Gram", "autocovariances"),
)
COMPARED = ("exact Gram", "autocovariances")

AR = (1.6, -0.9)
FEW, AHEAD, STEPS = 24, 8, 500  # lags, horizon and steps of every synthetic client


def wave(n: int, seed: int) -> Array:
    """Return a series of an autoregression with noise of variance 1."""
    rng = np.random.default_rng([seed, 7])
    x = rng.normal(size=n + 200)
    for t in range(2, len(x)):
        x[t] += AR[0] * x[t - 1] + AR[1] * x[t - 2]
    return np.asarray(x[200:])


def floor(h: int) -> float:
    """Return the least mean squared error of a forecast of h steps."""
    psi = [1.0, AR[0]]
    while len(psi) < h:
        psi.append(AR[0] * psi[-1] + AR[1] * psi[-2])
    return float(np.square(psi[:h]).sum())


def private_cell(n_clients: int, epsilon: float | None) -> list[Cell]:
    """Return how far above the least possible error a model with noise is, mean of draws."""
    spread = 1.0 / np.sqrt(_variance())
    ahead = Preprocessing(horizon=tuple(range(1, AHEAD + 1)), scale="none")
    lags = ct.NVAR(FEW, order=1).build(1, per_step=True)
    learn = FederatedYuleWalker(features=lags, preprocessing=ahead, store_per_client=False)
    clients = {f"c{k}": [ct.Recording(spread * wave(STEPS, k))] for k in range(n_clients)}
    test = spread * wave(50_000, 10**6)
    rows = np.lib.stride_tricks.sliding_window_view(test, FEW + AHEAD)
    least = np.mean([floor(h) for h in range(1, AHEAD + 1)]) * spread**2
    ratios = []
    for _ in range(1 if epsilon is None else REPEATS):
        protections: tuple[Any, ...] = ()
        if epsilon is not None:
            clip = ct.Clip(bound=learn.clip(3.0))
            protections = (ct.GaussianNoise(epsilon=epsilon, delta=1e-5, clip=clip),)
        plan = ct.Plan(algorithm=learn, preprocessing=ahead, protections=protections)
        model = ct.federate(plan, clients).model
        L = model.washout + 1
        said = rows[:, FEW - L : FEW][:, ::-1] @ model.readout.weights[1:] + model.readout.intercept
        ratios.append(float(np.square(rows[:, FEW:] - said).mean() / least))
    about = {"set": "private", "contender": f"{n_clients} clients", "n_clients": n_clients}
    return [{**about, "epsilon": epsilon, "ratio": float(np.mean(ratios)), "all": ratios}]


def _variance() -> float:
    """Return the variance of the series: 1 / the part of it that is noise."""
    a, b = AR
    return (1 - b) / ((1 + b) * ((1 - b) ** 2 - a**2))


def jobs(directory: Path | None, *, quick: bool) -> list[Job]:
    """Return what makes every cell, under the key by which it is found again."""
    held: dict[str, Series] = {}

    def of(name: str) -> Series:
        if name not in held:
            held[name] = load(name, directory)
        return held[name]

    made: list[Job] = []
    for name in ("synthetic",) if quick else tuple(dict.fromkeys((*SETS, *LONG_SETS))):
        for one in CONTENDERS if quick or name in SETS else COMPARED:
            made.append(((name, one), lambda name=name, one=one: cells_of(of(name), one)))  # type: ignore[misc]
    for n in (100,) if quick else (100, 1_000):
        for epsilon in (None, *EPSILONS):
            key = ("private", str(n), str(epsilon))
            made.append((key, lambda n=n, epsilon=epsilon: private_cell(n, epsilon)))  # type: ignore[misc]
    return made


def run(
    *,
    quick: bool = False,
    resume: bool = False,
    directory: Path | None = None,
    out: Path = Path("results"),
    each: Callable[[Sequence[Job], str], Iterable[Job]] = lambda jobs, text: jobs,
) -> Path:
    """Compute the cells that are missing, write the result after each, and return its file."""
    path = out / f"{STEM}{'-quick' if quick else ''}.json"
    cells: list[Cell] = json.loads(path.read_text())["cells"] if resume and path.is_file() else []
    done = {tuple(cell["key"]) for cell in cells}
    for key, make in each(
        [one for one in jobs(directory, quick=quick) if one[0] not in done], STEM
    ):
        cells += [{"key": list(key), **cell} for cell in make()]
        result = {
            "study": STEM,
            "quick": quick,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "machine": platform.machine(),
            "cells": cells,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(result, indent=1).encode())
    return path
