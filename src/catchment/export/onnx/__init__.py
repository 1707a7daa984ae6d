"""Models as ONNX files: from raw samples to scores, in any runtime."""

from __future__ import annotations

from catchment.export.onnx.export import OnnxFile, to_onnx

__all__ = ["OnnxFile", "to_onnx"]
