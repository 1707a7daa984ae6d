from catchment.features.base import FeatureMap as FeatureMap
from catchment.features.diagonal import DiagonalReservoir as DiagonalReservoir
from catchment.features.echo_state.echo_state import EchoState as EchoState
from catchment.features.echo_state.reservoir import Reservoir as Reservoir
from catchment.features.echo_state.settings import (
    Linspace as Linspace,
    LogUniform as LogUniform,
    LongTail as LongTail,
    MixedActivation as MixedActivation,
    Uniform as Uniform,
)
from catchment.features.hydra import Hydra as Hydra
from catchment.features.minirocket import MiniRocket as MiniRocket
from catchment.features.nvar import NVAR as NVAR
from catchment.features.pipeline import Pipeline as Pipeline
from catchment.features.random_fourier import RandomFourierFeatures as RandomFourierFeatures
from catchment.features.random_projection import RandomProjection as RandomProjection
from catchment.features.recipes import AutoMap as AutoMap, DefaultMap as DefaultMap
from catchment.features.union import AppendNorm as AppendNorm, FeatureUnion as FeatureUnion
from catchment.features.window_statistics import WindowStatistics as WindowStatistics

# For the other packages and the tests; may change without notice.
from catchment.features.base import (
    Bits as Bits,
    LIBRARY as LIBRARY,
    LOCAL as LOCAL,
    OR_WIDER as OR_WIDER,
    digits_after_point as digits_after_point,
    in_fixed_point as in_fixed_point,
    name_of as name_of,
    warn_of_clipping as warn_of_clipping,
)
from catchment.features.nvar import LIMIT as LIMIT, R_DELAY as R_DELAY
from catchment.features.pipeline import suited as suited
from catchment.features.random_fourier import (
    FARTHEST as FARTHEST,
    LARGEST_RELU as LARGEST_RELU,
    R_SINE as R_SINE,
    TOP as TOP,
    TURN as TURN,
    VALUE_DIGITS as VALUE_DIGITS,
    WEIGHT_DIGITS as WEIGHT_DIGITS,
)
from catchment.features.random_projection import hadamard_sums as hadamard_sums
from catchment.features.recipes import (
    building_only as building_only,
    form as form,
    form_maker as form_maker,
    imported as imported,
    restored as restored,
)
from catchment.features.union import (
    DIGITS as DIGITS,
    RANGE as RANGE,
    inputs_with_norm as inputs_with_norm,
)
from catchment.features.window_statistics import (
    BLOCK as BLOCK,
    EDGES as EDGES,
    FRACTION as FRACTION,
    KINDS as KINDS,
    LONGEST as LONGEST,
    LOWEST_LOG as LOWEST_LOG,
    N_BANDS as N_BANDS,
    ORDER as ORDER,
    TABLE_DIGITS as TABLE_DIGITS,
    band_ends as band_ends,
    log2_of as log2_of,
    tables as tables,
)

__all__ = [
    "AppendNorm",
    "AutoMap",
    "DefaultMap",
    "DiagonalReservoir",
    "EchoState",
    "FeatureMap",
    "FeatureUnion",
    "Hydra",
    "Linspace",
    "LogUniform",
    "LongTail",
    "MiniRocket",
    "MixedActivation",
    "NVAR",
    "Pipeline",
    "RandomFourierFeatures",
    "RandomProjection",
    "Reservoir",
    "Uniform",
    "WindowStatistics",
]
