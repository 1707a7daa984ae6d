from catchment_edge.training.layout import task_of as task_of
from catchment_edge.training.sensor import sensor_bytes as sensor_bytes
from catchment_edge.training.write import (
    TrainingDevice as TrainingDevice,
    device_of as device_of,
    to_device as to_device,
)

# For the other packages and the tests; may change without notice.
from catchment_edge.training.layout import Layout as Layout, SumsForm as SumsForm, Task as Task
from catchment_edge.training.write import lags_device as lags_device

__all__ = [
    "TrainingDevice",
    "device_of",
    "sensor_bytes",
    "task_of",
    "to_device",
]
