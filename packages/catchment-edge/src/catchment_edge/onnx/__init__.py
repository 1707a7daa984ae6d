"""Models as ONNX files: from raw samples to scores, in any runtime."""

from __future__ import annotations

from catchment.errors import MissingExtraError

try:
    import onnx as _  # noqa: F401  # the modules below have it at their tops
except ImportError as error:
    raise MissingExtraError("edge", needed_for="files in ONNX") from error

from catchment_edge.onnx.export import OnnxFile, to_onnx

# For the other packages and the tests; may change without notice.
from catchment_edge.onnx.export import batch_graph as batch_graph

__all__ = ["OnnxFile", "to_onnx"]
