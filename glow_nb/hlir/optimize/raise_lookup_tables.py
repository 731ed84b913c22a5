"""Look functions of one byte up in a table (paper 4.2)."""

from __future__ import annotations

import numpy as np

from glow_nb.hlir.evaluate import evaluate_node
from glow_nb.hlir.graph import Function, Node, Placeholder, Value
from glow_nb.hlir.ops import (
    Abs,
    Add,
    Clip,
    Dequantize,
    Div,
    IntLookupTable,
    LeakyRelu,
    Maximum,
    Minimum,
    Mul,
    Neg,
    Quantize,
    Relu,
    Sub,
)
from glow_nb.hlir.ops.quantization import BYTES
from glow_nb.hlir.optimize.uniform import is_known
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.schema import map_operands, operands_of
from glow_nb.types import Array

CHEAP = (Abs, Add, Clip, Div, LeakyRelu, Maximum, Minimum, Mul, Neg, Relu, Sub)
"""Functions that take no more time than looking them up; they stay, to join other kernels."""

MOST_NODES = 16
"""A function that is made of more operators is not looked for."""


@register_pass
def raise_lookup_tables(function: Function) -> Function:
    """Make a table of a function of one byte, from its dequantization to the next quantization.

    The function may be made of any elementwise operators that read nothing else but numbers, if one
    of them is expensive. What the table holds is what they compute.

    ::

        %d = dequantize(%x : uint8<1 x 8, scale = 0.5, offset = 3>)
        %s = sigmoid(%d)
        %q = quantize(%s) {kind = uint8, scale = 0.004, offset = 0}
        ->
        %q = int_lookup_table(%x, %table : uint8<256>) {scale = 0.004, offset = 0}
    """
    return rewrite(function, _rule)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if not isinstance(node, Quantize) or node.predicate is not None:
        return None
    inner: dict[Node, None] = {}
    starts: dict[Dequantize, None] = {}
    if not _collect(node.input, inner, starts) or len(starts) != 1:
        return None
    (start,) = starts
    if all(isinstance(each, CHEAP) for each in inner) or _is_read_elsewhere(inner, rewriter):
        return None
    if start.input.type.kind not in BYTES or start.type.rank == 0:
        return None
    table = rewriter.constant(f"{node.name}_table", _table(node, start), is_weight=False)
    typed = IntLookupTable(start.input, table, scale=node.scale, offset=node.offset)
    return rewriter.emit(typed)


def _collect(value: Value, inner: dict[Node, None], starts: dict[Dequantize, None]) -> bool:
    """Put into *inner* what computes *value*, and into *starts* what that begins with.

    False if that is no function of single elements, or too long.
    """
    if value in inner or value in starts or _is_number(value):
        return True
    if not isinstance(value, Node) or value.predicate or len(inner) == MOST_NODES:
        return False
    if isinstance(value, Dequantize):
        starts[value] = None
        return True
    if not value.scalar:
        return False
    inner[value] = None
    return all(_collect(operand, inner, starts) for operand in operands_of(value))


def _is_number(value: Value) -> bool:
    return is_known(value) and value.type.size == 1


def _is_read_elsewhere(inner: dict[Node, None], rewriter: Rewriter) -> bool:
    """True if anything but one quantization reads a real number in between."""
    reads = sum(rewriter.use_count(node) for node in inner)
    own = sum(operand in inner for node in inner for operand in operands_of(node))
    return reads != own + 1


def _table(end: Quantize, start: Dequantize) -> Array:
    """Return what *end* makes of all bytes that *start* may read, in their order."""
    type = start.input.type
    least, greatest = type.kind.limits
    shape = (*(1,) * (type.rank - 1), 256)
    bytes = Placeholder("bytes", type.with_shape(shape))
    every = np.arange(least, greatest + 1, dtype=type.kind.dtype).reshape(shape)
    values: dict[Value, Array] = {bytes: every}
    moved: dict[Value, Value] = {start.input: bytes}

    def computed(value: Value) -> Value:
        if value not in moved and isinstance(value, Node):
            node = map_operands(value, computed)
            values.update(zip(node.results, evaluate_node(node, values), strict=True))
            moved[value] = node
        return moved.get(value, value)

    return values[computed(end)].reshape(-1)
