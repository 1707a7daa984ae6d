# For the other packages and the tests; may change without notice.
from catchment.features.random_convolutions.hydra import (
    WEIGHT_BITS as WEIGHT_BITS,
    group_channels as group_channels,
    group_list as group_list,
    input_digits as input_digits,
    raw_features as raw_features,
    weights as weights,
)
from catchment.features.random_convolutions.hydra_kernels import KERNELS as KERNELS, TAPS as TAPS
from catchment.features.random_convolutions.minirocket import _schedule as _schedule
from catchment.features.random_convolutions.noise import noise_biases as noise_biases
from catchment.features.random_convolutions.places import (
    channel_subsets as channel_subsets,
    feature_list as feature_list,
)
from catchment.features.random_convolutions.schedule import (
    POSITIONS as POSITIONS,
    Schedule as Schedule,
    scheduled as scheduled,
)

__all__ = []
