"""Federated reservoir computing: clients keep their series, one model learns from all of them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.data.recording import Recording as Recording
    from catchment.engine.contenders import compare as compare
    from catchment.engine.local import fit as fit
    from catchment.features.echo_state.echo_state import EchoState as EchoState
    from catchment.features.echo_state.recipe import Mixture as Mixture
    from catchment.features.echo_state.recipe import Recipe as Recipe
    from catchment.features.echo_state.recipe import Spread as Spread
    from catchment.features.echo_state.reservoir import Reservoir as Reservoir
    from catchment.features.echo_state.state_map import Features as Features
    from catchment.federation.learn.ridge import FederatedRidge as FederatedRidge
    from catchment.federation.measure.evaluation import Evaluation as Evaluation
    from catchment.federation.plan import Plan as Plan
    from catchment.readout.accumulate import accumulate as accumulate
    from catchment.readout.model import Model as Model
    from catchment.readout.model import train as train
    from catchment.readout.readout import Readout as Readout
    from catchment.readout.statistics import RidgeStatistics as RidgeStatistics
    from catchment.readout.storage import load as load
    from catchment.readout.storage import save as save

__version__ = "0.1.0"

_HOME = {
    "Recording": "catchment.data.recording",
    "EchoState": "catchment.features.echo_state.echo_state",
    "Recipe": "catchment.features.echo_state.recipe",
    "Spread": "catchment.features.echo_state.recipe",
    "Mixture": "catchment.features.echo_state.recipe",
    "Reservoir": "catchment.features.echo_state.reservoir",
    "Features": "catchment.features.echo_state.state_map",
    "RidgeStatistics": "catchment.readout.statistics",
    "Readout": "catchment.readout.readout",
    "accumulate": "catchment.readout.accumulate",
    "Model": "catchment.readout.model",
    "train": "catchment.readout.model",
    "Plan": "catchment.federation.plan",
    "FederatedRidge": "catchment.federation.learn.ridge",
    "Evaluation": "catchment.federation.measure.evaluation",
    "fit": "catchment.engine.local",
    "compare": "catchment.engine.contenders",
    "load": "catchment.readout.storage",
    "save": "catchment.readout.storage",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    """Load a public name where it lives, so that `import catchment` stays quick."""
    if name not in _HOME:
        raise AttributeError(f"module 'catchment' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
