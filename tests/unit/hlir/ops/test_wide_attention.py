"""Attention of 16-bit floats with a float32 result, and where a network is made to compute so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import VerifyError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.formats.onnx.export import export_onnx
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.differentiate import differentiate
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.lower import lower
from glow_nb.hlir.optimize.eliminate_dead_nodes import eliminate_dead_nodes
from glow_nb.hlir.optimize.hoist_roundings import hoist_roundings
from glow_nb.hlir.optimize.raise_attention import raise_attention
from glow_nb.hlir.parse import parse_function

BFLOAT16, FLOAT32 = ElementKind.BFLOAT16, ElementKind.FLOAT32
OF_WEIGHTS = 0.01
"""What rounded weights change: 2^-8 at most, of values that are seldom above 4."""


def numbers(shape: tuple[int, ...], kind: ElementKind, seed: int) -> Array:
    made: Array = np.random.default_rng(seed).standard_normal(shape).astype(kind.dtype)
    return made


def attention(
    kind: ElementKind = BFLOAT16, *, has_loss: bool = False, **options: Any
) -> tuple[Function, dict[str, Array]]:
    """Return an attention of 10 queries and 12 keys of two heads, and its operands."""
    builder = Builder()
    shapes = {"q": (1, 4, 10, 16), "k": (1, 2, 12, 16), "v": (1, 2, 12, 8), "m": (1, 1, 10, 12)}
    feeds = {
        name: numbers(shape, FLOAT32 if name == "m" else kind, seed)
        for seed, (name, shape) in enumerate(shapes.items())
    }
    q, k, v, m = (builder.input(name, TensorType.of(array)) for name, array in feeds.items())
    node = builder.emit(ops.Attention(q, k, v, m, 0.25, **options), "a")
    builder.save(node, "y")
    if has_loss:
        builder.save(builder.emit(ops.ReduceSum(node, (0, 1, 2, 3), keep_dims=False)), "loss")
    return builder.function(), feeds


def result_of(function: Function, feeds: dict[str, Array]) -> Array:
    (found,) = evaluate(function, feeds).values()
    return found


def test_the_result_is_float32_and_rounded_once() -> None:
    function, feeds = attention(wide=True)
    narrow, _ = attention()
    wanted = result_of(function, feeds)
    assert wanted.dtype == np.float32
    np.testing.assert_array_equal(wanted.astype(BFLOAT16.dtype), result_of(narrow, feeds))


def test_operands_of_float32_are_not_wide() -> None:
    with pytest.raises(VerifyError, match="wide products are of bfloat16 or float16"):
        attention(FLOAT32, wide=True)


@pytest.mark.parametrize("rounds", [True, False])
@pytest.mark.parametrize("options", [{}, {"causal": True, "offset": -2, "masked_rows": "zero"}])
def test_what_it_lowers_to_means_the_same(rounds: bool, options: dict[str, Any]) -> None:
    function, feeds = attention(wide=True, rounds_weights=rounds, **options)
    found = result_of(lower(function), feeds)
    tolerance = OF_WEIGHTS if rounds else 1e-5
    np.testing.assert_allclose(found, result_of(function, feeds), rtol=0, atol=tolerance)


def test_text_says_it_where_it_is_so() -> None:
    function, _ = attention(wide=True, rounds_weights=True)
    assert "wide = true, rounds_weights = true}" in str(function)
    assert str(parse_function(str(function))) == str(function)
    assert "wide" not in str(attention()[0])


def test_it_is_exported_as_products_of_float32() -> None:
    function, feeds = attention(wide=True, rounds_weights=True)
    found = result_of(import_onnx(export_onnx(function)), feeds)
    np.testing.assert_allclose(found, result_of(function, feeds), rtol=0, atol=OF_WEIGHTS)


def test_gradients_flow_to_all_operands() -> None:
    function, feeds = attention(wide=True, rounds_weights=True, has_loss=True)
    exact, _ = attention(FLOAT32, has_loss=True)
    gradients = [differentiate(each, ["q", "k", "v"], "loss") for each in (function, exact)]
    wide = {name: array.astype(np.float32) for name, array in feeds.items()}
    found, wanted = (evaluate(f, x) for f, x in zip(gradients, (feeds, wide), strict=True))
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name].astype(np.float32), array, rtol=0, atol=0.1)


@pytest.mark.jit
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_every_backend_computes_it(backend: str) -> None:
    function, feeds = attention(wide=True, rounds_weights=True)
    for threads in (1, 2):
        net = glow_nb.compile(function, backend=backend, threads=threads)
        (found,) = net.run(feeds).values()
        np.testing.assert_allclose(found, result_of(function, feeds), rtol=0, atol=OF_WEIGHTS)


def test_products_with_float32_results_become_wide_attention() -> None:
    builder = Builder()
    q, k, v = (builder.input(name, "bfloat16<2 x 10 x 16>") for name in "qkv")
    turned = builder.emit(ops.Transpose(k, (0, 2, 1)))
    weights = builder.emit(ops.Softmax(builder.emit(ops.MatMul(q, turned, wide=True)), axis=2))
    rounded = builder.emit(ops.ConvertTo(weights, BFLOAT16))
    builder.save(builder.emit(ops.MatMul(rounded, v, wide=True)), "y")
    function = builder.function()
    raised = raise_attention(function)
    assert "attention(" in str(raised)
    assert "rounds_weights = true" in str(raised)
    feeds = {name: numbers((2, 10, 16), BFLOAT16, seed) for seed, name in enumerate("qkv")}
    found, wanted = result_of(raised, feeds), result_of(function, feeds)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=OF_WEIGHTS)


def encoder_part(queries: int) -> Function:
    """Return an attention of float32 whose operands are slices of one product."""
    builder = Builder()
    x = builder.input("x", f"float32<1 x {queries} x 16>")
    weights = builder.constant("w", numbers((16, 96), FLOAT32, 7))
    product = builder.emit(ops.MatMul(x, weights), "product")
    parts: list[Value] = []
    for number in range(3):
        begin, end = (0, 0, 32 * number), (1, queries, 32 * number + 32)
        part = builder.emit(ops.Slice(product, begin, end, (1, 1, 1)))
        parts.append(builder.emit(ops.Reshape(part, (1, queries, 2, 16))))
    layouts: Any = {f"{name}_layout": "tokens" for name in ("query", "key", "value", "result")}
    query, key, value = parts
    node = builder.emit(ops.Attention(query, key, value, None, 0.25, **layouts), "attention")
    joined = builder.emit(ops.Reshape(node, (1, queries, 32)))
    last = builder.constant("o", numbers((32, 16), FLOAT32, 8))
    builder.save(builder.emit(ops.MatMul(joined, last)), "y")
    return builder.function()


@pytest.mark.jit
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_a_network_of_float32_computes_it(backend: str) -> None:
    function = encoder_part(12)
    feeds = {"x": numbers((1, 12, 16), FLOAT32, 9)}
    net = glow_nb.compile(function, backend=backend, threads=1, precision="bfloat16")
    assert {layer.name: layer.kind for layer in net.precision}["attention"] == "bfloat16"
    (found,) = net.run(feeds).values()
    wanted = result_of(function, feeds)
    assert found.dtype == np.float32
    error = np.sqrt(np.square(found - wanted).mean() / np.square(wanted).mean())
    assert 0 < error < 0.02


def test_few_queries_stay_float32() -> None:
    net = glow_nb.compile(encoder_part(2), backend="interpreter", precision="bfloat16")
    (layer,) = (layer for layer in net.precision if layer.name == "attention")
    assert layer.kind == "float32"
    assert layer.reason == "2 rows of queries a key: it waits for memory"


def test_slices_that_are_all_rounded_are_those_of_a_rounded_tensor() -> None:
    builder = Builder()
    x = builder.input("x", "float32<4 x 12>")
    first, second = builder.emit(ops.Split(builder.emit(ops.Tanh(x), "t"), 1, (4, 8))).results
    for name, part in (("y", first), ("z", second)):
        builder.save(builder.emit(ops.ConvertTo(part, BFLOAT16)), name)
    function = builder.function()
    hoisted = hoist_roundings(function)
    assert "convert_to(%t)" in str(hoisted)
    feeds = {"x": numbers((4, 12), FLOAT32, 0)}
    for name, wanted in evaluate(function, feeds).items():
        np.testing.assert_array_equal(evaluate(hoisted, feeds)[name], wanted)


def test_a_tensor_that_is_read_as_float32_too_is_not_rounded() -> None:
    builder = Builder()
    x = builder.input("x", "float32<4 x 12>")
    first, second = builder.emit(ops.Split(builder.emit(ops.Tanh(x), "t"), 1, (4, 8))).results
    builder.save(builder.emit(ops.ConvertTo(first, BFLOAT16)), "y")
    builder.save(second, "z")
    function = builder.function()
    assert hoist_roundings(function) is function


def test_a_small_slice_is_rounded_where_it_is() -> None:
    builder = Builder()
    x = builder.input("x", "float32<9 x 4>")
    last = builder.emit(ops.Slice(x, (8, 0), (9, 4), (1, 1)))
    builder.save(builder.emit(ops.ConvertTo(last, BFLOAT16)), "y")
    function = builder.function()
    assert hoist_roundings(function) is function


def test_attention_rounds_its_result_if_the_one_reader_does() -> None:
    builder = Builder()
    q, k, v = (builder.input(name, "bfloat16<1 x 2 x 9 x 8>") for name in "qkv")
    node = builder.emit(ops.Attention(q, k, v, None, 1.0, wide=True))
    builder.save(builder.emit(ops.ConvertTo(node, BFLOAT16)), "y")
    function = builder.function()
    hoisted = eliminate_dead_nodes(hoist_roundings(function))
    assert [made.wide for made in hoisted.nodes if isinstance(made, ops.Attention)] == [False]
    assert "convert_to(" not in str(hoisted)
    feeds = {name: numbers((1, 2, 9, 8), BFLOAT16, seed) for seed, name in enumerate("qkv")}
    np.testing.assert_array_equal(result_of(hoisted, feeds), result_of(function, feeds))
