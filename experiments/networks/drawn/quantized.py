"""Operators on integers that stand for numbers."""

from __future__ import annotations

import numpy as np

from experiments.networks.drawn.drawing import Drawing, kind


def _scale(g: Drawing, *shape: int) -> str:
    return g.constant(g.numbers.uniform(0.01, 0.05, shape).astype(np.float32))


def _zero(g: Drawing, kind: str, *shape: int) -> str:
    low = 0 if kind == "int8" else 100
    return g.constant(g.numbers.integers(low, low + 20, shape).astype(kind))


def _feature_map(g: Drawing) -> list[int]:
    return [1, g.whole(8, 192), g.whole(7, 56), g.whole(7, 56)]


@kind
def quantize(g: Drawing) -> str:
    kind = g.one_of("uint8", "uint8", "int8")
    x = g.input(*_feature_map(g))
    return str(g.node("QuantizeLinear", x, _scale(g), _zero(g, kind)))


@kind
def quantize_by_channel(g: Drawing) -> str:
    shape, kind = _feature_map(g), g.one_of("uint8", "int8")
    operands = _scale(g, shape[1]), _zero(g, kind, shape[1])
    return str(g.node("QuantizeLinear", g.input(*shape), *operands, axis=1))


@kind
def dequantize(g: Drawing) -> str:
    kind = g.one_of("uint8", "int8", "int32")
    operands = [_scale(g)] if kind == "int32" else [_scale(g), _zero(g, kind)]
    return str(g.node("DequantizeLinear", g.input(*_feature_map(g), kind=kind), *operands))


@kind
def dequantize_by_channel(g: Drawing) -> str:
    shape, kind, axis = _feature_map(g), g.one_of("uint8", "int8"), g.one_of(1, 1, 3)
    operands = [_scale(g, shape[axis])]
    if g.chance(0.6):
        operands.append(_zero(g, kind, shape[axis]))
    return str(g.node("DequantizeLinear", g.input(*shape, kind=kind), *operands, axis=axis))


@kind
def dynamic_quantization(g: Drawing) -> list[str]:
    x = g.input(g.whole(16, 256), g.whole(64, 1024))
    return list(g.node("DynamicQuantizeLinear", x, results=3))


@kind
def quantized_convolution(g: Drawing) -> str:
    channels, depth, size = g.whole(16, 128), g.whole(16, 128), g.whole(7, 40)
    kernel = g.one_of(1, 3, 3)
    x = g.input(1, channels, size, size, kind="uint8")
    weights = g.constant(g.array(depth, channels, kernel, kernel, kind="int8"))
    none = g.constant(np.array(0, np.int8))
    return str(
        g.node(
            "QLinearConv", x, _scale(g), _zero(g, "uint8"), weights, _scale(g), none,
            g.constant(np.array(2.0, np.float32)), _zero(g, "uint8"), pads=[kernel // 2] * 4,
        )
    )  # fmt: skip


@kind
def quantized_depthwise_convolution(g: Drawing) -> str:
    channels, size = g.whole(16, 256), g.whole(7, 56)
    x = g.node(
        "DequantizeLinear",
        g.input(1, channels, size, size, kind="uint8"),
        _scale(g),
        _zero(g, "uint8"),
    )
    codes = g.constant(g.array(channels, 1, 3, 3, kind="int8"))
    weights = g.node("DequantizeLinear", codes, _scale(g, channels), axis=0)
    y = g.node("Conv", x, weights, pads=[1] * 4, group=channels)
    return str(
        g.node("QuantizeLinear", y, g.constant(np.array(0.1, np.float32)), _zero(g, "uint8"))
    )


@kind
def quantized_product(g: Drawing) -> str:
    rows, inner, columns = g.whole(8, 256), g.whole(32, 512), g.whole(32, 512)
    x = g.node("DequantizeLinear", g.input(rows, inner, kind="uint8"), _scale(g), _zero(g, "uint8"))
    codes = g.constant(g.array(inner, columns, kind="int8"))
    weights = g.node("DequantizeLinear", codes, _scale(g, columns), axis=1)
    y = g.node("MatMul", x, weights)
    return str(
        g.node("QuantizeLinear", y, g.constant(np.array(2.0, np.float32)), _zero(g, "uint8"))
    )


@kind
def integer_product(g: Drawing) -> str:
    rows, inner, columns = g.whole(8, 256), g.whole(32, 512), g.whole(32, 512)
    x = g.input(rows, inner, kind="uint8")
    weights = g.constant(g.array(inner, columns, kind="int8"))
    return str(g.node("MatMulInteger", x, weights, _zero(g, "uint8")))


@kind
def quantized_sum(g: Drawing) -> str:
    shape = _feature_map(g)
    parts = [
        g.node("DequantizeLinear", g.input(*shape, kind="uint8"), _scale(g), _zero(g, "uint8"))
        for _ in range(2)
    ]
    return str(g.node("QuantizeLinear", g.node("Add", *parts), _scale(g), _zero(g, "uint8")))
