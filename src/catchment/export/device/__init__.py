"""Devices that train: C that sums a client's rows and answers the rounds of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.export.device.sensor import sensor_bytes as sensor_bytes
    from catchment.export.device.task import task_of as task_of
    from catchment.export.device.write import TrainingDevice as TrainingDevice
    from catchment.export.device.write import device_of as device_of
    from catchment.export.device.write import to_device as to_device

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "sensor": ["sensor_bytes"],
        "task": ["task_of"],
        "write": ["TrainingDevice", "device_of", "to_device"],
    },
)
