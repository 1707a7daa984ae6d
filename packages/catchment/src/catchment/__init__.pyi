from catchment.data.clients import split as split
from catchment.data.files import read as read
from catchment.data.preprocessing import Preprocessing as Preprocessing, RAW as RAW
from catchment.data.recording import Recording as Recording
from catchment.engine.contenders import compare as compare
from catchment.features.diagonal import DiagonalReservoir as DiagonalReservoir
from catchment.features.echo_state.echo_state import EchoState as EchoState
from catchment.features.echo_state.reservoir import Reservoir as Reservoir
from catchment.features.echo_state.settings import (
    LogUniform as LogUniform,
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
from catchment.federation.checks import Limits as Limits
from catchment.federation.learn.ridge import FederatedRidge as FederatedRidge
from catchment.federation.measure.evaluation import Evaluation as Evaluation, Scores as Scores
from catchment.federation.plan import Plan as Plan
from catchment.new_classes import (
    add_clients as add_clients,
    reject_unknown as reject_unknown,
    remove_class as remove_class,
)
from catchment.plans.by_files import combine as combine, contribute as contribute
from catchment.privacy.dp.noise import Clip as Clip, GaussianNoise as GaussianNoise
from catchment.privacy.secure_aggregation.keys import generate_keys as generate_keys
from catchment.privacy.secure_aggregation.protection import SecureAggregation as SecureAggregation
from catchment.readout.model import Model as Model
from catchment.readout.statistics import Readout as Readout, RidgeStatistics as RidgeStatistics
from catchment.readout.storage import load as load, save as save
from catchment.verbs import (
    Run as Run,
    calibrate as calibrate,
    evaluate as evaluate,
    federate as federate,
    fit as fit,
)

# For the other packages and the tests; may change without notice.
from catchment.arrays import (
    Array as Array,
    Booleans as Booleans,
    Integers as Integers,
    LARGEST as LARGEST,
    PositiveFloat as PositiveFloat,
    PositiveInt as PositiveInt,
    aligned as aligned,
    as_matrix as as_matrix,
    as_numbers as as_numbers,
    check_type as check_type,
    frozen as frozen,
    refuse_conversions as refuse_conversions,
    refuse_nonfinite as refuse_nonfinite,
)
from catchment.compiling import (
    ALWAYS as ALWAYS,
    Compilations as Compilations,
    ONCE as ONCE,
    njit as njit,
)
from catchment.parallel import (
    available_cores as available_cores,
    count_threads as count_threads,
    ordered_map as ordered_map,
    single_blas_thread as single_blas_thread,
    use_cores as use_cores,
)
from catchment.precompile import compile_kernels as compile_kernels

__version__: str

__all__ = [
    "AppendNorm",
    "AutoMap",
    "Clip",
    "DefaultMap",
    "DiagonalReservoir",
    "EchoState",
    "Evaluation",
    "FeatureUnion",
    "FederatedRidge",
    "GaussianNoise",
    "Hydra",
    "Limits",
    "LogUniform",
    "MiniRocket",
    "MixedActivation",
    "Model",
    "NVAR",
    "Pipeline",
    "Plan",
    "Preprocessing",
    "RAW",
    "RandomFourierFeatures",
    "RandomProjection",
    "Readout",
    "Recording",
    "Reservoir",
    "RidgeStatistics",
    "Run",
    "Scores",
    "SecureAggregation",
    "Uniform",
    "WindowStatistics",
    "__version__",
    "add_clients",
    "calibrate",
    "combine",
    "compare",
    "contribute",
    "evaluate",
    "federate",
    "fit",
    "generate_keys",
    "load",
    "read",
    "reject_unknown",
    "remove_class",
    "save",
    "split",
]
