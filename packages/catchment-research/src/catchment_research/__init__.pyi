from catchment_research.chaos import (
    double_scroll as double_scroll,
    kuramoto_sivashinsky as kuramoto_sivashinsky,
    logistic as logistic,
    lorenz96 as lorenz96,
    multiple_sines as multiple_sines,
    rossler as rossler,
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
    "StochasticQuantization",
    "double_scroll",
    "from_reservoirpy",
    "kuramoto_sivashinsky",
    "logistic",
    "lorenz96",
    "model_from_reservoirpy",
    "multiple_sines",
    "rossler",
]
