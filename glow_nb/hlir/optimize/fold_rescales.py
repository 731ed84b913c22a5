"""Fold changes of scale into what computes the numbers, or reads them (paper 4.3)."""

from __future__ import annotations

import dataclasses

import numpy as np

from glow_nb.base.conversion import dequantized
from glow_nb.base.schema import map_operands
from glow_nb.base.types import TensorType
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import Dequantize, Quantize, QuantizedAveragePool, Rescale
from glow_nb.hlir.ops.quantized_elementwise import BINARY
from glow_nb.hlir.optimize.dequantized import PRODUCTS, emit_bounded, quantization_of
from glow_nb.hlir.optimize.ranges import Range
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rewriting import Rules, any_of, named, rewrite_once, rule, used_here

ROUNDING = (*PRODUCTS, *BINARY, Quantize, QuantizedAveragePool, Rescale)
"""Operators that round to a quantized type of any scale."""

READING = (*BINARY, Dequantize, QuantizedAveragePool, Rescale)
"""Operators that read a quantized type of any scale: all but products. A bias has the scale of what
they read, and int32 holds their sums for the kind and offset of that."""


@register_pass
def fold_rescales(function: Function) -> Function:
    """Fold a rescale into the operator before or after it.

    Numbers are then rounded once instead of twice. For a rescale after an operator, nothing else
    may read the operator's result; if the old type of the result has a narrower range, the integers
    are clamped to it. A rescale before an operator must not clamp.

    ::

        %a = quantized_add(%x, %y) {kind = int8, scale = 0.5, offset = 0}
        %r = rescale(%a) {kind = int8, scale = 0.25, offset = 0}
        ->
        %r = quantized_add(%x, %y) {kind = int8, scale = 0.25, offset = 0}
    """
    return rewrite_once(function, _RULES)


@rule(any_of(Rescale, input=used_here(named("source", any_of(*ROUNDING)))))
def _folded_up(node: Rescale, source: Node, rewriter: Rewriter) -> Value:
    inner = dataclasses.replace(source, name="", **quantization_of(node))
    return emit_bounded(rewriter.emit(inner), real_limits(source.type), rewriter)


@rule(any_of(*READING))
def _folded_down(node: Node, rewriter: Rewriter) -> Node | None:
    def read(value: Value) -> Value:
        if not isinstance(value, Rescale) or value.predicate or rewriter.use_count(value) != 1:
            return value
        (low, high), (least, greatest) = map(real_limits, (value.input.type, value.type))
        return value.input if least <= low and high <= greatest else value

    changed = map_operands(node, read)
    return None if changed is node else changed.copied(name="")


_RULES = Rules("fold_rescales", _folded_up, _folded_down)


def real_limits(type: TensorType) -> Range:
    """Return the least and the greatest real number of a quantized *type*."""
    low, high = dequantized(np.array(type.kind.limits), type)
    return float(low), float(high)
