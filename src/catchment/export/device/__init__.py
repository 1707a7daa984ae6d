"""Devices that train: C that accumulates a client's statistics and answers a plan's rounds."""

from catchment.export.device.sensor import sensor_bytes
from catchment.export.device.task import Task, task_of
from catchment.export.device.write import Device, device_of, to_device

__all__ = ["Device", "Task", "device_of", "sensor_bytes", "task_of", "to_device"]
