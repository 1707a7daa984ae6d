# For the other packages and the tests; may change without notice.
from catchment.privacy.dp.budget import data_keys as data_keys
from catchment.privacy.dp.gaussian import (
    _heads as _heads,
    concentrated_delta as concentrated_delta,
    concentrated_epsilon as concentrated_epsilon,
    concentrated_multiplier as concentrated_multiplier,
    discrete_gaussian as discrete_gaussian,
    discrete_laplace as discrete_laplace,
    gaussian_delta as gaussian_delta,
    gaussian_epsilon as gaussian_epsilon,
    gaussian_multiplier as gaussian_multiplier,
    log_normal_cdf as log_normal_cdf,
    rounded_normal as rounded_normal,
)
from catchment.privacy.dp.noise import (
    Clipped as Clipped,
    Records as Records,
    square_length as square_length,
    square_steps as square_steps,
    step_name as step_name,
    whole_steps as whole_steps,
)

__all__ = []
