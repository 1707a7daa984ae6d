from catchment_research.chaos import known_series as known_series
from catchment_research.maps import (
    ACTIVATIONS as ACTIVATIONS,
    DenseReservoir as DenseReservoir,
    SpikingReservoir as SpikingReservoir,
    adapt_weights as adapt_weights,
    from_esnfed as from_esnfed,
    graph_metrics as graph_metrics,
    noiseless as noiseless,
    predict_with_feedback as predict_with_feedback,
    with_feedback as with_feedback,
)
from catchment_research.reservoirpy import (
    from_reservoirpy as from_reservoirpy,
    model_from_reservoirpy as model_from_reservoirpy,
)
from catchment_research.rounding import StochasticQuantization as StochasticQuantization

# For the other packages and the tests; may change without notice.
from catchment_research.layers import Layers as Layers
from catchment_research.rounding import (
    packed_codes as packed_codes,
    unpacked_codes as unpacked_codes,
)

__all__ = [
    "ACTIVATIONS",
    "DenseReservoir",
    "SpikingReservoir",
    "StochasticQuantization",
    "adapt_weights",
    "from_esnfed",
    "from_reservoirpy",
    "graph_metrics",
    "known_series",
    "model_from_reservoirpy",
    "noiseless",
    "predict_with_feedback",
    "with_feedback",
]
