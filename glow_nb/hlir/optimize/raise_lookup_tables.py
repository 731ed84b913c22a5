"""Look functions of one byte up in a table (paper 4.2)."""

from __future__ import annotations

from collections import Counter
from typing import TypeGuard

import numpy as np

from glow_nb.base.schema import map_operands, operands_of
from glow_nb.base.types import Array
from glow_nb.hlir.evaluate import evaluate_node
from glow_nb.hlir.graph import Function, Node, Placeholder, Value
from glow_nb.hlir.known import is_known
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
    Rescale,
    Sub,
)
from glow_nb.hlir.ops.quantization import BYTES
from glow_nb.hlir.ops.quantized_elementwise import BINARY
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

CONVERSIONS = (Dequantize, Quantize, Rescale)
CHEAP = (Abs, Add, Clip, Div, LeakyRelu, Maximum, Minimum, Mul, Neg, Relu, Sub, *BINARY)
"""Functions of a few instructions; a few of them stay, to join other kernels or to be folded."""

FEWEST_CHEAP = 4
"""Cheap functions in a row from which on a table takes less time on any processor. [A table, beside
floats: of a leaky ReLU 4.8 times as fast with VBMI, as fast with AVX2; of a hard swish, which is
four of them, 5.4 and 1.2 times; of a sigmoid 10 and 2.6, of a GELU 13 and 3.3 times. In the
epilogue of a product of 128 x 128 these are 1.3 and 1.1, 1.6 and 1.2, 1.9 and 1.4 times.]"""

MOST_NODES = 16
"""A function that is made of more operators is not looked for."""


@register_pass
def raise_lookup_tables(function: Function) -> Function:
    """Replace functions from one byte to another byte by lookup tables.

    The function may consist of any elementwise operators on this byte and constants, also with
    other quantized tensors and tables in between, if one of the operators is expensive, or if there
    are many. The table holds their results.

    ::

        %d = dequantize(%x : uint8<1 x 8, scale = 0.5, offset = 3>)
        %s = sigmoid(%d)
        %q = quantize(%s) {kind = uint8, scale = 0.004, offset = 0}
        ->
        %q = int_lookup_table(%x, %table : uint8<256>) {scale = 0.004, offset = 0}
    """
    return rewrite(function, _rule)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None or not node.data_parallel:
        return None
    if not node.type.is_quantized or node.type.rank == 0:
        return None
    inner, sources = _function_behind(node)
    slow = _slow_part(inner)
    if len(sources) != 1 or not slow:
        return None
    (source,) = sources
    if source.type.kind not in BYTES or not source.type.is_quantized:
        return None
    if _is_read_elsewhere(node, inner, slow, rewriter):
        return None
    scale, offset = node.type.quantization
    table = rewriter.constant(f"{node.name}_table", _table(node, source), is_weight=False)
    return rewriter.emit(IntLookupTable(source, table, scale=scale, offset=offset))


def _slow_part(inner: set[Node]) -> set[Node]:
    """Return those of *inner* that make it worth to look the end up; none if it is not."""
    computing = {node for node in inner if not isinstance(node, CONVERSIONS)}
    expensive = {node for node in computing if not isinstance(node, CHEAP)}
    return expensive or (computing if len(computing) >= FEWEST_CHEAP else set())


def _function_behind(end: Node) -> tuple[set[Node], set[Value]]:
    """Return the elementwise nodes that compute *end*, and the tensors that they begin with."""
    inner: set[Node] = {end}
    sources: set[Value] = set()
    pending = [end]
    while pending:
        node = pending.pop()
        for operand in operands_of(node):
            if operand in inner or _is_number(operand):
                continue
            if isinstance(node, IntLookupTable) and operand is node.table and is_known(operand):
                continue
            if _is_elementwise(operand) and len(inner) < MOST_NODES:
                inner.add(operand)
                pending.append(operand)
            else:
                sources.add(operand)
    return inner, sources


def _is_elementwise(value: Value) -> TypeGuard[Node]:
    if not isinstance(value, Node) or value.predicate is not None:
        return False
    return value.data_parallel or isinstance(value, IntLookupTable)


def _is_number(value: Value) -> bool:
    return is_known(value) and value.type.size == 1


def _is_read_elsewhere(end: Node, inner: set[Node], slow: set[Node], rewriter: Rewriter) -> bool:
    """Return whether anything but *inner* reads what is *slow*; the rest is soon computed again."""
    own = Counter(operand for node in inner for operand in operands_of(node))
    return any(rewriter.use_count(node) != own[node] for node in slow - {end})


def _table(end: Node, source: Value) -> Array:
    """Return what *end* makes of all bytes that *source* may hold, in their order."""
    type = source.type
    least, greatest = type.kind.limits
    shape = (*(1,) * (type.rank - 1), 256)
    bytes = Placeholder("bytes", type.with_shape(shape))
    every = np.arange(least, greatest + 1, dtype=type.kind.dtype).reshape(shape)
    values: dict[Value, Array] = {bytes: every}
    moved: dict[Value, Value] = {source: bytes}

    def computed(value: Value) -> Value:
        if value not in moved and isinstance(value, Node):
            node = map_operands(value, computed)
            values.update(zip(node.results, evaluate_node(node, values), strict=True))
            moved[value] = node
        return moved.get(value, value)

    return values[computed(end)].reshape(-1)
