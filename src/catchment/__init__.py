"""Closed-form federated learning for time series: many owners keep their recordings, one model
learns from all of them, exactly, in one round.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.calibrating import calibrate as calibrate
    from catchment.data.clients import split as split
    from catchment.data.files import read as read
    from catchment.data.lake.clients import read_lake as read_lake
    from catchment.data.prepare import RAW as RAW
    from catchment.data.prepare import Prepare as Prepare
    from catchment.data.recording import Recording as Recording
    from catchment.engine.contenders import compare as compare
    from catchment.engine.device.device import Device as Device
    from catchment.features.concat import Concat as Concat
    from catchment.features.default_map import AutoMap as AutoMap
    from catchment.features.default_map import DefaultMap as DefaultMap
    from catchment.features.diagonal.diagonal import DiagonalReservoir as DiagonalReservoir
    from catchment.features.echo_state.echo_state import EchoState as EchoState
    from catchment.features.echo_state.recipe import Mixture as Mixture
    from catchment.features.echo_state.recipe import Recipe as Recipe
    from catchment.features.echo_state.recipe import Spread as Spread
    from catchment.features.echo_state.reservoir import Reservoir as Reservoir
    from catchment.features.encoder import Encoder as Encoder
    from catchment.features.nvar import NVAR as NVAR
    from catchment.features.pipeline import Pipeline as Pipeline
    from catchment.features.projected import Projected as Projected
    from catchment.features.random_convolutions.hydra import Hydra as Hydra
    from catchment.features.random_convolutions.minirocket import MiniRocket as MiniRocket
    from catchment.features.random_fourier import RandomFourier as RandomFourier
    from catchment.features.thinned import Thinned as Thinned
    from catchment.features.window_statistics import WindowStatistics as WindowStatistics
    from catchment.features.with_norm import WithNorm as WithNorm
    from catchment.federation.learn.ridge import FederatedRidge as FederatedRidge
    from catchment.federation.limits import Limits as Limits
    from catchment.federation.measure.evaluation import Evaluation as Evaluation
    from catchment.federation.measure.evaluation import Scores as Scores
    from catchment.federation.plan import Plan as Plan
    from catchment.new_classes import join as join
    from catchment.new_classes import retire as retire
    from catchment.new_classes import tell_unknown as tell_unknown
    from catchment.privacy.dp.clipping import Clip as Clip
    from catchment.privacy.dp.noise import GaussianNoise as GaussianNoise
    from catchment.privacy.secure_sum.keys import make_identities as make_identities
    from catchment.privacy.secure_sum.protection import SecureSum as SecureSum
    from catchment.readout.model import Model as Model
    from catchment.readout.readout import Readout as Readout
    from catchment.readout.statistics import RidgeStatistics as RidgeStatistics
    from catchment.readout.storage import save as save
    from catchment.run import Run as Run
    from catchment.storage import load as load
    from catchment.verbs import evaluate as evaluate
    from catchment.verbs import federate as federate
    from catchment.verbs import fit as fit

__version__ = "0.2.0"

_HOME = {
    "fit": "catchment.verbs",
    "federate": "catchment.verbs",
    "evaluate": "catchment.verbs",
    "calibrate": "catchment.calibrating",
    "join": "catchment.new_classes",
    "retire": "catchment.new_classes",
    "tell_unknown": "catchment.new_classes",
    "read": "catchment.data.files",
    "read_lake": "catchment.data.lake.clients",
    "split": "catchment.data.clients",
    "load": "catchment.storage",
    "save": "catchment.readout.storage",
    "compare": "catchment.engine.contenders",
    "Device": "catchment.engine.device.device",
    "Recording": "catchment.data.recording",
    "Prepare": "catchment.data.prepare",
    "RAW": "catchment.data.prepare",
    "EchoState": "catchment.features.echo_state.echo_state",
    "WindowStatistics": "catchment.features.window_statistics",
    "DefaultMap": "catchment.features.default_map",
    "AutoMap": "catchment.features.default_map",
    "WithNorm": "catchment.features.with_norm",
    "Concat": "catchment.features.concat",
    "Hydra": "catchment.features.random_convolutions.hydra",
    "MiniRocket": "catchment.features.random_convolutions.minirocket",
    "Encoder": "catchment.features.encoder",
    "Projected": "catchment.features.projected",
    "DiagonalReservoir": "catchment.features.diagonal.diagonal",
    "NVAR": "catchment.features.nvar",
    "RandomFourier": "catchment.features.random_fourier",
    "Thinned": "catchment.features.thinned",
    "Pipeline": "catchment.features.pipeline",
    "Model": "catchment.readout.model",
    "Run": "catchment.run",
    "Scores": "catchment.federation.measure.evaluation",
    "Plan": "catchment.federation.plan",
    "Limits": "catchment.federation.limits",
    "FederatedRidge": "catchment.federation.learn.ridge",
    "Evaluation": "catchment.federation.measure.evaluation",
    "SecureSum": "catchment.privacy.secure_sum.protection",
    "make_identities": "catchment.privacy.secure_sum.keys",
    "GaussianNoise": "catchment.privacy.dp.noise",
    "Clip": "catchment.privacy.dp.clipping",
    "RidgeStatistics": "catchment.readout.statistics",
    "Readout": "catchment.readout.readout",
    "Recipe": "catchment.features.echo_state.recipe",
    "Spread": "catchment.features.echo_state.recipe",
    "Mixture": "catchment.features.echo_state.recipe",
    "Reservoir": "catchment.features.echo_state.reservoir",
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
