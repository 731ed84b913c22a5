"""Networks whose weights alone are integers, from ONNX to machine code and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import glow_nb
from glow_nb.base.types import Array, ElementKind
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.ops import DequantizingMatMul

pytestmark = pytest.mark.jit
RANDOM = np.random.default_rng(0)
RUNTIME = "com.microsoft"


def model_of(nodes: list[Any], rows: int, inner: int, depth: int, weights: dict[str, Array]) -> Any:
    """Return the model of *nodes*, which make y ``[rows, depth]`` of x ``[rows, inner]``."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, inner])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, depth])
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(RUNTIME, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def product_of_few_bits(
    bits: int, size: int, rows: int, inner: int, depth: int, *, zeros: bool
) -> Any:
    """Return a model of ``MatMulNBits``."""
    blocks = -(-inner // size)
    weights = {
        "B": RANDOM.integers(0, 256, (depth, blocks, size * bits // 8), np.uint8),
        "s": RANDOM.uniform(0.01, 0.1, depth * blocks).astype(np.float32),
    }
    if zeros:
        weights["z"] = RANDOM.integers(0, 256, depth * -(-blocks * bits // 8), np.uint8)
    sizes: dict[str, Any] = {"K": inner, "N": depth, "bits": bits, "block_size": size}
    node = helper.make_node("MatMulNBits", ["x", *weights], ["y"], domain=RUNTIME, **sizes)
    return model_of([node], rows, inner, depth, weights)


def dequantized_by_blocks(kind: Any, block: int, rows: int, inner: int, depth: int) -> Any:
    """Return a model of a product with weights after a ``DequantizeLinear``."""
    blocks, (least, greatest) = -(-inner // block), ElementKind.of(kind).limits
    weights = {
        "w": RANDOM.integers(least, greatest + 1, (inner, depth)).astype(kind),
        "s": RANDOM.uniform(0.01, 0.1, (blocks, depth)).astype(np.float32),
        "z": RANDOM.integers(least, greatest + 1, (blocks, depth)).astype(kind),
    }
    nodes = [
        helper.make_node("DequantizeLinear", [*weights], ["r"], axis=0, block_size=block),
        helper.make_node("MatMul", ["x", "r"], ["y"]),
    ]
    return model_of(nodes, rows, inner, depth, weights)


def assert_near(found: Array, wanted: Array) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def by_reference(model: Any, feeds: dict[str, Array]) -> Array:
    """Return what ONNX's own implementation computes."""
    result: Any = ReferenceEvaluator(model).run(None, feeds)
    return np.asarray(result[0])


def run(model: Any, feeds: dict[str, Array]) -> tuple[Array, int]:
    """Return the result of the compiled *model*, and the bytes of its constants."""
    net = glow_nb.compile(model, threads=2)
    return net.run(feeds)["y"], net.memory.constant_bytes


@pytest.mark.parametrize(
    ("bits", "size", "inner", "zeros"),
    [
        pytest.param(4, 16, 80, True, marks=pytest.mark.slow),
        (4, 32, 200, False),
        pytest.param(4, 256, 512, True, marks=pytest.mark.slow),
        (8, 32, 96, True),
    ],
)
def test_products_are_those_of_onnxruntime(bits: int, size: int, inner: int, zeros: bool) -> None:
    """The slow run also has blocks of 16 and of 256 weights."""
    for rows in (1, 9):
        model = product_of_few_bits(bits, size, rows, inner, 40, zeros=zeros)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        feeds = {"x": RANDOM.standard_normal((rows, inner)).astype(np.float32)}
        (wanted,) = session.run(None, feeds)
        found, _ = run(model, feeds)
        assert_near(found, wanted)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_scales_may_be_negative_or_zero(bits: int, zeros: bool) -> None:
    """Those of ONNX Runtime's own symmetric quantization are."""
    model = product_of_few_bits(bits, 32, 9, 96, 40, zeros=zeros)
    scales = next(each for each in model.graph.initializer if each.name == "s")
    numbers = numpy_helper.to_array(scales) * np.resize([-1, 0, 1, -1, 1], 120)
    scales.CopyFrom(numpy_helper.from_array(numbers.astype(np.float32), "s"))
    feeds = {"x": RANDOM.standard_normal((9, 96)).astype(np.float32)}
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    found, _ = run(model, feeds)
    assert_near(found, wanted)
    optimized = glow_nb.optimize(import_onnx(model))
    assert [node for node in optimized.nodes if isinstance(node, DequantizingMatMul)]


@pytest.mark.parametrize("kind", [ml_dtypes.int4, ml_dtypes.uint4, np.int8, np.uint8])
@pytest.mark.parametrize(("block", "inner"), [(32, 80), (12, 36)])
def test_blocks_are_those_of_the_reference(kind: Any, block: int, inner: int) -> None:
    model = dequantized_by_blocks(kind, block, 5, inner, 20)
    feeds = {"x": RANDOM.standard_normal((5, inner)).astype(np.float32)}
    wanted = by_reference(model, feeds)
    found, _ = run(model, feeds)
    assert_near(found, wanted)


@pytest.mark.parametrize(
    ("bits", "size", "rows", "zeros"),
    [(2, 32, 1, False), (4, 32, 1, True), (4, 128, 32, False), (8, 64, 32, True)],
)
def test_weights_stay_packed(bits: int, size: int, rows: int, zeros: bool) -> None:
    inner, depth = 512, 256
    model = product_of_few_bits(bits, size, rows, inner, depth, zeros=zeros)
    _, constant_bytes = run(model, {"x": np.zeros((rows, inner), np.float32)})
    packed = inner * depth * bits // 8 + inner // size * depth * (4 + zeros)
    assert packed <= constant_bytes <= 1.15 * packed  # the last panel may be filled up


@pytest.mark.parametrize("block", [32, 64])
def test_an_exported_model_means_the_same(block: int, tmp_path: Path) -> None:
    model = dequantized_by_blocks(ml_dtypes.uint4, block, 3, 64, 20)
    optimized = glow_nb.optimize(import_onnx(model))
    assert [node for node in optimized.nodes if isinstance(node, DequantizingMatMul)]
    path = tmp_path / "exported.onnx"
    glow_nb.export_onnx(optimized, path)
    exported = onnx.load(path)
    assert [node.op_type for node in exported.graph.node] == ["DequantizeLinear", "MatMul"]
    feeds = {"x": RANDOM.standard_normal((3, 64)).astype(np.float32)}
    wanted = by_reference(model, feeds)
    assert_near(by_reference(exported, feeds), wanted)
    assert_near(glow_nb.compile(path).run(feeds)["y"], wanted)
