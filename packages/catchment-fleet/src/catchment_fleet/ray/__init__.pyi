from catchment_fleet.ray.aggregation import ridge_statistics as ridge_statistics
from catchment_fleet.ray.engine import RayEngine as RayEngine, RayWorkers as RayWorkers

# For the other packages and the tests; may change without notice.
from catchment_fleet.ray.start import ready_ray as ready_ray

__all__ = [
    "RayEngine",
    "RayWorkers",
    "ridge_statistics",
]
