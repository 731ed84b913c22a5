"""Small ONNX models with open sizes, and with weights in files of their own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = Sequence[str | int | None]
DATA = "weights.bin"


def scaling(
    path: Path, factor: float, shape: Shape = (1, 2), *, location: str | None = None
) -> None:
    """Write ``y = x * factor``; with a *location*, the factor is in that file beside the model."""
    weight = numpy_helper.from_array(np.full(2, factor, np.float32), "factor")
    if location is not None:
        (path.parent / location).write_bytes(weight.raw_data)
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=location)
    save(path, [helper.make_node("Mul", ["x", "factor"], ["y"])], {"x": shape}, shape, [weight])


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Shape],
    output: Shape,
    weights: Sequence[onnx.TensorProto] = (),
) -> None:
    """Write a model of *nodes* on float *inputs*, with the output ``y``."""
    kind = TensorProto.FLOAT
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", kind, output)],
        list(weights),
    )
    opset = [helper.make_opsetid("", 18)]
    made = helper.make_model(graph, opset_imports=opset, ir_version=9)
    path.write_bytes(made.SerializeToString())
