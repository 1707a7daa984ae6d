from catchment.features.concat import Concat as Concat
from catchment.features.default_map import AutoMap as AutoMap, DefaultMap as DefaultMap
from catchment.features.diagonal.diagonal import DiagonalReservoir as DiagonalReservoir
from catchment.features.echo_state.echo_state import (
    EchoState as EchoState,
    EchoStateMap as EchoStateMap,
)
from catchment.features.echo_state.recipe import (
    Mixture as Mixture,
    Recipe as Recipe,
    Spread as Spread,
)
from catchment.features.echo_state.reservoir import Reservoir as Reservoir
from catchment.features.encoder import Encoder as Encoder
from catchment.features.feature_map import (
    FeatureMap as FeatureMap,
    MapDescription as MapDescription,
)
from catchment.features.layers import Layers as Layers
from catchment.features.nvar import NVAR as NVAR
from catchment.features.own import OwnMap as OwnMap, as_map as as_map
from catchment.features.pipeline import Pipeline as Pipeline
from catchment.features.projected import Projected as Projected
from catchment.features.random_convolutions.hydra import Hydra as Hydra
from catchment.features.random_convolutions.minirocket import MiniRocket as MiniRocket
from catchment.features.random_fourier import RandomFourier as RandomFourier
from catchment.features.thinned import Thinned as Thinned
from catchment.features.window_statistics import WindowStatistics as WindowStatistics
from catchment.features.with_norm import WithNorm as WithNorm

# For the other packages and the tests; may change without notice.
from catchment.features.clipping import warn_of_clipping as warn_of_clipping
from catchment.features.feature_map import Part as Part
from catchment.features.grid import digits_after_point as digits_after_point, on_grid as on_grid
from catchment.features.kept import building_only as building_only, restored as restored
from catchment.features.library import (
    LEARNED as LEARNED,
    LIBRARY as LIBRARY,
    library_class as library_class,
)
from catchment.features.nested import foreseen as foreseen
from catchment.features.nvar import LIMIT as LIMIT
from catchment.features.onnx_session import (
    CPU as CPU,
    CUDA as CUDA,
    locate as locate,
    runs_on_gpus as runs_on_gpus,
)
from catchment.features.own import Adapted as Adapted, imported as imported, name_of as name_of
from catchment.features.pipeline import AnyMap as AnyMap, suited as suited
from catchment.features.projected import hadamard_sums as hadamard_sums
from catchment.features.random_fourier import (
    FARTHEST as FARTHEST,
    LARGEST_RELU as LARGEST_RELU,
    VALUE_DIGITS as VALUE_DIGITS,
    WEIGHT_DIGITS as WEIGHT_DIGITS,
)
from catchment.features.row_kernels import (
    R_DELAY as R_DELAY,
    R_SINE as R_SINE,
    TOP as TOP,
    TURN as TURN,
)
from catchment.features.sizes import (
    gram_bytes as gram_bytes,
    is_large as is_large,
    n_features_of as n_features_of,
    spoken as spoken,
)
from catchment.features.thinned import thinned_recordings as thinned_recordings
from catchment.features.window_kernels import FRACTION as FRACTION, log2_of as log2_of
from catchment.features.window_statistics import (
    BLOCK as BLOCK,
    EDGES as EDGES,
    KINDS as KINDS,
    LONGEST as LONGEST,
    LOWEST_LOG as LOWEST_LOG,
    MANY_CLIPPED as MANY_CLIPPED,
    N_BANDS as N_BANDS,
    ORDER as ORDER,
    TABLE_DIGITS as TABLE_DIGITS,
    band_ends as band_ends,
    tables as tables,
)
from catchment.features.with_norm import DIGITS as DIGITS, RANGE as RANGE

__all__ = [
    "AutoMap",
    "Concat",
    "DefaultMap",
    "DiagonalReservoir",
    "EchoState",
    "EchoStateMap",
    "Encoder",
    "FeatureMap",
    "Hydra",
    "Layers",
    "MapDescription",
    "MiniRocket",
    "Mixture",
    "NVAR",
    "OwnMap",
    "Pipeline",
    "Projected",
    "RandomFourier",
    "Recipe",
    "Reservoir",
    "Spread",
    "Thinned",
    "WindowStatistics",
    "WithNorm",
    "as_map",
]
