"""Partially trainable networks: the frozen part travels as a seed, only the rest is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.errors import MissingExtraError
from catchment.faces import face

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError("torch", needed_for="partially trainable networks") from error

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.partial.dropout import Dropout as Dropout
    from catchment.partial.freeze import Freeze as Freeze
    from catchment.partial.freeze import PartialNetwork as PartialNetwork
    from catchment.partial.freeze import Share as Share
    from catchment.partial.ftrl import FollowTheLeader as FollowTheLeader
    from catchment.partial.ftrl import schedule_epsilon as schedule_epsilon
    from catchment.partial.ftrl import tree_epsilon as tree_epsilon
    from catchment.partial.local import Examples as Examples
    from catchment.partial.local import LocalSteps as LocalSteps
    from catchment.partial.network_model import Maker as Maker
    from catchment.partial.network_model import NetworkModel as NetworkModel
    from catchment.partial.recordings import RecordingTraining as RecordingTraining
    from catchment.partial.schedule import Schedule as Schedule
    from catchment.partial.suggest import suggest_freeze as suggest_freeze
    from catchment.partial.training import FederatedTraining as FederatedTraining

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "dropout": ["Dropout"],
        "freeze": ["Freeze", "PartialNetwork", "Share"],
        "ftrl": ["FollowTheLeader", "schedule_epsilon", "tree_epsilon"],
        "local": ["Examples", "LocalSteps"],
        "network_model": ["Maker", "NetworkModel"],
        "recordings": ["RecordingTraining"],
        "schedule": ["Schedule"],
        "suggest": ["suggest_freeze"],
        "training": ["FederatedTraining"],
    },
)
