"""Cycles left of engines that nobody trained on: C-MAPSS FD001, an engine a client.

The target is what is left, capped at 125. Which option of a contender is used and how strong the
ridge is, training engines that are left out decide, 32 groups of them in turn: the library's own
figure, from sums. Predictions are cut off at 0 and at the cap. The test engines choose nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import catchment as ct
from catchment import Array, Run
from catchment.features import FeatureMap
from catchment.readout import chosen_readout
from catchment.wire import replace_file
from reproductions.life_data import CAP, Engines
from reproductions.life_pooled import BOOSTED, LINEAR, PRODUCTS, pooled_said
from reproductions.study import environment

COVERAGES = (0.8, 0.9, 0.95)
BANDS = (25.0, 50.0, 75.0, 100.0)
WINDOW = 30
MEAN, AGE, ALONE = "the mean of all targets", "age alone, and its square", "an engine alone"


def _echo(seed: int, radius: float, scaling: float, units: int = 600) -> FeatureMap:
    leaks = ct.LogUniform(0.02, 0.5)
    return ct.EchoState(
        units, leak_rate=leaks, spectral_radius=radius, input_scaling=scaling, seed=seed
    )


def _diagonal(seed: int, states: int, units: int = 600) -> FeatureMap:
    return ct.DiagonalReservoir(
        units, seed, "mix", states, (2.0, 60.0), frequencies=0.02, leak_rate=(0.05, 0.5)
    )


Options = Callable[[int], dict[str, FeatureMap]]
CONTENDERS: dict[str, Options] = {
    AGE: lambda seed: {"": ct.NVAR(1, order=2)},
    "single rows, linear": lambda seed: {"": ct.NVAR(1, order=1)},
    "single rows, products of two": lambda seed: {"": ct.NVAR(1, order=2)},
    "lags, linear": lambda seed: {f"{n} lags": ct.NVAR(n, order=1) for n in (10, 30)},
    "windows of 30, statistics": lambda seed: {"": ct.WindowStatistics()},
    "windows of 30, MiniRocket": lambda seed: {"": ct.MiniRocket(504)},
    "diagonal reservoir": lambda seed: {f"{n} states": _diagonal(seed, n) for n in (30, 100)},
    "echo state": lambda seed: {
        f"radius {radius}": _echo(seed, radius, 0.1) for radius in (0.9, 1.2)
    },
}
POOLED = (LINEAR, PRODUCTS, BOOSTED)  # scikit-learn's, on all rows in one place
RANDOM = ("diagonal reservoir", "echo state")  # maps that other seeds draw anew
MAIN = "echo state"


@dataclass(frozen=True, kw_only=True)
class LifeCell:
    """One contender with one seed: what it said of each test engine at its last step.

    `left_out` is the error on training engines left out, `pooled` the largest difference of its
    predictions from scikit-learn's on all rows in one place, relative to the largest of them, and
    `intervals` have by way and coverage the share inside and the mean width, at the last step of
    each engine and over all steps.
    """

    contender: str
    seed: int
    predicted: list[float]
    columns: int
    chosen: str = ""
    left_out: float | None = None
    pooled: float | None = None
    intervals: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class LifeResult:
    """All cells so far, what the test engines have left, and how it was run."""

    cycles_left: list[float]
    seeds: int
    cells: tuple[LifeCell, ...] = ()
    quick: bool = False
    curves: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=environment)

    def of(self, contender: str) -> tuple[LifeCell, ...]:
        return tuple(cell for cell in self.cells if cell.contender == contender)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(asdict(self), indent=1) + "\n").encode())


def load_life(path: Path) -> LifeResult:
    """Return a result that was saved."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return LifeResult(**{**content, "cells": tuple(LifeCell(**one) for one in content["cells"])})


def rmse(predicted: Sequence[float] | Array, true: Sequence[float] | Array) -> float:
    """Return the root mean squared error.

    >>> rmse([1.0, 3.0], [1.0, 1.0])
    1.4142135623730951
    """
    return float(np.sqrt(np.mean(np.square(np.subtract(predicted, true)))))


def phm_score(predicted: Sequence[float] | Array, true: Sequence[float] | Array) -> float:
    """Return the score of PHM 2008, a sum over engines: to be too late costs more.

    >>> round(phm_score([110.0, 87.0], [100.0, 100.0]), 3)  # (e - 1) twice
    3.437
    """
    d = np.subtract(predicted, true)
    return float(np.expm1(np.where(d < 0, -d / 13.0, d / 10.0)).sum())


def life(
    engines: Engines,
    *,
    seeds: int = 3,
    quick: bool = False,
    earlier: LifeResult | None = None,
    kept: Callable[[LifeResult], object] | None = None,
    began: Callable[[str], object] | None = None,
) -> LifeResult:
    """Return the cells of all contenders, those of an earlier result as they are.

    Parameters
    ----------
    kept
        Called with the result so far after each cell.
    began
        Called with a line of text as each cell begins.
    """
    result = LifeResult(engines.cycles_left.tolist(), seeds, quick=quick)
    if earlier is not None and earlier.cycles_left == result.cycles_left:
        result = replace(earlier, seeds=max(seeds, earlier.seeds))
    wanted = [
        (name, seed)
        for name in (MEAN, *CONTENDERS, *POOLED, ALONE)
        for seed in range(seeds if name in RANDOM else 1)
    ]
    for k, (name, seed) in enumerate(wanted):
        if any(cell.seed == seed for cell in result.of(name)):
            continue
        if began is not None:
            began(f"{k + 1} of {len(wanted)}: {name}, seed {seed}")
        start = time.perf_counter()
        cell, curves = _cell(name, seed, engines, quick)
        cell = replace(cell, seconds=time.perf_counter() - start)
        result = replace(result, cells=(*result.cells, cell), curves={**result.curves, **curves})
        if kept is not None:
            kept(result)
    return result


def _cell(
    name: str, seed: int, engines: Engines, quick: bool
) -> tuple[LifeCell, dict[str, dict[str, list[float]]]]:
    if name == MEAN:
        targets = np.concatenate([r.y for [r] in engines.train.values() if r.y is not None])
        said = [float(targets.mean())] * len(engines.test)
        return LifeCell(contender=name, seed=seed, predicted=said, columns=0), {}
    if name == ALONE:
        return _alone(engines), {}
    if name in POOLED:
        said, left_out, chosen, columns = pooled_said(name, engines)
        return LifeCell(
            contender=name,
            seed=seed,
            predicted=said,
            columns=columns,
            chosen=chosen,
            left_out=left_out,
        ), {}
    engines = engines.ages if name == AGE else engines
    windows = name.startswith("windows")
    preprocessing = ct.Preprocessing(window=WINDOW, step=1) if windows else ct.Preprocessing()
    options = list(CONTENDERS[name](seed).items())
    runs = {
        text: ct.federate(
            ct.Pipeline(preprocessing, one), engines.train, ridge="leave-one-group-out"
        )
        for text, one in options[: 1 if quick else None]
    }
    best = min(runs, key=lambda text: _left_out(runs[text]))
    run = runs[best]
    cell = LifeCell(
        contender=name,
        seed=seed,
        predicted=_last(run.model, engines),
        columns=run.model.features.n_features,
        chosen=best,
        left_out=_left_out(run),
        pooled=pooled_difference(run.model, engines),
    )
    if name != MAIN:
        return cell, {}
    found = calibrated(run, engines)
    ways = {way: measured(model, engines) for way, model in found.items()}
    curves = _curves(found["bands"], engines) if seed == 0 else {}
    return replace(cell, intervals=ways), curves


def _left_out(run: Run) -> float:
    assert run.model.deviation is not None
    return float(run.model.deviation[0])


def _last(model: ct.Model, engines: Engines) -> list[float]:
    said = [model.predict(one)[-1, 0] for [one] in engines.test.values()]
    return [float(value) for value in np.clip(said, 0.0, CAP)]


def _alone(engines: Engines) -> LifeCell:
    """Return what models of one training engine each say, the mean over these models' errors.

    Their predictions are not averaged: the figure is that of a typical owner without the others.
    """
    run = ct.federate(ct.Pipeline(ct.Preprocessing(), _diagonal(0, 30, 200)), engines.train)
    prepared = [run.model.preprocessing.apply(many)[0].u for many in engines.test.values()]
    z = np.stack([rows[-1] for rows in run.model.features.rows(prepared)])
    errors = []
    for statistics in run.training.state.by_client.values():
        readout = chosen_readout(statistics, "gcv", standardize=True)[1]
        errors.append(np.clip(readout(z)[:, 0], 0.0, CAP))
    true = np.minimum(engines.cycles_left, CAP)
    typical = int(np.argsort([rmse(said, true) for said in errors])[len(errors) // 2])
    return LifeCell(contender=ALONE, seed=0, predicted=errors[typical].tolist(), columns=z.shape[1])


def pooled_difference(model: ct.Model, engines: Engines) -> float:
    """Return how far predictions lie from those of scikit-learn's ridge on all rows in one place.

    Relative to the largest prediction. The scale of the inputs is compared, too.
    """
    from sklearn.linear_model import Ridge

    prepared = model.preprocessing.apply([r for many in engines.train.values() for r in many])
    z = np.concatenate(model.features.rows([one.u for one in prepared]))
    windows = model.preprocessing.window is not None
    y = np.concatenate([np.atleast_2d(one.y) if windows else one.y for one in prepared])  # type: ignore[arg-type]
    spread = z.std(axis=0) if model.features.standardize else np.ones(z.shape[1])
    spread[spread == 0] = 1.0
    pooled = Ridge(alpha=float(np.max(model.readout.ridge)), solver="cholesky").fit(z / spread, y)
    inputs = [piece.u for piece in model.preprocessing.inputs([r for [r] in engines.test.values()])]
    rows = np.concatenate(model.features.rows(inputs))
    theirs, ours = pooled.predict(rows / spread).reshape(-1, 1), model.readout(rows)
    raw = np.concatenate([r.u for [r] in engines.train.values()])
    scale = model.preprocessing.scale
    assert not isinstance(scale, str)
    scaled = np.abs(scale.mean - raw.mean(axis=0)) / np.abs(raw.mean(axis=0))
    return float(max(np.abs(ours - theirs).max() / np.abs(theirs).max(), scaled.max()))


def calibrated(run: Run, engines: Engines) -> dict[str, ct.Model]:
    """Return the model by each way to intervals; "split" trained on three quarters of the engines.

    It is calibrated on the others, one row of each, so that its coverage is promised.
    """
    train = engines.train
    others = dict(sorted(train.items())[::4])
    fewer = {name: many for name, many in train.items() if name not in others}
    ridge = float(np.max(run.model.readout.ridge)) * len(fewer) / len(train)
    split = ct.federate(ct.Pipeline(ct.Preprocessing(), run.model.features), fewer, ridge=ridge)
    return {
        "normal": run.model,
        "one width": ct.calibrate(run, train),
        "bands": ct.calibrate(run, train, cuts=BANDS),
        "one row of each": ct.calibrate(run, train, rows=1),
        "split, one row": ct.calibrate(split.model, others, rows=1),
    }


def measured(model: ct.Model, engines: Engines) -> dict[str, list[float]]:
    """Return by coverage: share of engines inside at the last step, width, and over all steps."""
    found = {}
    said = [model.predict(one) for [one] in engines.test.values()]
    true = [one.y for [one] in engines.test.values() if one.y is not None]
    for coverage in COVERAGES:
        last, every = (
            _inside(model, np.concatenate(pairs[0]), np.concatenate(pairs[1]), coverage)
            for pairs in (
                ([one[-1:] for one in said], [one[-1:] for one in true]),
                (said, true),
            )
        )
        found[f"{coverage:g}"] = [*last, *every]
    return found


def _inside(model: ct.Model, said: Array, true: Array, coverage: float) -> tuple[float, float]:
    """Return the share inside and the mean width; ends are cut off where targets end."""
    low, high = (np.clip(end, 0.0, CAP) for end in model.interval(said, coverage))
    return float(((low <= true) & (true <= high)).mean()), float((high - low).mean())


def _curves(model: ct.Model, engines: Engines) -> dict[str, dict[str, list[float]]]:
    """Return predictions over time with bands of 90 % for four test engines near their end."""
    order = np.argsort(engines.cycles_left)
    names = [list(engines.test)[k] for k in order[:: max(1, len(order) // 8)][:4]]
    found = {}
    for name in names:
        (one,) = engines.test[name]
        assert one.y is not None
        said = model.predict(one)
        low, high = model.interval(said, 0.9)
        parts = {"true": one.y, "said": said, "low": low, "high": high}
        found[name] = {k: np.clip(v[:, 0], 0.0, CAP).round(2).tolist() for k, v in parts.items()}
    return found
