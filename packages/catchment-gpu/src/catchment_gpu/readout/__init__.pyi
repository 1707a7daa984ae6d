from catchment_gpu.readout.statistics import (
    device_rows as device_rows,
    outputs_on as outputs_on,
    statistics_of_each as statistics_of_each,
    statistics_on as statistics_on,
)

# For the other packages and the tests; may change without notice.
from catchment_gpu.readout.gram import (
    Products as Products,
    block_length as block_length,
    padded as padded,
)

__all__ = [
    "device_rows",
    "outputs_on",
    "statistics_of_each",
    "statistics_on",
]
