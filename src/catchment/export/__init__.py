"""Models and their training outside Python: ONNX files, and C for small devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.faces import face

if TYPE_CHECKING:
    # Type checkers do not follow the table below.
    from catchment.export.c.agreement import Agreement as Agreement
    from catchment.export.c.code import CCode as CCode
    from catchment.export.c.code import c_code as c_code
    from catchment.export.c.code import to_c as to_c
    from catchment.export.c.plan import DevicePlan as DevicePlan
    from catchment.export.device.write import to_device as to_device
    from catchment.export.onnx.export import OnnxFile as OnnxFile
    from catchment.export.onnx.export import to_onnx as to_onnx

__all__, __getattr__, __dir__ = face(
    __name__,
    {
        "c.agreement": ["Agreement"],
        "c.code": ["CCode", "c_code", "to_c"],
        "c.plan": ["DevicePlan"],
        "device.write": ["to_device"],
        "onnx.export": ["OnnxFile", "to_onnx"],
    },
)
