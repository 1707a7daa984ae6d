"""Federated reservoir computing: clients keep their series, one model learns from all of them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.data.sequence import Sequence as Sequence
    from catchment.engine.compare import compare as compare
    from catchment.engine.local import fit as fit
    from catchment.federation.evaluation import Evaluation as Evaluation
    from catchment.federation.plan import Plan as Plan
    from catchment.federation.ridge import FederatedRidge as FederatedRidge
    from catchment.readout.accumulate import accumulate as accumulate
    from catchment.readout.linear import Readout as Readout
    from catchment.readout.model import Model as Model
    from catchment.readout.model import train as train
    from catchment.readout.statistics import RidgeStatistics as RidgeStatistics
    from catchment.readout.storage import load as load
    from catchment.readout.storage import save as save
    from catchment.reservoir.features import Features as Features
    from catchment.reservoir.recipe import Mixture as Mixture
    from catchment.reservoir.recipe import Recipe as Recipe
    from catchment.reservoir.recipe import Spread as Spread
    from catchment.reservoir.reservoir import Reservoir as Reservoir

__version__ = "0.1.0"

_HOME = {
    "Sequence": "catchment.data.sequence",
    "Recipe": "catchment.reservoir.recipe",
    "Spread": "catchment.reservoir.recipe",
    "Mixture": "catchment.reservoir.recipe",
    "Reservoir": "catchment.reservoir.reservoir",
    "Features": "catchment.reservoir.features",
    "RidgeStatistics": "catchment.readout.statistics",
    "Readout": "catchment.readout.linear",
    "accumulate": "catchment.readout.accumulate",
    "Model": "catchment.readout.model",
    "train": "catchment.readout.model",
    "Plan": "catchment.federation.plan",
    "FederatedRidge": "catchment.federation.ridge",
    "Evaluation": "catchment.federation.evaluation",
    "fit": "catchment.engine.local",
    "compare": "catchment.engine.compare",
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
