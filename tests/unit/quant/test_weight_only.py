"""Weights alone as low-bit integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb import quant
from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import DequantizingMatMul, FullyConnected, MatMul
from glow_nb.quant.weight_only import rounded_by_blocks

RANDOM = np.random.default_rng(0)


def network(*, weight: float = 1.0) -> Function:
    """Return a dense layer and a product after it; *weight* is one number of the latter."""
    b = Builder("network")
    x = b.input("x", "float32<3 x 70>")
    first = b.constant("first", RANDOM.standard_normal((70, 24)).astype(np.float32))
    bias = b.constant("bias", RANDOM.standard_normal(24).astype(np.float32))
    second = RANDOM.standard_normal((24, 5)).astype(np.float32)
    second[0, 0] = weight
    layer = b.emit(FullyConnected(x, first, bias), "layer")
    b.save(b.emit(MatMul(layer, b.constant("second", second)), "head"), "y")
    return b.function()


@pytest.mark.parametrize(
    ("kind", "block"), [("int4", 32), ("int8", 32), ("int8", 100), ("int4", 1)]
)
def test_numbers_are_half_a_step_away_at_most(kind: str, block: int) -> None:
    weights = RANDOM.standard_normal((70, 24)).astype(np.float32)
    weights[:32, 3] = 0
    stored, scale = rounded_by_blocks(weights, ElementKind(kind), block)
    steps = scale.repeat(block, axis=0)[:70]
    distance = np.abs(stored.astype(np.float32) * steps - weights)
    assert (distance <= 0.5001 * steps).all()
    assert scale.shape == (-(-70 // block), 24)
    assert not stored.astype(np.float32)[:32, 3].any()


def test_products_get_integers_as_weights() -> None:
    function = network()
    converted = quant.convert_weights(function, weights="int8", block=16)
    products = [n for n in converted.function.nodes if isinstance(n, DequantizingMatMul)]
    assert [n.weights.type.kind for n in products] == [ElementKind.INT8] * 2
    scales = 4 * (5 * 24 + 2 * 5)
    assert converted.float_bytes == 4 * (70 * 24 + 24 * 5)
    assert converted.packed_bytes == converted.float_bytes // 4 + scales
    assert str(converted) == (
        f"network: weights of 2 products: {converted.float_bytes} bytes of floats, "
        f"{converted.packed_bytes} bytes of integers and scales"
    )
    feeds: dict[str, Array] = {"x": RANDOM.standard_normal((3, 70)).astype(np.float32)}
    found, wanted = (evaluate(f, feeds)["y"] for f in (converted.function, function))
    assert np.abs(found - wanted).max() < 0.02 * np.abs(wanted).max()


def test_a_block_may_be_longer_than_any_column() -> None:
    function = network()
    made = [quant.convert_weights(function, block=block) for block in (70, 2**70)]
    assert made[0].packed_bytes == made[1].packed_bytes
    products = [node for node in made[1].function.nodes if isinstance(node, DequantizingMatMul)]
    assert [node.block for node in products] == [70, 24]


def test_weights_of_two_products_count_once() -> None:
    b = Builder()
    x: Value = b.input("x", "float32<2 x 8>")
    weights = b.constant("w", np.eye(8, dtype=np.float32))
    for name in ("y", "z"):
        x = b.emit(MatMul(x, weights))
        b.save(x, name)
    made = quant.convert_weights(b.function(), weights="int8")
    assert (made.quantized, made.float_bytes, made.packed_bytes) == (2, 256, 64 + 32)
    assert len(made.function.constants) == 2


def test_steps_of_the_least_numbers_stay_in_their_kind() -> None:
    least = np.finfo(np.float32).smallest_subnormal
    stored, scale = rounded_by_blocks(np.array([[10], [-10]]) * least, ElementKind.INT4, 2)
    assert (stored.astype(int).tolist(), scale.tolist()) == ([[7], [-7]], [[least]])


@pytest.mark.jit
def test_what_is_returned_compiles() -> None:
    function = quant.convert_weights(network(), weights="int4", block=16).function
    feeds: dict[str, Array] = {"x": RANDOM.standard_normal((3, 70)).astype(np.float32)}
    (wanted,) = evaluate(function, feeds).values()
    (found,) = glow_nb.compile(function).run(feeds).values()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_what_stays_float_is_told() -> None:
    converted = quant.convert_weights(network(weight=np.inf), keep=["layer"])
    assert converted.quantized == 0
    assert [(kept.name, kept.reason) for kept in converted.kept] == [
        ("layer", "keep='layer'"),
        ("head", "a weight is not finite"),
    ]
    assert "float mat_mul head: a weight is not finite" in str(converted)
    b = Builder()
    x = b.input("x", "float32<2 x 2>")
    b.save(b.emit(MatMul(x, x)), "y")
    (kept,) = quant.convert_weights(b.function()).kept
    assert kept.reason == "its weights are not constant"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"weights": "uint8"}, "weights='uint8': choose one of"),
        ({"block": 0}, "block=0: give a number of rows, 1 or more"),
        ({"keep": ["absent"]}, "keep: 'absent' fits no node"),
        ({"keep": 5}, "keep=5: give a list of names or globs of nodes"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        quant.convert_weights(network(), **options)
