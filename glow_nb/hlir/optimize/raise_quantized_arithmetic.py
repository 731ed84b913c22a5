"""Recognize elementwise operators and averages of quantized tensors."""

from __future__ import annotations

from typing import Any

from glow_nb.base.schema import attributes_of
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import (
    Add,
    AvgPool,
    Dequantize,
    Div,
    Maximum,
    Minimum,
    Mul,
    Quantize,
    QuantizedAdd,
    QuantizedAveragePool,
    QuantizedDiv,
    QuantizedMaximum,
    QuantizedMinimum,
    QuantizedMul,
    QuantizedSub,
    ReduceMean,
    Reshape,
    Sub,
)
from glow_nb.hlir.optimize.dequantized import quantization_of
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewriting import Rules, any_of, named, rewrite_once, rule, used_here, wildcards

x, y = wildcards("x y")
_QUANTIZED: dict[type[Node], Any] = {
    Add: QuantizedAdd,
    Div: QuantizedDiv,
    Maximum: QuantizedMaximum,
    Minimum: QuantizedMinimum,
    Mul: QuantizedMul,
    Sub: QuantizedSub,
}


@register_pass
def raise_quantized_arithmetic(function: Function) -> Function:
    """Replace a float operator between dequantizations and a quantization by one quantized
    operator.

    Averages are those over windows, or over all spatial axes of an image. Only the quantization may
    read the float result.

    ::

        %a = dequantize(%x : uint8<...>)
        %b = dequantize(%y : uint8<...>)
        %s = add(%a, %b)
        %q = quantize(%s) {kind = uint8, scale = 0.5, offset = 3}
        ->
        %q = quantized_add(%x, %y) {kind = uint8, scale = 0.5, offset = 3}
    """
    return rewrite_once(function, _RULES)


def _quantized(real: Any) -> Any:
    return any_of(Quantize, input=used_here(named("real", real)))


@rule(_quantized(any_of(*_QUANTIZED, lhs=Dequantize(x), rhs=Dequantize(y))))
def _binary(node: Quantize, real: Node, x: Value, y: Value) -> Node:
    made: Node = _QUANTIZED[type(real)](x, y, **quantization_of(node))
    return made


@rule(_quantized(any_of(AvgPool, input=Dequantize(x))))
def _average(node: Quantize, real: AvgPool, x: Value) -> Node:
    return QuantizedAveragePool(x, **attributes_of(real), **quantization_of(node))


@rule(_quantized(any_of(ReduceMean, input=Dequantize(x))))
def _average_of_images(node: Quantize, real: ReduceMean, x: Value) -> Node | None:
    """Make the mean over all spatial axes one over a window as large as they are."""
    sizes = x.type.shape[1:-1]
    if real.axes != tuple(range(1, x.type.rank - 1)):
        return None
    if not 1 <= len(sizes) <= 3 or 0 in x.type.shape:
        return None
    ones, pads = (1,) * len(sizes), (0,) * 2 * len(sizes)
    type = quantization_of(node)
    pool = QuantizedAveragePool(x, kernel=sizes, stride=ones, pads=pads, dilation=ones, **type)
    return Reshape(pool, real.type.shape)


_RULES = Rules("raise_quantized_arithmetic", _binary, _average, _average_of_images)
