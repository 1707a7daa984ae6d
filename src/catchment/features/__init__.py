"""Frozen maps from recordings to feature rows, rebuilt bit for bit from a recipe on every machine.

`EchoState` describes a reservoir and what a readout sees of it; `EchoStateMap` is the map that it
builds as soon as the channels are known. A class of one's own with `n_features`, `bounds` and
`rows` is a map too (`as_map`). `Pipeline` joins a map to the preparation before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.features.concat import Concat as Concat
    from catchment.features.default_map import AutoMap as AutoMap
    from catchment.features.default_map import DefaultMap as DefaultMap
    from catchment.features.diagonal.diagonal import DiagonalReservoir as DiagonalReservoir
    from catchment.features.echo_state.diagnostics import echo_state_check as echo_state_check
    from catchment.features.echo_state.diagnostics import (
        effective_spectral_radius as effective_spectral_radius,
    )
    from catchment.features.echo_state.diagnostics import kernel_rank as kernel_rank
    from catchment.features.echo_state.diagnostics import memory_capacity as memory_capacity
    from catchment.features.echo_state.echo_state import EchoState as EchoState
    from catchment.features.echo_state.plasticity import IntrinsicPlasticity as IntrinsicPlasticity
    from catchment.features.echo_state.plasticity import plasticity_of as plasticity_of
    from catchment.features.echo_state.recipe import Mixture as Mixture
    from catchment.features.echo_state.recipe import Recipe as Recipe
    from catchment.features.echo_state.recipe import Spread as Spread
    from catchment.features.echo_state.reservoir import Reservoir as Reservoir
    from catchment.features.echo_state.state_map import EchoStateMap as EchoStateMap
    from catchment.features.encoder import Encoder as Encoder
    from catchment.features.feature_map import FeatureMap as FeatureMap
    from catchment.features.feature_map import MapDescription as MapDescription
    from catchment.features.layers import Layers as Layers
    from catchment.features.nvar import NVAR as NVAR
    from catchment.features.own import OwnMap as OwnMap
    from catchment.features.own import as_map as as_map
    from catchment.features.pipeline import Pipeline as Pipeline
    from catchment.features.projected import Projected as Projected
    from catchment.features.random_convolutions.hydra import Hydra as Hydra
    from catchment.features.random_convolutions.minirocket import MiniRocket as MiniRocket
    from catchment.features.random_fourier import RandomFourier as RandomFourier
    from catchment.features.thinned import Thinned as Thinned
    from catchment.features.window_statistics import WindowStatistics as WindowStatistics
    from catchment.features.with_norm import WithNorm as WithNorm

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "concat": ["Concat"],
        "default_map": ["AutoMap", "DefaultMap"],
        "echo_state.diagnostics": [
            "echo_state_check",
            "effective_spectral_radius",
            "kernel_rank",
            "memory_capacity",
        ],
        "echo_state.echo_state": ["EchoState"],
        "echo_state.plasticity": ["IntrinsicPlasticity", "plasticity_of"],
        "echo_state.recipe": ["Mixture", "Recipe", "Spread"],
        "echo_state.reservoir": ["Reservoir"],
        "echo_state.state_map": ["EchoStateMap"],
        "encoder": ["Encoder"],
        "feature_map": ["FeatureMap", "MapDescription"],
        "layers": ["Layers"],
        "own": ["OwnMap", "as_map"],
        "diagonal.diagonal": ["DiagonalReservoir"],
        "nvar": ["NVAR"],
        "random_fourier": ["RandomFourier"],
        "thinned": ["Thinned"],
        "pipeline": ["Pipeline"],
        "window_statistics": ["WindowStatistics"],
        "with_norm": ["WithNorm"],
        "random_convolutions.hydra": ["Hydra"],
        "random_convolutions.minirocket": ["MiniRocket"],
        "projected": ["Projected"],
    },
)
