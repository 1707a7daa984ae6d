# For the other packages and the tests; may change without notice.
from catchment.features.diagonal.diagonal import Nonlinearity as Nonlinearity
from catchment.features.diagonal.kernels import LIMIT as LIMIT, STATE_DIGITS as STATE_DIGITS
from catchment.features.diagonal.wiring import (
    BIAS_DIGITS as BIAS_DIGITS,
    EIGENVALUE_DIGITS as EIGENVALUE_DIGITS,
    INPUT_WEIGHT_DIGITS as INPUT_WEIGHT_DIGITS,
    LEAK_DIGITS as LEAK_DIGITS,
    MIX_DIGITS as MIX_DIGITS,
    Wiring as Wiring,
)

__all__ = []
