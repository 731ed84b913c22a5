"""Operators whose form changed between opsets mean what onnxruntime takes them for."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from glow_nb.errors import ModelError
from glow_nb.hlir.evaluate import evaluate
from glow_nb.importers import import_onnx
from glow_nb.types import ElementKind
from tests.unit.importers.models import one, value, weight

RANDOM = np.random.default_rng(0)


def check(proto: onnx.ModelProto, *feeds: Any, tolerance: float = 1e-5) -> None:
    """Compare the evaluated function with onnxruntime on *feeds*, in the order of the inputs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    names = [entry.name for entry in session.get_inputs()]
    named = dict(zip(names, feeds, strict=True))
    expected = session.run(None, named)
    results = evaluate(import_onnx(proto), named)
    assert list(results) == [entry.name for entry in session.get_outputs()]
    for got, wanted in zip(results.values(), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
        assert got.dtype == wanted.dtype


def typed(proto: onnx.ModelProto, kind: int = onnx.TensorProto.FLOAT) -> onnx.ModelProto:
    """Declare the type of all outputs, as onnxruntime wants it."""
    for info in proto.graph.output:
        info.CopyFrom(helper.make_tensor_value_info(info.name, kind, None))
    return proto


def numbers(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype(np.float32)


INT = onnx.TensorProto.INT64
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
    proto.graph.output[1].type.tensor_type.elem_type = INT
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


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("addend", [None, (5,), (1, 5), (4, 1), (4, 5), (1,), ()])
def test_gemm(opset: int, transposed: tuple[int, int], addend: tuple[int, ...] | None) -> None:
    opset = max(opset, 11) if addend is None else opset  # C is optional since opset 11
    a, b = numbers(4, 3), numbers(3, 5)
    a, b = (a.T if transposed[0] else a), (b.T if transposed[1] else b)
    weights = [weight("b", np.ascontiguousarray(b))]
    operands: tuple[str, ...] = ("x", "b")
    if addend is not None:
        weights.append(weight("c", numbers(*addend) if addend else np.float32(0.5)))
        operands = ("x", "b", "c")
    for alpha, beta in ((1.0, 1.0), (0.5, 2.0)):
        proto = one(
            "Gemm",
            operands,
            opset=opset,
            inputs=[value("x", a.shape)],
            weights=weights,
            transA=transposed[0],
            transB=transposed[1],
            alpha=alpha,
            beta=beta,
        )
        check(typed(proto), np.ascontiguousarray(a))


def test_gemm_adds_a_column_to_a_square() -> None:
    weights = [weight("b", numbers(3, 4)), weight("c", numbers(4, 1))]
    proto = one("Gemm", ("x", "b", "c"), inputs=[value("x", (4, 3))], weights=weights)
    check(typed(proto), numbers(4, 3))


MATMULS = [
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((2, 3), (5, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((6, 5, 2, 3), (1, 1, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
]


@pytest.mark.parametrize(("lhs", "rhs"), MATMULS)
@pytest.mark.parametrize("constant", [False, True])
def test_mat_mul_broadcasts(lhs: tuple[int, ...], rhs: tuple[int, ...], constant: bool) -> None:
    a, b = numbers(*lhs), numbers(*rhs)
    inputs = [value("x", lhs)] if constant else [value("x", lhs), value("w", rhs)]
    weights = [weight("w", b)] if constant else []
    proto = typed(one("MatMul", ("x", "w"), inputs=inputs, weights=weights))
    check(proto, *((a,) if constant else (a, b)))


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 7), (4, 3, 3), {"pads": [1, 0]}),
    ((2, 3, 7, 5), (4, 3, 3, 2), {"strides": [2, 1], "pads": [0, 1, 2, 0]}),
    ((1, 4, 6, 6), (6, 2, 3, 3), {"group": 2, "dilations": [2, 1]}),
    ((1, 4, 6, 6), (8, 1, 3, 3), {"group": 4, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((1, 4, 7, 8), (2, 4, 4, 4), {"auto_pad": "SAME_LOWER"}),
    ((1, 4, 7, 8), (2, 4, 4, 4), {"auto_pad": "VALID", "kernel_shape": [4, 4]}),
    ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), {"strides": [1, 2, 1], "pads": [1, 1, 0, 0, 1, 0]}),
]


@pytest.mark.parametrize(("shape", "filter", "attributes"), CONVOLUTIONS)
@pytest.mark.parametrize("constant", [False, True])
def test_convolution(
    shape: tuple[int, ...], filter: tuple[int, ...], attributes: dict[str, Any], constant: bool
) -> None:
    x, w, b = numbers(*shape), numbers(*filter), numbers(filter[0])
    inputs = [value("x", shape)] + ([] if constant else [value("w", filter)])
    weights = [weight("b", b)] + ([weight("w", w)] if constant else [])
    proto = one("Conv", ("x", "w", "b"), inputs=inputs, weights=weights, **attributes)
    check(typed(proto), *((x,) if constant else (x, w)))


TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 4), (3, 2, 3), {"strides": [2]}),
    ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 3], "pads": [1, 0, 0, 2]}),
    ((1, 4, 4, 4), (4, 2, 2, 3), {"group": 2, "dilations": [2, 1], "output_padding": [0, 0]}),
    ((1, 4, 4, 4), (4, 2, 3, 3), {"strides": [2, 2], "output_padding": [1, 1], "group": 4}),
    ((1, 2, 3, 3), (2, 2, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ((1, 2, 3, 3), (2, 2, 3, 3), {"strides": [3, 2], "output_shape": [10, 8]}),
    ((1, 1, 3, 3), (1, 1, 1, 1), {"pads": [1, 1, 1, 1]}),
]


@pytest.mark.parametrize(("shape", "filter", "attributes"), TRANSPOSED)
def test_transposed_convolution(
    shape: tuple[int, ...], filter: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    proto = one(
        "ConvTranspose",
        ("x", "w"),
        inputs=[value("x", shape)],
        weights=[weight("w", numbers(*filter))],
        **attributes,
    )
    check(typed(proto), numbers(*shape))


POOLS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 2, 7), {"kernel_shape": [3], "strides": [2], "ceil_mode": 1}),
    ((1, 2, 6, 7), {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
    ((1, 2, 6, 7), {"kernel_shape": [3, 3], "strides": [3, 2], "pads": [1, 1, 1, 1]}),
    (
        (1, 2, 5, 5),
        {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    ),
    ((1, 2, 9, 9), {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    ((1, 2, 4, 5, 6), {"kernel_shape": [2, 2, 2], "strides": [1, 2, 2]}),
]


@pytest.mark.parametrize(("shape", "attributes"), POOLS)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "AveragePool with padding"])
def test_pool(op: str, shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    op, _, counts = op.partition(" ")
    rest = dict(attributes, count_include_pad=1) if counts else attributes
    proto = typed(one(op, opset=22, inputs=[value("x", shape)], **rest))
    check(proto, numbers(*shape))


def test_max_pool_places() -> None:
    proto = one(
        "MaxPool",
        inputs=[value("x", (2, 3, 6, 6))],
        outputs=("y", "i"),
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[1, 1, 0, 0],
    )
    typed(proto).graph.output[1].type.tensor_type.elem_type = INT
    check(proto, numbers(2, 3, 6, 6))


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


@pytest.mark.parametrize(
    "equation", ["ij,jk->ik", "bij,bjk", "ijk->ki", "ii->i", "...ij,...jk->...ik"]
)
def test_einsum(equation: str) -> None:
    by_equation: dict[str, list[tuple[int, ...]]] = {
        "ij,jk->ik": [(2, 3), (3, 4)],
        "bij,bjk": [(2, 3, 4), (2, 4, 5)],
        "ijk->ki": [(2, 3, 4)],
        "ii->i": [(3, 3)],
        "...ij,...jk->...ik": [(2, 3, 4), (2, 4, 5)],
    }
    shapes = by_equation[equation]
    names = "xw"[: len(shapes)]
    inputs = [value(name, shape) for name, shape in zip(names, shapes, strict=True)]
    proto = typed(one("Einsum", tuple(names), inputs=inputs, equation=equation))
    check(proto, *(numbers(*shape) for shape in shapes))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("op", ["Upsample", "Resize"])
def test_resize_by_scales(op: str, mode: str) -> None:
    scales = weight("s", np.array([1, 1, 2, 1.5 if op == "Resize" else 3], np.float32))
    opset = {"Upsample": 9, "Resize": 10}[op]
    proto = one(
        op, ("x", "s"), opset=opset, inputs=[value("x", (1, 2, 3, 4))], weights=[scales], mode=mode
    )
    check(typed(proto), numbers(1, 2, 3, 4))


def test_group_normalization_by_groups() -> None:
    """Opset 18 has scale and bias for each group; later for each channel."""
    vectors = [weight("s", numbers(2)), weight("b", numbers(2))]
    proto = one(
        "GroupNormalization",
        ("x", "s", "b"),
        opset=18,
        inputs=[value("x", (2, 4, 3))],
        weights=vectors,
        num_groups=2,
    )
    check(typed(proto), numbers(2, 4, 3), tolerance=1e-4)


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


@pytest.mark.parametrize(
    ("opset", "bounds"),
    [
        (7, {}),
        (10, {"max": 1.0}),
        (11, {}),
        (12, {"min": -1.0}),
        (13, {"max": 1.0}),
        (13, {}),
        (21, {"min": -1.0, "max": 1.0}),
    ],
)
def test_clip_without_a_bound_leaves_no_infinity(opset: int, bounds: dict[str, Any]) -> None:
    shape, weights = (5,), [weight(name, np.float32(bound)) for name, bound in bounds.items()]
    if opset < 11:
        proto = one("Clip", opset=opset, inputs=[value("x", shape)], **bounds)
    else:
        names = ["x", *(name if name in bounds else "" for name in ("min", "max"))]
        proto = one("Clip", names, opset=opset, inputs=[value("x", shape)], weights=weights)
    check(typed(proto), np.array([np.inf, -np.inf, np.nan, 2, -3], np.float32), tolerance=0)


def test_clip_with_a_bound_of_run_time_leaves_no_infinity() -> None:
    inputs = [value("x", (3,)), value("low", ())]
    proto = typed(one("Clip", ("x", "low"), opset=13, inputs=inputs))
    check(proto, np.array([np.inf, -np.inf, 2], np.float32), np.array(1, np.float32), tolerance=0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("opset", [10, 13])
def test_clip_without_a_bound_knows_the_largest_of_its_kind(dtype: str, opset: int) -> None:
    kind = ElementKind(dtype).dtype
    code = helper.np_dtype_to_tensor_dtype(kind)
    function = import_onnx(one("Clip", opset=opset, inputs=[value("x", (2,), code)]))
    got = evaluate(function, {"x": np.array([np.inf, -np.inf], kind)})["y"]
    largest = ml_dtypes.finfo(kind).max  # type: ignore[no-untyped-call]
    assert got.tolist() == [largest, -largest]


@pytest.mark.parametrize("opset", [7, 10, 11, 12])
@pytest.mark.parametrize(
    ("op", "expected"), [("Softmax", 1.0), ("LogSoftmax", 0.0), ("Hardmax", 1.0)]
)
def test_softmax_of_a_vector_is_by_default_that_of_a_column(
    op: str, expected: float, opset: int
) -> None:
    function = import_onnx(one(op, opset=opset, inputs=[value("x", (3,))]))
    got = evaluate(function, {"x": np.array([1, 2, 3], np.float32)})["y"]
    assert got.tolist() == [expected] * 3


@pytest.mark.parametrize("opset", [7, 11, 12, 13])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax_of_a_vector_along_itself(op: str, axis: int, opset: int) -> None:
    check(typed(one(op, opset=opset, inputs=[value("x", (4,))], axis=axis)), numbers(4))


@pytest.mark.parametrize(("opset", "axis"), [(11, 1), (12, 1), (13, 1), (10, 2), (7, -2)])
def test_softmax_along_an_axis_that_is_not_there(opset: int, axis: int) -> None:
    with pytest.raises(ModelError, match=f"axis {axis} is outside a tensor of rank 1"):
        import_onnx(one("Softmax", opset=opset, inputs=[value("x", (4,))], axis=axis))
