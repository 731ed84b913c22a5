"""Compute at compile time what does not depend on the inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from glow_nb.base.schema import operands_of, renewed
from glow_nb.hlir.evaluate import evaluate_node
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.known import is_known
from glow_nb.hlir.ops import ConvertTo, Dequantize, DequantizeLinear
from glow_nb.hlir.ops.families import SHORT_INTEGERS
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.recipe import WeightTransform, folded, makes_weight
from glow_nb.hlir.rewrite import Rewriter

GROWTH_LIMIT_BYTES = 1 << 20
"""A result larger than this is folded only if it is at most twice as large as its operands, so that
a broadcast of one number does not become a hundred megabytes of weights. Quantized weights that
become wider are always folded, or each run would widen them, and a transformed filter, which is
selected for that."""


@register_pass
def fold_constants(function: Function) -> Function:
    """Replace every node that reads only constants by the constants that it computes.

    ::

        %t = transpose(%w) {permutation = [1, 0]}    ->
        %y = mat_mul(%x, %t)                             %y = mat_mul(%x, %t)   // %t is a constant

    The numbers of a large constant are computed at first use (:mod:`glow_nb.hlir.recipe`). A
    constant that is computed only from ``fixed`` constants is ``fixed``, too.
    """
    replaced: dict[Value, Value] = {}
    kept: list[Node] = []
    rewriter = Rewriter(function)
    for node in function.nodes:
        current = renewed(node, replaced)
        if _is_foldable(current):
            names = [rewriter.unique_name(result.name.replace("#", "_")) for result in node.results]
            replaced.update(zip(node.results, _fold(current, names), strict=True))
            continue
        kept.append(current)
        if current is not node:
            replaced.update(zip(node.results, current.results, strict=True))
    return function.with_nodes(kept) if len(kept) < len(function.nodes) else function


def _is_foldable(node: Node) -> bool:
    """True for a node that reads only known constants and does not make too much of them."""
    operands = operands_of(node)
    if node.has_side_effects or node.symbols or not all(map(is_known, operands)):
        return False
    return _is_small_enough(node, operands)


def _is_small_enough(node: Node, operands: Iterable[Value]) -> bool:
    read_bytes = sum(value.type.size_bytes for value in operands)
    made_bytes = sum(type.size_bytes for type in node.result_types)
    return _is_meant_to_grow(node) or made_bytes <= max(GROWTH_LIMIT_BYTES, 2 * read_bytes)


def _is_meant_to_grow(node: Node) -> bool:
    """True for a node that makes of weights what products want; a mask of bools is no weight."""
    if isinstance(node, ConvertTo):
        return node.input.type.kind in SHORT_INTEGERS
    return isinstance(node, Dequantize | DequantizeLinear | WeightTransform)


def _fold(node: Node, names: list[str]) -> list[Constant]:
    """Return the results of *node* as constants called *names*."""
    if len(names) == 1:
        return [folded(node, names[0])]
    is_weight = makes_weight(node)
    return [
        dataclasses.replace(Constant.of(name, array, is_weight=is_weight), type=type)
        for name, array, type in zip(names, evaluate_node(node, {}), node.result_types, strict=True)
    ]
