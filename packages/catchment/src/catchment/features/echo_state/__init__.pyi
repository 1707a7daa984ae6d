# For the other packages and the tests; may change without notice.
from catchment.features.echo_state.activations import (
    GRID_MATH as GRID_MATH,
    grid_linear as grid_linear,
    grid_sigmoid as grid_sigmoid,
    grid_sin as grid_sin,
    grid_tanh as grid_tanh,
    rounder as rounder,
)
from catchment.features.echo_state.advance import (
    DENSE_FROM as DENSE_FROM,
    Program as Program,
    Rows as Rows,
    SideBySide as SideBySide,
    Step as Step,
    aligned as aligned,
    padded_lanes as padded_lanes,
    preferred_lanes as preferred_lanes,
    programs_on_grid as programs_on_grid,
)
from catchment.features.echo_state.alignment import (
    aligned_reservoir as aligned_reservoir,
    with_own_seed as with_own_seed,
)
from catchment.features.echo_state.batches import (
    Batch as Batch,
    Lane as Lane,
    SegmentsError as SegmentsError,
    plan_batches as plan_batches,
    run_batch as run_batch,
)
from catchment.features.echo_state.build import fingerprint as fingerprint
from catchment.features.echo_state.echo_state import (
    AUTO_GRID as AUTO_GRID,
    PER_RECORDING as PER_RECORDING,
    PER_STEP as PER_STEP,
)
from catchment.features.echo_state.kernels import (
    DOT_MATH as DOT_MATH,
    RELU as RELU,
    SAFE_MATH as SAFE_MATH,
    SIGMOID as SIGMOID,
    SIN as SIN,
    TANH as TANH,
    advance_units as advance_units,
    fast_tanh as fast_tanh,
    row_product as row_product,
)
from catchment.features.echo_state.pooling import POOLS as POOLS, Pool as Pool
from catchment.features.echo_state.random_words import (
    Purpose as Purpose,
    Words as Words,
    distinct as distinct,
    integers as integers,
    log_uniform as log_uniform,
    orthogonal as orthogonal,
    permutation as permutation,
    signs as signs,
    uniform as uniform,
)
from catchment.features.echo_state.segments import (
    CLOSE as CLOSE,
    best_segments as best_segments,
    cut_places as cut_places,
    joints_agree as joints_agree,
    segment_starts as segment_starts,
)
from catchment.features.echo_state.settings import (
    Mixture as Mixture,
    Spread as Spread,
    real as real,
    whole as whole,
)
from catchment.features.echo_state.spectral import (
    common_radius as common_radius,
    rounded_radius as rounded_radius,
    spectral_radius as spectral_radius,
)
from catchment.features.echo_state.topology import (
    TOPOLOGIES as TOPOLOGIES,
    Wiring as Wiring,
    known_radius as known_radius,
    raw_matrix as raw_matrix,
)
from catchment.features.echo_state.weights import (
    ACTIVATIONS as ACTIVATIONS,
    LayerWeights as LayerWeights,
    SparseRows as SparseRows,
)
from catchment.features.echo_state.whole_pooling import Totals as Totals
from catchment.features.echo_state.whole_weights import (
    BOUNDED as BOUNDED,
    LINEAR_BOUND as LINEAR_BOUND,
    MOST_WEIGHT_DIGITS as MOST_WEIGHT_DIGITS,
    ROUND as ROUND,
    rounded as rounded,
)

__all__ = []
