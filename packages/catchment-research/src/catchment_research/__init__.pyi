from catchment_research.reservoirpy import (
    from_reservoirpy as from_reservoirpy,
    model_from_reservoirpy as model_from_reservoirpy,
)
from catchment_research.rounding import StochasticQuantization as StochasticQuantization

# For the other packages and the tests; may change without notice.
from catchment_research.rounding import (
    packed_codes as packed_codes,
    unpacked_codes as unpacked_codes,
)

__all__ = [
    "StochasticQuantization",
    "from_reservoirpy",
    "model_from_reservoirpy",
]
