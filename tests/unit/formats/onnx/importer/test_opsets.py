"""Operators whose form changed between opsets mean what onnxruntime takes them for."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from tests.unit.formats.onnx.importer.models import one, value, weight
from tests.unit.formats.onnx.importer.reference import check, numbers, typed

ATTRIBUTE_FORMS: list[tuple[str, int, tuple[int, ...], dict[str, Any]]] = [
    ("Clip", 7, (2, 3), {"min": -0.5, "max": 0.5}),
    ("Clip", 10, (2, 3), {"max": 0.5}),
    ("Slice", 9, (4, 5, 6), {"starts": [1, -3], "ends": [1000, -1], "axes": [0, 2]}),
    ("Slice", 7, (4, 5, 6), {"starts": [1, 0], "ends": [3, 2]}),
    ("Pad", 7, (2, 3), {"pads": [1, 0, 0, 2], "value": 1.5}),
    ("Pad", 10, (3, 4), {"pads": [1, 2, 1, 1], "mode": "reflect"}),
    ("Pad", 10, (3, 4), {"pads": [1, -1, 0, 1], "mode": "edge"}),
    ("Squeeze", 11, (1, 3, 1, 2), {"axes": [0, -2]}),
    ("Squeeze", 7, (1, 3, 1, 2), {}),
    ("Unsqueeze", 11, (3, 2), {"axes": [0, -1]}),
    ("ReduceSum", 7, (2, 3, 4), {"axes": [0, 2], "keepdims": 0}),
    ("ReduceSum", 11, (2, 3, 4), {}),
    ("ReduceMean", 17, (2, 3, 4), {"axes": [-1]}),
    ("ReduceMax", 12, (2, 3, 4), {"axes": [1], "keepdims": 0}),
    ("ReduceMin", 13, (2, 3, 4), {}),
    ("ReduceProd", 13, (2, 3, 4), {"axes": [0]}),
    ("ReduceL1", 13, (2, 3, 4), {"axes": [0]}),
    ("ReduceL2", 13, (2, 3, 4), {"axes": [0, 1]}),
    ("ReduceSumSquare", 11, (2, 3, 4), {"axes": [0]}),
    ("ReduceLogSumExp", 13, (2, 3, 4), {"axes": [2], "keepdims": 0}),
    ("Softmax", 7, (2, 3, 4), {}),
    ("Softmax", 12, (2, 3, 4), {"axis": 2}),
    ("Softmax", 12, (2, 3, 4), {"axis": 0}),
    ("Softmax", 13, (2, 3, 4), {"axis": 1}),
    ("LogSoftmax", 11, (2, 3, 4), {"axis": -2}),
    ("Hardmax", 11, (2, 3, 4), {"axis": 1}),
    ("Hardmax", 13, (2, 3, 4), {"axis": 1}),
    ("Dropout", 7, (2, 3), {"ratio": 0.3}),
    ("Flatten", 7, (2, 3, 4), {"axis": 0}),
    ("Flatten", 13, (2, 3, 4), {"axis": -1}),
    ("Upsample", 8, (1, 2, 3, 4), {"scales": [1.0, 1.0, 2.0, 3.0], "mode": "nearest"}),
    ("Upsample", 8, (1, 2, 3, 4), {"scales": [1.0, 1.0, 2.0, 2.0], "mode": "linear"}),
    ("Elu", 7, (2, 3), {"alpha": 2.0}),
    ("Celu", 12, (2, 30), {"alpha": 0.5}),
    ("Celu", 12, (2, 30), {"alpha": -1.0}),
    ("Selu", 7, (2, 3), {}),
    ("HardSigmoid", 7, (2, 3), {"alpha": 0.3}),
    ("ThresholdedRelu", 10, (2, 3), {"alpha": 0.2}),
    ("Shrink", 9, (2, 3), {"lambd": 0.3, "bias": 0.1}),
    ("LRN", 7, (1, 7, 3, 3), {"size": 3, "alpha": 0.1, "beta": 0.7, "bias": 1.5}),
    ("LRN", 13, (1, 4, 3, 3), {"size": 5, "alpha": 0.5}),
    ("LpNormalization", 7, (2, 5), {"axis": 1, "p": 1}),
    ("DepthToSpace", 7, (1, 8, 2, 3), {"blocksize": 2}),
    ("DepthToSpace", 11, (1, 8, 2, 3), {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", 7, (1, 2, 4, 6), {"blocksize": 2}),
    ("MeanVarianceNormalization", 13, (2, 3, 4, 4), {}),
    ("GlobalLpPool", 7, (2, 3, 4, 4), {"p": 2}),
    ("LpPool", 11, (1, 2, 6, 6), {"kernel_shape": [3, 2], "strides": [2, 1], "p": 2}),
]


@pytest.mark.parametrize(("op", "opset", "shape", "attributes"), ATTRIBUTE_FORMS)
def test_old_forms(op: str, opset: int, shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    proto = typed(one(op, opset=opset, inputs=[value("x", shape)], **attributes))
    check(proto, numbers(*shape))


@pytest.mark.parametrize("opset", [7, 10, 11])
def test_top_k(opset: int) -> None:
    k = [] if opset < 10 else [weight("k", np.array([2], np.int64))]
    attributes = {"k": 2} if opset < 10 else {}
    operands = ("x",) if opset < 10 else ("x", "k")
    proto = one(
        "TopK",
        operands,
        opset=opset,
        inputs=[value("x", (3, 5))],
        weights=k,
        outputs=("y", "i"),
        axis=0,
        **attributes,
    )
    typed(proto)
    proto.graph.output[1].type.tensor_type.elem_type = onnx.TensorProto.INT64
    check(proto, numbers(3, 5))


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_normalization(opset: int) -> None:
    vectors = {name: numbers(3) for name in "sbm"} | {"v": np.abs(numbers(3))}
    weights = [weight(name, array) for name, array in vectors.items()]
    proto = one(
        "BatchNormalization",
        ("x", "s", "b", "m", "v"),
        opset=opset,
        inputs=[value("x", (2, 3, 4))],
        weights=weights,
        epsilon=0.01,
    )
    check(typed(proto), numbers(2, 3, 4), tolerance=1e-4)


@pytest.mark.parametrize("opset", [7, 13, 18])
@pytest.mark.parametrize("sizes", [None, (1, 4), (2, 3)])
def test_split(opset: int, sizes: tuple[int, ...] | None) -> None:
    rest: dict[str, Any] = {"axis": 1}
    operands: tuple[str, ...] = ("x",)
    if sizes and opset < 13:
        rest["split"] = sizes
    elif sizes:
        operands = ("x", "s")
        rest["weights"] = [weight("s", np.array(sizes, np.int64))]
    elif opset == 18:
        rest["num_outputs"] = 2
    size = 5 if sizes or opset == 18 else 4
    proto = one(
        "Split", operands, opset=opset, inputs=[value("x", (2, size))], outputs=("y", "z"), **rest
    )
    check(typed(proto), numbers(2, size))


def test_negative_steps() -> None:
    lists = {"starts": [-1, 4], "ends": [-1000, 0], "axes": [1, 0], "steps": [-2, -1]}
    weights = [weight(name, np.array(numbers_, np.int64)) for name, numbers_ in lists.items()]
    proto = one("Slice", ("x", *lists), inputs=[value("x", (5, 7))], weights=weights)
    check(typed(proto), numbers(5, 7))


@pytest.mark.parametrize("start", [-1, -8, -9, -(1 << 31)])
@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_slice_backward_from_before_the_axis_is_its_first_element(start: int, size: int) -> None:
    lists = {"starts": [start], "ends": [-(1 << 63)], "axes": [0], "steps": [-1]}
    weights = [weight(name, np.array(numbers_, np.int64)) for name, numbers_ in lists.items()]
    proto = one("Slice", ("x", *lists), inputs=[value("x", (size,))], weights=weights)
    check(typed(proto), numbers(size))


def test_statistics_of_a_layer_norm_are_of_the_kind_to_stash() -> None:
    inputs = [
        value("x", (2, 3), onnx.TensorProto.DOUBLE),
        value("s", (3,), onnx.TensorProto.DOUBLE),
    ]
    outputs = ["y", "mean", "inverse"]
    proto = one("LayerNormalization", ("x", "s"), inputs=inputs, outputs=outputs)
    kinds = [output.type.kind.value for output in import_onnx(proto).outputs]
    assert kinds == ["float64", "float32", "float32"]


@pytest.mark.parametrize("shape", [(3, 0), (0, 3)])
@pytest.mark.parametrize("opset", [12, 13])
def test_hardmax_of_nothing(shape: tuple[int, ...], opset: int) -> None:
    proto = one("Hardmax", opset=opset, axis=1, inputs=[value("x", shape)])
    check(typed(proto), numbers(*shape))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("op", ["Upsample", "Resize"])
def test_resize_by_scales(op: str, mode: str) -> None:
    scales = weight("s", np.array([1, 1, 2, 1.5 if op == "Resize" else 3], np.float32))
    opset = {"Upsample": 9, "Resize": 10}[op]
    proto = one(
        op, ("x", "s"), opset=opset, inputs=[value("x", (1, 2, 3, 4))], weights=[scales], mode=mode
    )
    check(typed(proto), numbers(1, 2, 3, 4))


@pytest.mark.parametrize("size", [4, 7])
@pytest.mark.parametrize("scales", [(0.6, 0.6), (0.6, 2.5), (1.7, 0.3)])
def test_nearest_of_opset_10_is_the_element_behind_on_axes_that_shrink(
    size: int, scales: tuple[float, float]
) -> None:
    weights = [weight("s", np.array([1, 1, *scales], np.float32))]
    shape = (1, 1, size, size)
    check(
        typed(one("Resize", ("x", "s"), opset=10, inputs=[value("x", shape)], weights=weights)),
        numbers(*shape),
    )


@pytest.mark.parametrize("opset", [11, 12, 13])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resize_by_places_that_lie_half_a_pixel_off(opset: int, mode: str) -> None:
    weights = [weight("r", np.zeros(0, np.float32)), weight("s", np.array([1, 0.6], np.float32))]
    proto = one(
        "Resize",
        ("x", "r", "s"),
        opset=opset,
        inputs=[value("x", (2, 7))],
        weights=weights,
        mode=mode,
        coordinate_transformation_mode="tf_half_pixel_for_nn",
    )
    check(typed(proto), numbers(2, 7))


@pytest.mark.parametrize(("opset", "weights"), [(18, 2), (21, 4)])
def test_group_normalization_by_groups(opset: int, weights: int) -> None:
    """Opset 18 has scale and bias for each group; later for each channel."""
    vectors = [weight("s", numbers(weights)), weight("b", numbers(weights))]
    proto = one(
        "GroupNormalization",
        ("x", "s", "b"),
        opset=opset,
        inputs=[value("x", (2, 4, 3))],
        weights=vectors,
        num_groups=2,
    )
    check(typed(proto), numbers(2, 4, 3), tolerance=1e-4)


def test_groups_far_from_zero_do_not_cancel() -> None:
    """The expansion that ONNX has for the operator loses every digit."""
    vectors = [weight("s", np.ones(4, np.float32)), weight("b", np.zeros(4, np.float32))]
    proto = one(
        "GroupNormalization",
        ("x", "s", "b"),
        opset=21,
        inputs=[value("x", (2, 4, 50))],
        weights=vectors,
        num_groups=2,
    )
    x = numbers(2, 4, 50) + np.float32(10_000)
    rows = x.astype(np.float64).reshape(4, 100)
    expected = (rows - rows.mean(1, keepdims=True)) / rows.std(1, keepdims=True)
    (found,) = evaluate(import_onnx(proto), {"x": x}).values()
    np.testing.assert_allclose(found.reshape(4, 100), expected, atol=1e-4)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max"])
def test_scatter_nd(reduction: str) -> None:
    weights = [weight("i", np.array([[1, 0], [-1, 2]], np.int64)), weight("u", numbers(2, 4))]
    proto = one(
        "ScatterND",
        ("x", "i", "u"),
        opset=18,
        inputs=[value("x", (3, 3, 4))],
        weights=weights,
        reduction=reduction,
    )
    check(typed(proto), numbers(3, 3, 4))


@pytest.mark.parametrize(("op", "opset"), [("Scatter", 9), ("ScatterElements", 18)])
@pytest.mark.parametrize("axis", [0, -1])
def test_scatter_elements(op: str, opset: int, axis: int) -> None:
    weights = [weight("i", np.array([[1, -1], [0, 2]], np.int64)), weight("u", numbers(2, 2))]
    proto = one(
        op, ("x", "i", "u"), opset=opset, inputs=[value("x", (3, 3))], weights=weights, axis=axis
    )
    check(typed(proto), numbers(3, 3))
