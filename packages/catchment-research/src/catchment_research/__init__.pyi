from catchment_research.chaos import (
    double_scroll as double_scroll,
    kuramoto_sivashinsky as kuramoto_sivashinsky,
    logistic as logistic,
    lorenz96 as lorenz96,
    multiple_sines as multiple_sines,
    rossler as rossler,
    sunspots as sunspots,
)
from catchment_research.feedback import (
    predict_with_feedback as predict_with_feedback,
    with_feedback as with_feedback,
)
from catchment_research.maps import (
    ACTIVATIONS as ACTIVATIONS,
    DenseReservoir as DenseReservoir,
    SpikingReservoir as SpikingReservoir,
    noiseless as noiseless,
)
from catchment_research.matrices import (
    GraphMetrics as GraphMetrics,
    adapt_weights as adapt_weights,
    from_esnfed as from_esnfed,
    graph_metrics as graph_metrics,
)
from catchment_research.reservoirpy import (
    from_reservoirpy as from_reservoirpy,
    model_from_reservoirpy as model_from_reservoirpy,
)
from catchment_research.rounding import StochasticQuantization as StochasticQuantization

# For the other packages and the tests; may change without notice.
from catchment_research.rounding import (
    Float32 as Float32,
    packed_codes as packed_codes,
    unpacked_codes as unpacked_codes,
)

__all__ = [
    "ACTIVATIONS",
    "DenseReservoir",
    "GraphMetrics",
    "SpikingReservoir",
    "StochasticQuantization",
    "adapt_weights",
    "double_scroll",
    "from_esnfed",
    "from_reservoirpy",
    "graph_metrics",
    "kuramoto_sivashinsky",
    "logistic",
    "lorenz96",
    "model_from_reservoirpy",
    "multiple_sines",
    "noiseless",
    "predict_with_feedback",
    "rossler",
    "sunspots",
    "with_feedback",
]
