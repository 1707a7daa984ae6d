from catchment_edge.c.adapt import AdaptCode as AdaptCode, adapt_code as adapt_code
from catchment_edge.c.code import (
    CCode as CCode,
    DevicePlan as DevicePlan,
    c_code as c_code,
    to_c as to_c,
)
from catchment_edge.client.device import DeviceHello as DeviceHello, EdgeClient as EdgeClient
from catchment_edge.encoder import Encoder as Encoder
from catchment_edge.onnx.export import OnnxFile as OnnxFile, to_onnx as to_onnx
from catchment_edge.training.write import lags_c_code as lags_c_code, to_device as to_device

# For the other packages and the tests; may change without notice.
from catchment_edge.onnx_session import CPU as CPU, CUDA as CUDA

__all__ = [
    "AdaptCode",
    "CCode",
    "DeviceHello",
    "DevicePlan",
    "EdgeClient",
    "Encoder",
    "OnnxFile",
    "adapt_code",
    "c_code",
    "lags_c_code",
    "to_c",
    "to_device",
    "to_onnx",
]
