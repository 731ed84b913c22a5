"""Signed activations become unsigned ones that stand for the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.backends.cpu.unsigned_activations import unsigned_activations
from glow_nb.base.types import ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.verify import verify

INT8, UINT8 = ElementKind.INT8, ElementKind.UINT8


def optimized(function: Function) -> Function:
    found = unsigned_activations(function)
    verify(found)
    return found


def product(builder: Builder, value: Value, goal: dict[str, Any]) -> Value:
    """Emit a product of the last axis, of size 4, with constant weights."""
    weights = builder.constant("w", (np.arange(16) * 37 % 256 - 128).reshape(4, 4).astype(np.int8))
    scale = builder.constant("s", np.array([0.01, 0.02, 0.005, 0.001], np.float32))
    offset = builder.constant("o", np.array([3, 0, -128, 127], np.int32))
    return builder.emit(ops.QuantizedMatMul(value, weights, scale, offset, **goal))


def random_network(seed: int) -> Function:
    """Return a function of several quantized operators; some tensors are outputs, too."""
    random, builder = np.random.default_rng(seed), Builder()

    def goal() -> dict[str, Any]:
        kind = ElementKind(str(random.choice(["int8", "uint8", "int16"])))
        low, high = kind.limits
        scale = float(2.0 ** random.integers(-6, 1))
        return {"kind": kind, "scale": scale, "offset": int(random.integers(low, high + 1))}

    x = builder.input("x", "float32<3 x 4>")
    signed: dict[str, Any] = {"kind": INT8, "scale": 0.05, "offset": -7}
    known: list[Value] = [builder.emit(ops.Quantize(x, **signed))]
    table = builder.constant("table", random.permutation(256).astype(np.uint8))
    for _ in range(8):
        value = known[random.integers(len(known))]
        match random.integers(7):
            case 0 | 1:
                known.append(product(builder, value, goal()))
            case 2:
                known.append(builder.emit(ops.QuantizedAdd(value, known[0], **goal())))
            case 3:
                known.append(builder.emit(ops.Pad(value, (1, 0, -1, 0), value=0.25)))
            case 4:
                known.append(builder.emit(ops.Broadcast(largest_row(builder, value), (3, 4))))
            case 5 if value.type.kind in (INT8, UINT8):
                known.append(builder.emit(ops.IntLookupTable(value, table, scale=0.1)))
            case _:
                known.append(builder.emit(ops.Rescale(value, **goal())))
    for number in random.choice(len(known), 2, replace=False):
        builder.save(known[number], f"y{number}")
    builder.save(builder.emit(ops.Dequantize(known[-1])), "real")
    return builder.function()


def largest_row(builder: Builder, value: Value) -> Value:
    return builder.emit(ops.ReduceMax(value, axes=(0,)))


@given(st.integers(0, 2**32 - 1))
def test_results_stay(seed: int) -> None:
    function = random_network(seed)
    feeds = {"x": np.random.default_rng(seed).normal(size=(3, 4)).astype(np.float32) * 4}
    expected, found = evaluate(function, feeds), evaluate(optimized(function), feeds)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_what_a_product_reads_becomes_unsigned() -> None:
    builder = Builder()
    x = builder.input("x", "float32<3 x 4>")
    signed: dict[str, Any] = {"kind": INT8, "scale": 0.5, "offset": -128}
    first = builder.emit(ops.Quantize(x, **signed))
    second = product(builder, builder.emit(ops.Transpose(first, (0, 1))), signed)
    builder.save(product(builder, second, {"kind": ElementKind.FLOAT32}), "y")
    found = optimized(builder.function())
    kinds = [node.type.kind for node in found.nodes if node.type.is_quantized]
    assert kinds == [UINT8] * 3
    assert found["quantize"].type.offset == 0
    assert optimized(found) is found


@pytest.mark.parametrize("keeper", ["save", "stored", "input"])
def test_what_others_want_signed_stays(keeper: str) -> None:
    builder = Builder()
    signed: dict[str, Any] = {"kind": INT8, "scale": 0.5, "offset": -3}
    if keeper == "input":
        value: Value = builder.input("x", "int8<3 x 4, scale = 0.5, offset = -3>")
    else:
        value = builder.emit(ops.Quantize(builder.input("x", "float32<3 x 4>"), **signed))
    if keeper == "save":
        builder.save(value, "z")
    if keeper == "stored":
        builder.save(builder.emit(ops.Stored(value)), "z")
    moved = builder.emit(ops.Concat((value, value), axis=0))
    builder.save(product(builder, moved, {"kind": ElementKind.FLOAT32}), "y")
    function = builder.function()
    assert optimized(function) is function
