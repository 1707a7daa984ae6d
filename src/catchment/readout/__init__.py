"""The trained part: statistics that add, their solution, and the model that comes of them.

`accumulate` makes `RidgeStatistics` of recordings, `solve` makes a `Readout` of statistics, and a
`Model` is a pipeline with a readout. Beside them: the choice of a ridge, metrics that add over
clients, streams, intervals, and files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.readout.accumulation import accumulate as accumulate
    from catchment.readout.detector import Detector as Detector
    from catchment.readout.factor_accumulation import accumulate_factors as accumulate_factors
    from catchment.readout.factor_choice import (
        choose_by_factor_blocks as choose_by_factor_blocks,
    )
    from catchment.readout.factors import RidgeFactors as RidgeFactors
    from catchment.readout.forecast import forecast_direct as forecast_direct
    from catchment.readout.forecast import horizon_targets as horizon_targets
    from catchment.readout.grid import Grid as Grid
    from catchment.readout.heads import Gaussian as Gaussian
    from catchment.readout.heads import Unit as Unit
    from catchment.readout.metrics import ClassCounts as ClassCounts
    from catchment.readout.metrics import ErrorSums as ErrorSums
    from catchment.readout.metrics import accuracy as accuracy
    from catchment.readout.metrics import nrmse as nrmse
    from catchment.readout.model import Model as Model
    from catchment.readout.model import train as train
    from catchment.readout.normal import NormalModel as NormalModel
    from catchment.readout.online import OnlineRidge as OnlineRidge
    from catchment.readout.online import SlidingWindow as SlidingWindow
    from catchment.readout.personal_models import PersonalModels as PersonalModels
    from catchment.readout.predictor import Predictor as Predictor
    from catchment.readout.quantiles import Counts as Counts
    from catchment.readout.quantiles import log_edges as log_edges
    from catchment.readout.readout import Readout as Readout
    from catchment.readout.ridge_choice import RidgeChoice as RidgeChoice
    from catchment.readout.ridge_choice import choose_by_blocks as choose_by_blocks
    from catchment.readout.ridge_choice import choose_by_gcv as choose_by_gcv
    from catchment.readout.statistics import RidgeStatistics as RidgeStatistics
    from catchment.readout.storage import load_factors as load_factors
    from catchment.readout.storage import load_statistics as load_statistics
    from catchment.readout.storage import save_factors as save_factors
    from catchment.readout.storage import save_statistics as save_statistics
    from catchment.readout.uncertainty import bayesian_readout as bayesian_readout
    from catchment.readout.uncertainty import conformal_quantile as conformal_quantile
    from catchment.readout.uncertainty import conformal_readout as conformal_readout

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "accumulation": ["accumulate"],
        "detector": ["Detector"],
        "factor_accumulation": ["accumulate_factors"],
        "factor_choice": ["choose_by_factor_blocks"],
        "factors": ["RidgeFactors"],
        "forecast": ["forecast_direct", "horizon_targets"],
        "grid": ["Grid"],
        "heads": ["Gaussian", "Unit"],
        "metrics": ["ClassCounts", "ErrorSums", "accuracy", "nrmse"],
        "model": ["Model", "train"],
        "normal": ["NormalModel"],
        "online": ["OnlineRidge", "SlidingWindow"],
        "personal_models": ["PersonalModels"],
        "predictor": ["Predictor"],
        "quantiles": ["Counts", "log_edges"],
        "readout": ["Readout"],
        "ridge_choice": ["RidgeChoice", "choose_by_blocks", "choose_by_gcv"],
        "statistics": ["RidgeStatistics"],
        "storage": ["load_factors", "load_statistics", "save_factors", "save_statistics"],
        "uncertainty": ["bayesian_readout", "conformal_quantile", "conformal_readout"],
    },
)
