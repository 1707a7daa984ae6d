"""Tiny networks in ONNX files, for tests."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, save

WEIGHTS: NDArray[np.float32] = np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32)


def write(
    path: Path,
    *,
    nodes: list[tuple[str, list[str], list[str], dict[str, Any]]] | None = None,
    shape: tuple[int | str, ...] = (1, "T", 3),
    gives: tuple[int | str, ...] = (1, "T", 4),
    kind: int = TensorProto.FLOAT,
    outside: str | None = None,
) -> str:
    """Write relu(x W), or the nodes given, as a network from x to y, and return its SHA-256."""
    usual: list[tuple[str, list[str], list[str], dict[str, Any]]] = [
        ("MatMul", ["x", "W"], ["h"], {}),
        ("Relu", ["h"], ["y"], {}),
    ]
    graph = helper.make_graph(
        [helper.make_node(op, a, b, **settings) for op, a, b, settings in nodes or usual],
        "tiny",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, gives)],
        [] if nodes else [numpy_helper.from_array(WEIGHTS, "W")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    if outside is None:
        path.write_bytes(model.SerializeToString())
    else:
        save(model, path, save_as_external_data=True, location=outside, size_threshold=1)
    return hashlib.sha256(path.read_bytes()).hexdigest()
