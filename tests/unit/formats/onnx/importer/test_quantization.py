"""Quantized operators mean what onnxruntime takes them for, before and after the graph passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from glow_nb.base.errors import ModelError, UnsupportedError
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from glow_nb.network.compilation import optimize
from tests.exact_sessions import exact_session
from tests.unit.formats.onnx.importer.models import one, value, weight
from tests.unit.formats.onnx.importer.reference import RANDOM, numbers

RUNTIME = "com.microsoft"
CODES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "float32": TensorProto.FLOAT}


def stored(kind: str, *shape: int) -> Array:
    limits = np.iinfo(kind)
    return RANDOM.integers(limits.min, limits.max, shape, kind, endpoint=True)


def parameters(kind: str, scale: float = 0.05, zero: int = 3) -> list[Array]:
    """Return a scale and a zero point."""
    return [np.array(scale, np.float32), np.array(zero, kind)]


def model_of(
    op: str,
    operands: Sequence[Array | None],
    fed: tuple[int, ...] = (0,),
    *,
    domain: str = RUNTIME,
    result: str = "uint8",
    opset: int = 21,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return a model of one operator, and what is fed to it: the operands of these numbers."""
    names = ["" if array is None else f"x{number}" for number, array in enumerate(operands)]
    arrays = {name: array for name, array in zip(names, operands, strict=True) if array is not None}
    feeds = {f"x{number}": arrays[f"x{number}"] for number in fed}
    inputs = [
        value(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype))
        for name, array in feeds.items()
    ]
    weights = [weight(name, array) for name, array in arrays.items() if name not in feeds]
    node = helper.make_node(op, names, ["y"], domain=domain, **attributes)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(result))
    output = helper.make_tensor_value_info("y", kind, None)
    graph = helper.make_graph([node], "g", inputs, [output], weights)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(RUNTIME, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


def check(proto: onnx.ModelProto, feeds: dict[str, Array], steps: float = 0) -> None:
    """Compare with onnxruntime; results may differ by so many *steps*."""
    session = exact_session(proto.SerializeToString())
    (expected,) = session.run(None, feeds)
    function = import_onnx(proto)
    for which in (function, optimize(function)):
        (found,) = evaluate(which, feeds).values()
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        distance = np.abs(found.astype(np.float64) - expected.astype(np.float64))
        assert distance.max() <= steps


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("shapes", [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((4,), (2, 3, 1))])
def test_arithmetic(op: str, kind: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    a, b = (stored(kind, *shape) for shape in shapes)
    operands = [a, *parameters(kind), b, *parameters(kind, 0.02, 9), *parameters(kind, 0.1, -0)]
    check(*model_of(op, operands, (0, 3), result=kind), steps=1)


@pytest.mark.parametrize(("op", "scale"), [("QLinearSigmoid", 1 / 256), ("QLinearLeakyRelu", 0.07)])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_functions(op: str, scale: float, kind: str) -> None:
    operands = [stored(kind, 3, 50), *parameters(kind), *parameters(kind, scale, 0)]
    check(*model_of(op, operands, result=kind), steps=1)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("last", [0, 1])
def test_global_average(kind: str, last: int) -> None:
    operands = [stored(kind, 2, 3, 5, 4), *parameters(kind), *parameters(kind, 0.04, 1)]
    proto = model_of("QLinearGlobalAveragePool", operands, result=kind, channels_last=last)
    check(*proto, steps=1)


@pytest.mark.parametrize("counted", [0, 1])
def test_average_pool(counted: int) -> None:
    operands = [stored("uint8", 2, 3, 7, 6), *parameters("uint8"), *parameters("uint8", 0.04, 1)]
    window: dict[str, Any] = {"kernel_shape": [3, 2], "pads": [1, 1, 0, 1], "strides": [2, 1]}
    check(*model_of("QLinearAveragePool", operands, count_include_pad=counted, **window), steps=1)


def test_concat_of_several_scales() -> None:
    a, b = stored("uint8", 2, 3), stored("uint8", 2, 5)
    operands = [
        *parameters("uint8", 0.1, 0),
        a,
        *parameters("uint8"),
        b,
        *parameters("uint8", 0.1, 0),
    ]
    check(*model_of("QLinearConcat", operands, (2, 5), axis=-1), steps=1)
    with pytest.raises(ModelError, match="come in threes after the first two, there are 4"):
        import_onnx(model_of("QLinearConcat", operands[:6], (2,), axis=1)[0])


@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("quantized", [True, False])
@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_gemm(transposed: tuple[int, int], quantized: bool, channels: bool, alpha: float) -> None:
    a, b = stored("uint8", 4, 9), stored("int8", 9, 5)
    scale: Array = (
        RANDOM.uniform(0.01, 0.03, 5).astype(np.float32)
        if channels
        else np.array([0.02], np.float32)
    )
    zeros = np.zeros(scale.shape, np.int8)
    operands: list[Array | None] = [
        np.ascontiguousarray(a.T) if transposed[0] else a,
        *parameters("uint8"),
        np.ascontiguousarray(b.T) if transposed[1] else b,
        scale if channels else scale.reshape(()),
        zeros if channels else zeros.reshape(()),
        RANDOM.integers(-999, 999, 5, np.int32),
    ]
    operands += parameters("uint8", 0.2, 128) if quantized else []
    proto, feeds = model_of(
        "QGemm",
        operands,
        result="uint8" if quantized else "float32",
        transA=transposed[0],
        transB=transposed[1],
        alpha=alpha,
    )
    check(proto, feeds, steps=1 if quantized else 1e-4)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 1), (1, 5), (4, 1), (4, 5)])
@pytest.mark.parametrize("channels", [False, True])
def test_addend_of_gemm_broadcasts(shape: tuple[int, ...], channels: bool) -> None:
    scale = np.linspace(0.01, 0.03, 5, dtype=np.float32) if channels else np.float32(0.02)
    weights = [stored("int8", 9, 5), np.asarray(scale), np.zeros(np.shape(scale), np.int8)]
    addend = np.asarray(RANDOM.integers(-9999, 9999, shape, np.int32))
    operands = [stored("uint8", 4, 9), *parameters("uint8"), *weights, addend]
    check(*model_of("QGemm", [*operands, *parameters("uint8", 0.2, 128)]), steps=1)


@pytest.mark.parametrize(
    ("bits", "zeros"),
    [(2, ""), (2, "packed"), (4, ""), (4, "packed"), (4, "float"), (8, ""), (8, "packed")],
)
@pytest.mark.parametrize("inner", [64, 50])
def test_products_of_few_bits(bits: int, inner: int, zeros: str) -> None:
    size, depth = 16, 3
    blocks = -(-inner // size)
    packed = stored("uint8", depth, blocks, size * bits // 8)
    scales = RANDOM.uniform(0.01, 0.1, (depth * blocks)).astype(np.float32)
    offsets: Array | None = None
    if zeros == "packed":
        offsets = stored("uint8", depth * -(-blocks * bits // 8))
    if zeros == "float":
        offsets = RANDOM.uniform(0, 9, depth * blocks).astype(np.float32)
    operands = [numbers(2, 5, inner), packed, scales, offsets]
    proto, feeds = model_of(
        "MatMulNBits", operands, result="float32", K=inner, N=depth, bits=bits, block_size=size
    )
    check(proto, feeds, steps=2e-3)


def test_products_of_three_bits_are_unsupported() -> None:
    operands = [numbers(2, 16), stored("uint8", 3, 1, 6), np.ones(3, np.float32)]
    proto, _ = model_of("MatMulNBits", operands, K=16, N=3, bits=3, block_size=16)
    with pytest.raises(UnsupportedError, match="3-bit weights; 2, 4 and 8 are known"):
        import_onnx(proto)


@pytest.mark.parametrize("kind", ["int16", "uint16"])
def test_sixteen_bits(kind: str) -> None:
    scale = parameters(kind, 0.001, 70)
    real = numbers(3, 40)
    check(*model_of("QuantizeLinear", [real, *scale], result=kind))
    operands = [stored(kind, 3, 40), *scale]
    check(*model_of("DequantizeLinear", operands, result="float32"))


@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("offset", [0, 128])
@pytest.mark.parametrize("group", [1, 2])
def test_convolution_is_exact(channels: bool, offset: int, group: int) -> None:
    x, filter = stored("uint8", 2, 4, 6, 5), stored("uint8", 6, 4 // group, 3, 2)
    scale: Array = (
        RANDOM.uniform(0.01, 0.03, 6).astype(np.float32) if channels else np.array(0.02, np.float32)
    )
    zero = np.full(6, offset, np.uint8) if channels else np.array(offset, np.uint8)
    bias = RANDOM.integers(-999, 999, 6, np.int32)
    operands = [x, *parameters("uint8"), filter, scale, zero, *parameters("uint8", 0.7, 99), bias]
    proto = model_of("QLinearConv", operands, domain="", group=group, pads=[1, 1, 0, 1])
    assert "quantized_convolution" in {node.opcode for node in import_onnx(proto[0]).nodes}
    check(*proto)


@pytest.mark.parametrize(
    ("channels", "shapes"),
    [
        (False, ((4, 7), (7, 5))),
        (True, ((4, 7), (7, 5))),
        (True, ((3, 4, 7), (7, 5))),
        (False, ((3, 4, 7), (3, 7, 5))),
    ],
)
def test_product_is_exact(channels: bool, shapes: tuple[tuple[int, ...], ...]) -> None:
    scale: Array = (
        RANDOM.uniform(0.01, 0.03, 5).astype(np.float32) if channels else np.array(0.02, np.float32)
    )
    zero = np.full(5, 3, np.uint8) if channels else np.array(3, np.uint8)
    a, b = (stored("uint8", *shape) for shape in shapes)
    operands = [a, *parameters("uint8"), b, scale, zero, *parameters("uint8", 0.7, 99)]
    proto = model_of("QLinearMatMul", operands, domain="")
    assert "quantized_mat_mul" in {node.opcode for node in import_onnx(proto[0]).nodes}
    check(*proto)


@pytest.mark.parametrize("shape", [(6, 8), (6, 7)])
def test_blocks_have_scales_of_their_own(shape: tuple[int, int]) -> None:
    scale = RANDOM.uniform(0.1, 0.3, (6, 2)).astype(np.float32)
    zero = stored("int8", 6, 2)
    operands = [stored("int8", *shape), scale, zero]
    proto, feeds = model_of(
        "DequantizeLinear", operands, domain="", result="float32", axis=1, block_size=4
    )
    (found,) = evaluate(import_onnx(proto), feeds).values()
    spread = [np.repeat(array, 4, axis=1)[:, : shape[1]] for array in (scale, zero)]
    wanted = (operands[0].astype(np.float32) - spread[1]) * spread[0]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kinds", [("float16", 1), ("float32", 10)])
@pytest.mark.parametrize("channels", [False, True])
def test_output_kind_of_its_own_is_rounded_to_once(kinds: tuple[str, int], channels: bool) -> None:
    scale, code = kinds
    scales = RANDOM.uniform(0.01, 0.1, 4 if channels else ()).astype(scale)
    operands = [stored("int8", 3, 4), np.asarray(scales)]
    result = str(helper.tensor_dtype_to_np_dtype(code))
    how: dict[str, Any] = {"domain": "", "opset": 23, "output_dtype": code, "result": result}
    check(*model_of("DequantizeLinear", operands, **how))


@pytest.mark.parametrize("channels", [(), (4,)])
def test_zero_point_of_another_kind_is_refused(channels: tuple[int, ...]) -> None:
    scale = np.full(channels, 0.5, np.float32)
    operands = [stored("uint8", 3, 4), scale, np.full(channels, -5, np.int8)]
    proto, _ = model_of("DequantizeLinear", operands, domain="", result="float32")
    with pytest.raises(ModelError, match="zero point %x2 : int8.* must be of the kind of %x0"):
        import_onnx(proto)


@pytest.mark.parametrize(
    ("place", "size", "complaint"),
    [
        (4, 4, "x4 : float32<4> must be one number, or 5 for the filters of %x3"),
        (1, 3, "x1 : float32<3> must be one number, for the whole tensor"),
        (6, 5, "x6 : float32<5> must be one number, for the whole tensor"),
    ],
)
def test_scales_of_a_convolution_that_do_not_fit(place: int, size: int, complaint: str) -> None:
    weights = [stored("int8", 5, 3, 2, 2), *parameters("int8")]
    operands = [stored("uint8", 1, 3, 4, 4), *parameters("uint8"), *weights, *parameters("uint8")]
    operands[place] = np.ones(size, np.float32)
    with pytest.raises(ModelError, match=complaint):
        import_onnx(model_of("QLinearConv", operands, domain="")[0])


def test_scales_of_zero_are_refused() -> None:
    proto, _ = model_of(
        "DequantizeLinear", [stored("int8", 3), *parameters("int8", 0.0)], domain=""
    )
    with pytest.raises(ModelError, match="scale 0.0 must be positive and finite"):
        import_onnx(proto)


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_constants_are_quantized(op: str) -> None:
    kind = "uint8" if op == "QuantizeLinear" else "float32"
    operand = numbers(2, 3) if op == "QuantizeLinear" else stored("uint8", 2, 3)
    model, feeds = model_of(op, [operand, *parameters("uint8")], fed=(), domain="", result=kind)
    check(model, feeds)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_without_a_zero_point_sums_are_of_the_operands_kind(op: str, kind: str) -> None:
    operands = [stored(kind, 4, 4), *parameters(kind)]
    result = np.array(0.1, np.float32)
    check(*model_of(op, [*operands, *operands, result], result=kind), steps=1)


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {}),
        ("QLinearAveragePool", {"kernel_shape": [2, 2]}),
        ("QLinearGlobalAveragePool", {}),
    ],
)
def test_a_zero_point_that_is_left_out_is_0_of_the_operands_kind(
    op: str, attributes: dict[str, Any], kind: str
) -> None:
    operands = [stored(kind, 1, 2, 3, 3), *parameters(kind), np.array(0.05, np.float32)]
    zero = np.array(0, kind)
    left_out, feeds = model_of(op, operands, result=kind, **attributes)
    given, _ = model_of(op, [*operands, zero], result=kind, **attributes)
    (found,), (wanted,) = (evaluate(import_onnx(m), feeds).values() for m in (left_out, given))
    assert found.dtype == np.dtype(kind)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("x", "scale", "zero", "integers"),
    [
        ([0.0, -0.0], 1.0, 0, [0, 0]),
        ([0.0, 1e-44], 1.0, 0, [0, 0]),  # a 255th of it is 0 in float32
        ([-2.0, 2.0, 0.0], 4 / 255, 127, [0, 254, 127]),
        ([1.0], 1 / 255, 0, [255]),
    ],
)
def test_a_dynamic_scale_is_never_zero(
    x: list[float], scale: float, zero: int, integers: list[int]
) -> None:
    array, outputs = np.array(x, np.float32), ("y", "scale", "zero")
    proto = one("DynamicQuantizeLinear", inputs=[value("x", array.shape)], outputs=outputs)
    function = import_onnx(proto)
    for form in (function, optimize(function)):
        found = evaluate(form, {"x": array})
        assert found["y"].tolist() == integers
        assert found["zero"] == zero
        np.testing.assert_array_equal(found["scale"], np.float32(scale))
