"""Draw the pictures of the documentation and the README into docs/images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from catchment import Recipe, Recording, Reservoir
from catchment.data.clients import contiguous
from catchment.data.generators import mackey_glass, narma
from catchment.data.wearables import ACTIVITIES, synthetic_wearables
from catchment.features import EchoStateMap
from catchment.readout.accumulate import accumulate
from catchment.readout.forecast import forecast_direct, horizon_targets
from catchment.readout.metrics import ClassCounts
from catchment.readout.model import train
from catchment.readout.ridge_choice import choose_by_blocks
from catchment.readout.uncertainty import bayesian_readout
from catchment.report import plots

IMAGES = Path(__file__).parent / "images"


def reservoir_pictures() -> None:
    """Draw a small-world reservoir, its spectrum and its states."""
    recipe = Recipe(
        units=80, topology="small_world", connections=4, rewiring=0.15, leak_rate=0.3, seed=2
    )
    reservoir = Reservoir.from_recipe(recipe)
    _save(plots.reservoir_graph(reservoir.layers[0]), "graph")
    _save(plots.spectrum(reservoir.layers[0]), "spectrum")
    u = mackey_glass(400, seed=1) - 0.9
    driven = Reservoir.from_recipe(replace(recipe, input_scaling=2.0, bias_scaling=0.0))
    _save(plots.states(driven.states(u), inputs=u, units=5), "states")


def forecast_picture() -> None:
    """Draw a direct forecast of 60 steps with intervals from the statistics."""
    series = mackey_glass(4000, seed=1)
    past, future = series[:3500], series[3500:3560]
    recipe = Recipe(units=300, leak_rate=0.3, spectral_radius=0.95, bias_scaling=0.2, seed=1)
    features = EchoStateMap(Reservoir.from_recipe(recipe), washout=200)
    horizons = range(1, 61)
    model = train(features, [Recording(past, horizon_targets(past, horizons))], 1e-5)
    assert model.statistics is not None
    lower, upper = bayesian_readout(model.statistics, 1e-5).interval(features(past)[-1:], 0.95)
    figure = plots.forecast(
        forecast_direct(model, past, 60),
        history=past[-140:],
        truth=future,
        lower=lower.T,
        upper=upper.T,
        interval_label="95 % interval",
        names=["Mackey-Glass"],
    )
    _save(figure, "forecast")


def confusion_picture() -> None:
    """Draw the confusion of activities of people that took no part in training."""
    users = synthetic_wearables(n_users=20, windows_per_user=40)
    names = sorted(users)
    seen = [window for name in names[:14] for window in users[name]]
    unseen = [window for name in names[14:] for window in users[name]]
    reservoir = Reservoir.from_recipe(Recipe(units=120, inputs=6, leak_rate=0.3, seed=1))
    model = train(EchoStateMap(reservoir, pool="mean_std"), seen, 1e-2, classes=ACTIVITIES)
    target = np.array([window.y for window in unseen])
    counts = ClassCounts.of_scores(target, model.scores(unseen))
    _save(plots.confusion_matrix(counts.confusion, classes=ACTIVITIES), "confusion")


def ridge_picture() -> None:
    """Draw the error of each ridge on stretches of time left out of the solution."""
    features = EchoStateMap(Reservoir.from_recipe(Recipe(units=100, seed=1)), washout=50)
    parts = contiguous(narma(2000, seed=2), 5).values()
    choice = choose_by_blocks([accumulate(features, part) for part in parts])
    assert choice.block_errors is not None
    assert choice.block_weights is not None
    errors = choice.block_errors[:, :, 0].T / choice.block_weights
    figure = plots.ridge_path(
        choice.ridges, errors, chosen=float(choice.best), error_label="mean squared error"
    )
    _save(figure, "ridge")


def _save(figure: Figure, name: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(IMAGES / f"{name}.png", dpi=90, metadata={"Software": None})


if __name__ == "__main__":
    reservoir_pictures()
    forecast_picture()
    confusion_picture()
    ridge_picture()
