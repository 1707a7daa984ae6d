"""A pretrained network inside the graph of a model that uses it as a feature map."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import compose, version_converter

from catchment.features import Encoder, locate
from catchment_edge.onnx.builder import IR_VERSION
from catchment_edge.onnx.values import OPSET, Value

STANDARD = ("", "ai.onnx")


def network_of(settings: Encoder) -> onnx.ModelProto:
    """Return the network of an encoder, brought to the opset of the graph if it is older."""
    network = onnx.load(locate(settings.onnx, settings.sha256), load_external_data=False)
    others = [one.domain for one in network.opset_import if one.domain not in STANDARD]
    outside = [one.name for one in network.graph.initializer if one.data_location]
    if others or outside or network.functions:
        what = f"operators of {others[0]}" if others else "parts outside its graph"
        raise ValueError(
            f"the encoder's network has {what}, which do not fit into the file of a model; export "
            "the network to standard ONNX operators in one file"
        )
    if opset_of(network) >= OPSET:
        return network
    try:
        return version_converter.convert_version(network, OPSET)
    except Exception as error:  # its errors have no other base
        raise ValueError(
            f"the encoder's network has opset {opset_of(network)} and cannot be brought to {OPSET} "
            f"({str(error).splitlines()[0][:200]}); export it again with opset {OPSET} or later"
        ) from error


def opset_of(network: onnx.ModelProto) -> int:
    return int(next(one.version for one in network.opset_import if one.domain in STANDARD))


def encoded(settings: Encoder, u: Value) -> Value:
    """Return the features (B, F) of recordings (B, T, I): one run of the network for each."""
    builder = u.builder
    prefix = builder.fresh("encoder") + "_"
    network = compose.add_prefix(network_of(settings), prefix)
    builder.ir_version = max(builder.ir_version, network.ir_version, IR_VERSION)
    builder.initializers.extend(network.graph.initializer)
    fed = {one.name for one in network.graph.initializer}
    (entry,) = [one.name for one in network.graph.input if one.name not in fed]
    wanted = prefix + settings.output if settings.output else network.graph.output[0].name

    def body(_: list[Value], steps: list[Value]) -> tuple[list[Value], list[Value]]:
        laid = laid_out(settings, steps[0].cast(np.float32))
        builder.scopes[-1].append(onnx.helper.make_node("Identity", [laid.name], [entry]))
        builder.scopes[-1].extend(network.graph.node)
        found = Value(builder, wanted, _kind(network, wanted))
        return [], [row_of(settings, found.cast(builder.real))]

    _, (rows,) = builder.scan(body, [], [u], rank=1)
    return rows.reshape(-1, settings.n_features).clip(-settings.bound, settings.bound)


def _kind(network: onnx.ModelProto, name: str) -> np.dtype[np.generic]:
    one = next(one for one in network.graph.output if one.name == name)
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type))


def laid_out(settings: Encoder, u: Value) -> Value:
    """Return inputs (T, I) as the network wants them."""
    axes = settings.layout.replace("1", "")
    laid = u.transpose(1, 0) if axes == "IT" else u
    sizes = {"T": u.length(0), "I": u.length(1)}
    return laid.reshape(*(1 if axis == "1" else sizes[axis] for axis in settings.layout))


def row_of(settings: Encoder, z: Value) -> Value:
    """Return the features (F,) of one output of the network."""
    if settings.pool == "flatten":
        return z.reshape(settings.n_features)
    several = z.reshape(-1, settings.n_features)
    return several.sum(axis=0) / several.length(0).cast(z.dtype)
