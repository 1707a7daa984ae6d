from catchment.readout.accumulation import accumulate as accumulate
from catchment.readout.adapt import (
    OnlineAdaptation as OnlineAdaptation,
    SelfTraining as SelfTraining,
    self_train as self_train,
)
from catchment.readout.detector import (
    Detector as Detector,
    MahalanobisDetector as MahalanobisDetector,
)
from catchment.readout.fixed_point import FixedPoint as FixedPoint
from catchment.readout.forecasting import Forecast as Forecast, forecasts as forecasts
from catchment.readout.heads import (
    CosineHead as CosineHead,
    KnownClasses as KnownClasses,
    LDA as LDA,
)
from catchment.readout.intervals import (
    Counts as Counts,
    Intervals as Intervals,
    log_edges as log_edges,
)
from catchment.readout.metrics import (
    ClassCounts as ClassCounts,
    ErrorSums as ErrorSums,
    accuracy as accuracy,
    nrmse as nrmse,
)
from catchment.readout.model import (
    Model as Model,
    OpenSetModel as OpenSetModel,
    PersonalModels as PersonalModels,
    train as train,
)
from catchment.readout.predictor import Predictor as Predictor
from catchment.readout.ridge_choice import (
    RidgeChoice as RidgeChoice,
    choose_by_blocks as choose_by_blocks,
    choose_by_gcv as choose_by_gcv,
)
from catchment.readout.statistics import Readout as Readout, RidgeStatistics as RidgeStatistics
from catchment.readout.yule_walker import (
    Autocovariances as Autocovariances,
    autocovariances as autocovariances,
)

# For the other packages and the tests; may change without notice.
from catchment.readout.accumulation import (
    DEVICE_SEQUENCES as DEVICE_SEQUENCES,
    VARIABLE as VARIABLE,
    accumulate_each as accumulate_each,
    device_for as device_for,
    refuse_device as refuse_device,
    statistics_name as statistics_name,
    torch_form as torch_form,
)
from catchment.readout.adapt import adaptable as adaptable, described as described, needed as needed
from catchment.readout.answers import (
    Table as Table,
    output_names as output_names,
    read_for as read_for,
)
from catchment.readout.exact import (
    Gram as Gram,
    N_PIECES as N_PIECES,
    PIECE as PIECE,
    check_targets as check_targets,
    statistics_of as statistics_of,
    target_pieces as target_pieces,
    whole_weights as whole_weights,
)
from catchment.readout.fixed_point import TARGET_DIGITS as TARGET_DIGITS
from catchment.readout.forecasting import (
    ForecastLimitWarning as ForecastLimitWarning,
    forecast as forecast,
)
from catchment.readout.heads import (
    Head as Head,
    only_targets as only_targets,
    spread_targets as spread_targets,
)
from catchment.readout.integers import Whole as Whole
from catchment.readout.intervals import error_counts as error_counts
from catchment.readout.linear_algebra import (
    cholesky as cholesky,
    cholesky_solve as cholesky_solve,
    inverse_norm as inverse_norm,
    solve_triangular as solve_triangular,
    toeplitz as toeplitz,
)
from catchment.readout.low_rank import (
    independent_rows as independent_rows,
    whole_gram as whole_gram,
)
from catchment.readout.model import (
    fitted_temperature as fitted_temperature,
    load_model as load_model,
    simplex_projection as simplex_projection,
    softmax as softmax,
    solved_model as solved_model,
)
from catchment.readout.ridge_choice import (
    chosen_readout as chosen_readout,
    ridge_grid as ridge_grid,
)
from catchment.readout.solve import (
    ExactSystem as ExactSystem,
    SPECTRUM_FROM as SPECTRUM_FROM,
    Spectrum as Spectrum,
    feature_scale as feature_scale,
    for_raw_features as for_raw_features,
    path_errors as path_errors,
    rescaled as rescaled,
    scale_of as scale_of,
    smallest_ridge as smallest_ridge,
    solve_path as solve_path,
    solve_readout as solve_readout,
    warn_of_edge as warn_of_edge,
)
from catchment.readout.statistics import (
    CONSTANT as CONSTANT,
    SUMS as SUMS,
    StatisticsSet as StatisticsSet,
    matrix_size as matrix_size,
    mirror_lower as mirror_lower,
    pack as pack,
    packed_length as packed_length,
    unpack as unpack,
    unpack_lower as unpack_lower,
)
from catchment.readout.storage import (
    MAX_HEADER as MAX_HEADER,
    Stored as Stored,
    around as around,
    around_of as around_of,
    load as load,
    map_of as map_of,
    save as save,
    stored_map as stored_map,
    to_bytes as to_bytes,
    typed as typed,
)
from catchment.readout.yule_walker import (
    Equations as Equations,
    candidates as candidates,
    choose as choose,
)

__all__ = [
    "Autocovariances",
    "ClassCounts",
    "CosineHead",
    "Counts",
    "Detector",
    "ErrorSums",
    "FixedPoint",
    "Forecast",
    "Intervals",
    "KnownClasses",
    "LDA",
    "MahalanobisDetector",
    "Model",
    "OnlineAdaptation",
    "OpenSetModel",
    "PersonalModels",
    "Predictor",
    "Readout",
    "RidgeChoice",
    "RidgeStatistics",
    "SelfTraining",
    "accumulate",
    "accuracy",
    "autocovariances",
    "choose_by_blocks",
    "choose_by_gcv",
    "forecasts",
    "log_edges",
    "nrmse",
    "self_train",
    "train",
]
