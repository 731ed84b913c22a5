"""Resize of axes whose sizes only the run knows, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.hlir.evaluate import evaluate

SIZES = [(8, 8, 16, 16), (7, 9, 21, 5), (5, 6, 6, 11), (1, 1, 3, 3), (4, 4, 1, 2)]


def _model(scales: list[float], **attributes: Any) -> onnx.ModelProto:
    """Return a model that resizes x by *scales*, or as large as z if there are none."""
    names: list[tuple[str, list[str | int]]] = [("x", ["b", 2, "h", "w"])]
    weights: dict[str, Any] = {"scales": np.array(scales, np.float32)}
    nodes, operands = [], ["x", "", "scales"]
    if not scales:
        names.append(("z", [1, 1, "rows", "columns"]))
        weights = {f"n{n}": np.array([n], np.int64) for n in (0, 2, 4)}
        nodes = [
            helper.make_node("Shape", ["z"], ["of_z"]),
            helper.make_node("Shape", ["x"], ["of_x"]),
            helper.make_node("Slice", ["of_x", "n0", "n2"], ["front"]),
            helper.make_node("Slice", ["of_z", "n2", "n4"], ["back"]),
            helper.make_node("Concat", ["front", "back"], ["sizes"], axis=0),
        ]
        operands = ["x", "", "", "sizes"]
    nodes.append(helper.make_node("Resize", operands, ["y"], **attributes))
    graph = helper.make_graph(
        nodes,
        "resize",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in names],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


CASES: list[tuple[list[float], dict[str, str]]] = [
    ([1, 1, 2, 2], {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
                    "nearest_mode": "floor"}),
    ([1, 1, 1.5, 0.5], {"mode": "nearest", "nearest_mode": "round_prefer_ceil"}),
    ([], {"mode": "nearest"}),
    ([], {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
          "nearest_mode": "ceil"}),
    ([1, 1, 3, 2], {"mode": "linear"}),
    ([], {"mode": "linear"}),
    ([], {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    ([], {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}),
    ([1, 1, 2, 0.5], {"mode": "cubic"}),
    ([], {"mode": "cubic", "coordinate_transformation_mode": "align_corners"}),
]  # fmt: skip


@pytest.mark.parametrize(("scales", "attributes"), CASES)
def test_places_are_computed_for_the_sizes_of_the_run(
    scales: list[float], attributes: dict[str, str]
) -> None:
    proto = _model(scales, **attributes)
    function = glow_nb.load(proto, open_sizes=True)
    assert {str(symbol) for symbol in function.sizes} >= {"b", "h", "w"}
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    rng = np.random.default_rng(0)
    for height, width, rows, columns in SIZES:
        feeds = {"x": rng.standard_normal((3, 2, height, width), np.float32)}
        if not scales:
            feeds["z"] = np.zeros((1, 1, rows, columns), np.float32)
        (wanted,) = session.run(None, feeds)
        if wanted.size:
            np.testing.assert_allclose(evaluate(function, feeds)["y"], wanted, atol=1e-5)


KERNELS: list[tuple[list[float], dict[str, Any]]] = [
    ([1, 1, 0.4, 1.5], {"mode": "linear", "antialias": 1}),
    ([1, 1, 0.3, 0.5], {"mode": "cubic", "antialias": 1, "exclude_outside": 1}),
    ([1, 1, 2, 3], {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5}),
    ([1, 1, 2, 0.5], {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}),
    ([1, 1, 2, 0.5], {"mode": "nearest", "coordinate_transformation_mode": "tf_crop_and_resize"}),
]


@pytest.mark.parametrize(("scales", "attributes"), KERNELS)
def test_weights_are_those_of_known_sizes(scales: list[float], attributes: dict[str, Any]) -> None:
    proto = _model(scales, **attributes)
    proto.opset_import[0].version = 18
    proto.graph.node[-1].input[1] = "roi"
    roi = np.array([0, 0, 0.1, -0.2, 1, 1, 0.9, 1.1], np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(roi, "roi"))
    function = glow_nb.load(proto, open_sizes=True)
    rng = np.random.default_rng(0)
    for shape in ((1, 2, 7, 4), (2, 2, 10, 13)):
        feeds = {"x": rng.standard_normal(shape, np.float32)}
        known = glow_nb.load(proto, shapes={"x": shape})
        np.testing.assert_allclose(
            evaluate(function, feeds)["y"], evaluate(known, feeds)["y"], rtol=0, atol=1e-6
        )
