"""Temperature up to a day ahead in 15 regions: what calendar, inputs and own readouts add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

import catchment as ct
from catchment import Array
from catchment.engine import run_locally
from catchment.features import FeatureMap
from catchment.federation.learn import PersonalReadouts
from catchment.readout import PersonalModels, scale_of, solve_readout
from reproductions.forecast_data import WASHOUT, only, parts

HORIZONS = (1, 3, 6, 12, 24)
COVERAGES = (0.8, 0.95)
DELAYS = 24
UNITS = 300
RIDGES = (10.0, 100.0, 1000.0, 10000.0)
NAIVE = ("last value", "same hour yesterday")
ALONE = "each region alone, no reservoir"
Message = Mapping[str, Mapping[str, list[ct.Recording]]]


@dataclass(frozen=True)
class Contender:
    """What forecasts: its channels, its calendar and its map; whose readout says which is used."""

    name: str
    channels: tuple[str, ...]
    calendar: tuple[str, ...] = ()
    reservoir: int = 0  # units
    delays: int = DELAYS
    whose: str = "all"  # "all", "own" (personal) or "alone" (local)

    def pipeline(self, seed: int) -> ct.Pipeline:
        """Return preparation and map, neither fitted."""
        preprocessing = ct.Preprocessing(
            horizon=HORIZONS,
            predicted=("t",),
            calendar=self.calendar,  # type: ignore[arg-type]
        )
        lags: FeatureMap = ct.NVAR(self.delays, order=1, washout=WASHOUT)
        if not self.reservoir:
            return ct.Pipeline(preprocessing, lags)
        echo = ct.EchoState(
            self.reservoir,
            spectral_radius=0.9,
            leak_rate=0.3,
            input_scaling=0.3,
            washout=WASHOUT,
            seed=seed,
        )
        return ct.Pipeline(preprocessing, ct.FeatureUnion(lags, echo))


def contenders(channels: tuple[str, ...]) -> tuple[Contender, ...]:
    """Return what is compared, each with one thing more than the one before it."""
    dates = ("hour", "season")
    linear = Contender("+ other channels", channels, dates)
    full = Contender("+ reservoir", channels, dates, UNITS)
    return (
        Contender("lags of the temperature", ("t",), delays=48),
        Contender("+ calendar", ("t",), dates),
        linear,
        full,
        replace(full, name="+ personal readouts", whose="own"),
        replace(full, name="each region alone", whose="alone"),
        replace(linear, name=ALONE, whose="alone"),
    )


@dataclass(frozen=True)
class Told:
    """Errors and intervals of one contender on one region's test weeks, by horizon."""

    squares: list[float]  # mean squared error, K^2
    inside: dict[str, list[float]]  # coverage -> share of the targets inside
    width: dict[str, list[float]]
    rows: int


def weather_cell(
    contender: Contender,
    data: Message,
    seed: int,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, object]:
    """Return what one contender does on the test weeks, and how far it is from the pooled fit."""
    held = {
        name: {part: [only(one, contender.channels) for one in some] for part, some in own.items()}
        for name, own in data.items()
    }
    train = {name: own["train"] for name, own in held.items()}
    later = {name: own["calibration"] for name, own in held.items()}
    if contender.whose == "alone":
        models = {name: learned(contender, seed, {name: train[name]}, later) for name in train}
        ready = {name: ct.calibrate(one, {name: later[name]}) for name, one in models.items()}
        told = {name: judged(ready[name], name, held[name]["test"]) for name in held}
        return cell_of(contender, seed, told, next(iter(models.values())), None)
    model = learned(contender, seed, train, later)
    gap = None
    shared: ct.Model | PersonalModels = model
    if contender.whose == "own":
        shared = personal(model, train)
    else:
        say("the pooled rows")
        gap = largest_gap(model, train, [one for own in held.values() for one in own["test"]])
    say("intervals")
    ready_all = cast("ct.Model | PersonalModels", ct.calibrate(shared, later))
    told = {name: judged(ready_all, name, own["test"]) for name, own in held.items()}
    return cell_of(contender, seed, told, model, gap)


def learned(
    contender: Contender,
    seed: int,
    train: Mapping[str, list[ct.Recording]],
    later: Mapping[str, list[ct.Recording]],
) -> ct.Model:
    """Return the model of one round, its ridge being the best of a few on the calibration weeks."""
    run = ct.federate(contender.pipeline(seed), train, ridge=RIDGES[0], upload="statistics")
    model, total = run.model, run.training.state.total
    scale = scale_of(total, model.features.standardize)
    readouts = [solve_readout(total, ridge, scale=scale) for ridge in RIDGES]
    own = [one for name in train for one in later[name]]
    z = np.concatenate(model.pipeline.rows(own))
    y = np.concatenate([targets_of(one) for one in own])
    known = ~np.isnan(y).any(axis=1)
    errors = [float(((one(z[known]) - y[known]) ** 2).sum()) for one in readouts]
    return replace(model, readout=readouts[int(np.argmin(errors))], statistics=None)


def personal(model: ct.Model, train: Mapping[str, list[ct.Recording]]) -> PersonalModels:
    """Return the shared model with a readout of each region's own beside it."""
    ridge = ct.FederatedRidge(features=model.features, ridge=float(model.readout.ridge))
    plan = ct.Plan(
        algorithm=PersonalReadouts(ridge=ridge), rounds=2, preprocessing=model.preprocessing
    )
    made: PersonalModels = run_locally(plan, train).result
    return made.prepared_by(model.preprocessing, model.channels)


def judged(model: ct.Model | PersonalModels, client: str, test: list[ct.Recording]) -> Told:
    """Return errors and coverage on raw segments, all rows together."""
    outputs = np.concatenate(
        model.outputs_of([piece.recording for piece in model.preprocessing.inputs(test)], client)
    )
    targets = np.concatenate([targets_of(one) for one in test])
    known = ~np.isnan(targets).any(axis=1)
    outputs, targets = outputs[known], targets[known]
    one = model.of(client) if isinstance(model, PersonalModels) else model
    inside, width = {}, {}
    for coverage in COVERAGES:
        low, high = one.interval(outputs, coverage)
        inside[str(coverage)] = ((low <= targets) & (targets <= high)).mean(axis=0).tolist()
        width[str(coverage)] = (high - low).mean(axis=0).tolist()
    squares = ((outputs - targets) ** 2).mean(axis=0).tolist()
    return Told(squares, inside, width, len(targets))


def targets_of(recording: ct.Recording) -> Array:
    """Return the temperature at each horizon (T - washout, H), written out plainly."""
    assert recording.channels is not None
    t = recording.u[:, recording.channels.index("t")]
    later = [np.append(t[h:], np.full(h, np.nan)) for h in HORIZONS]
    return np.stack(later, axis=1)[WASHOUT:]


def naive_cell(name: str, data: Message) -> dict[str, object]:
    """Return what repeating a value gives on the same rows."""
    told = {}
    for client, own in data.items():
        errors = []
        for recording in own["test"]:
            t, y = recording.u[:, 0], targets_of(recording)
            now = np.arange(WASHOUT, len(t))
            back = [0 if name == NAIVE[0] else (-h) % 24 for h in HORIZONS]
            errors.append(np.stack([t[now - b] for b in back], axis=1) - y)
        every = np.concatenate(errors)
        every = every[~np.isnan(every).any(axis=1)]
        told[client] = Told((every**2).mean(axis=0).tolist(), {}, {}, len(every))
    return cell_of(Contender(name, ("t",)), 0, told, None, None)


def largest_gap(
    model: ct.Model, train: Mapping[str, list[ct.Recording]], test: list[ct.Recording]
) -> float:
    """Return the largest relative difference from ridge regression on all rows in one place.

    Rows come from the map; all after it is numpy's, of rows and not of sums.
    """
    every = [one for some in train.values() for one in some]
    z = np.concatenate(model.pipeline.rows(every))
    y = np.concatenate([targets_of(one) for one in every])
    known = ~np.isnan(y).any(axis=1)
    z, y = z[known], y[known]
    center, middle = z.mean(axis=0), y.mean(axis=0)
    spread = z.std(axis=0)
    scale = np.where(spread > 1e-12, spread, 1.0)
    a = (z - center) / scale
    W = np.linalg.solve(
        a.T @ a + float(model.readout.ridge) * np.eye(a.shape[1]), a.T @ (y - middle)
    )
    new = np.concatenate(model.pipeline.rows(test))
    pooled = (new - center) / scale @ W + middle
    return float(np.abs(model.readout(new) - pooled).max() / np.abs(pooled).max())


def regions_parts(found: Mapping[str, ct.Recording]) -> Message:
    """Return the parts of every region."""
    return {name: parts(one) for name, one in found.items()}


def cell_of(
    contender: Contender,
    seed: int,
    told: Mapping[str, Told],
    model: ct.Model | None,
    gap: float | None,
) -> dict[str, object]:
    """Return a cell as it is kept."""
    return {
        "task": "weather",
        "contender": contender.name,
        "seed": seed,
        "features": 0 if model is None else model.features.n_features,
        "ridge": None if model is None else float(model.readout.ridge),
        "gap": gap,
        "by_client": {name: one.__dict__ for name, one in told.items()},
    }
