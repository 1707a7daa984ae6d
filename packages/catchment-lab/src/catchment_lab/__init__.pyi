from catchment_lab.dynamics import (
    echo_state_check as echo_state_check,
    effective_spectral_radius as effective_spectral_radius,
    kernel_rank as kernel_rank,
    memory_capacity as memory_capacity,
)

# For the other packages and the tests; may change without notice.
from catchment_lab.estimates import estimate as estimate

__all__ = [
    "echo_state_check",
    "effective_spectral_radius",
    "kernel_rank",
    "memory_capacity",
]
