from catchment_lab.dynamics import (
    echo_state_check as echo_state_check,
    effective_spectral_radius as effective_spectral_radius,
    kernel_rank as kernel_rank,
    memory_capacity as memory_capacity,
)

__all__ = [
    "echo_state_check",
    "effective_spectral_radius",
    "kernel_rank",
    "memory_capacity",
]
