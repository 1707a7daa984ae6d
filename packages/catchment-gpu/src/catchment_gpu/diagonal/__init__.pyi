# For the other packages and the tests; may change without notice.
from catchment_gpu.diagonal.form import (
    DiagonalForm as DiagonalForm,
    cut_into_lanes as cut_into_lanes,
    memory_of as memory_of,
)
from catchment_gpu.diagonal.steps import Lanes as Lanes, Units as Units

__all__ = []
