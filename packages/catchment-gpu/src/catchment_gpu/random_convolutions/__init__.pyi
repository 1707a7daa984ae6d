# For the other packages and the tests; may change without notice.
from catchment_gpu.random_convolutions.cuda_convolutions import (
    SOURCE as SOURCE,
    packed_features as packed_features,
)
from catchment_gpu.random_convolutions.hydra import competitions as competitions
from catchment_gpu.random_convolutions.minirocket import counts_above as counts_above

__all__ = []
