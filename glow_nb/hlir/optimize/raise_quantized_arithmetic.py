"""Recognize elementwise operators and averages of quantized tensors."""

from __future__ import annotations

from typing import Any

from glow_nb.base.schema import attributes_of, operands_of
from glow_nb.base.types import ElementKind
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
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

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
    """Make one node of a float operator between dequantizations and a quantization.

    An average is one over windows, or over all spatial axes of an image. The real number in between
    must be read by the quantization alone.

    ::

        %a = dequantize(%x : uint8<...>)
        %b = dequantize(%y : uint8<...>)
        %s = add(%a, %b)
        %q = quantize(%s) {kind = uint8, scale = 0.5, offset = 3}
        ->
        %q = quantized_add(%x, %y) {kind = uint8, scale = 0.5, offset = 3}
    """
    return rewrite(function, _rule, Quantize)


def _rule(node: Quantize, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None:
        return None
    real = node.input
    if not isinstance(real, Node) or real.predicate or rewriter.use_count(real) != 1:
        return None
    sources = [_source(operand) for operand in operands_of(real)]
    operands = [source for source in sources if source is not None]
    if len(operands) < len(sources):
        return None
    type = quantization_of(node)
    match real:
        case AvgPool():
            pooled = attributes_of(real) | type
            return rewriter.emit(QuantizedAveragePool(operands[0], **pooled))
        case ReduceMean(axes=axes) if axes == tuple(range(1, real.input.type.rank - 1)):
            return _average_of_images(real, operands[0], type, rewriter)
    quantized = _QUANTIZED.get(real.__class__)
    return None if quantized is None else rewriter.emit(quantized(*operands, **type))


def _source(value: Value) -> Value | None:
    """Return the tensor of a quantized type that *value* is the dequantization of."""
    match value:
        case Dequantize(input=source, kind=ElementKind.FLOAT32, predicate=None):
            return source
    return None


def _average_of_images(
    mean: ReduceMean, images: Value, type: dict[str, Any], rewriter: Rewriter
) -> Value | None:
    """Emit the mean over all spatial axes as one over a window as large as they are."""
    sizes = images.type.shape[1:-1]
    if not 1 <= len(sizes) <= 3 or 0 in images.type.shape:
        return None
    ones, pads = (1,) * len(sizes), (0,) * 2 * len(sizes)
    pool = QuantizedAveragePool(images, kernel=sizes, stride=ones, pads=pads, dilation=ones, **type)
    return rewriter.emit(Reshape(rewriter.emit(pool), mean.type.shape))
