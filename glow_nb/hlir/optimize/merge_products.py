"""Multiply once by several narrow matrices."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from glow_nb.base.schema import attributes_of
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.known import array_of, is_known
from glow_nb.hlir.ops import Convolution, FullyConnected, MatMul, Split
from glow_nb.hlir.optimize.eliminate_dead_nodes import eliminate_dead_nodes
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

VECTOR = 8
"""Columns that cost as much as one: float32 lanes of a common processor."""

MIN_INNER = 16
"""Products summed up for one result, from where on splitting them up costs next to nothing."""

MIN_GAIN = 1.2
"""How many times as many vectors the products must take as the merged one.

[At 1.33, 12 and 12 columns, two products take 1.2 times as long as the merged one and its split; at
2, 4 and 4 columns, 1.5 times; at 1 the split costs up to 7 %.]
"""

Product = Convolution | FullyConnected | MatMul


@register_pass
def merge_products(function: Function) -> Function:
    """Join products of one operand with several constant matrices, where that saves vectors.

    Columns are computed a vector at a time, so that narrow matrices, as in detection heads, waste
    most of it. The same for convolutions with equal windows. Wide ones gain nothing and stay.

    ::

        %a = mat_mul(%x, %v : <512 x 4>)      ->  %m = mat_mul(%x, %w : <512 x 6>)
        %b = mat_mul(%x, %u : <512 x 2>)          %a_b = split(%m) {axis = 1, sizes = [4, 2]}
    """
    group_of: dict[str, list[Product]] = {}
    for members in _groups(function):
        group_of.update({node.name: members for node in members})
    if not group_of:
        return function
    parts: dict[str, Value] = {}

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        members = group_of.get(node.name)
        if members is None or not isinstance(node, Product):
            return None
        if node.name not in parts:
            results = _merged(node, members, rewriter)
            parts.update(zip((member.name for member in members), results, strict=True))
        return parts[node.name]

    return rewrite(function, rule)


def _groups(function: Function) -> list[list[Product]]:
    """Return the products that one product is to replace, each in order.

    What nothing reads any more, as a convolution behind which a scale was folded, is not one.
    """
    alike: dict[object, list[Product]] = {}
    for node in eliminate_dead_nodes(function).nodes:
        if isinstance(node, Product) and node.predicate is None and _can_merge(node):
            input, weights = node.factors
            key = (type(node), input, weights.type.kind, tuple(attributes_of(node).items()))
            alike.setdefault(key, []).append(node)
    return [members for members in alike.values() if _pays([m.type.shape[-1] for m in members])]


def _pays(widths: Sequence[int]) -> bool:
    apart = sum(_vectors(width) for width in widths)
    return len(widths) > 1 and apart >= MIN_GAIN * _vectors(sum(widths))


def _vectors(width: int) -> int:
    return -(-width // VECTOR)


def _can_merge(node: Product) -> bool:
    """Return whether all weights are known, and there is enough to compute for each result."""
    _, weights = node.factors
    inner = weights.type.size
    if isinstance(node, Convolution):
        is_plain = node.group == 1 and is_known(node.bias)
    elif isinstance(node, FullyConnected):
        is_plain = is_known(node.bias)
    else:
        is_plain = weights.type.rank == 2
    width = node.type.shape[-1]
    return is_plain and is_known(weights) and width * MIN_INNER <= inner > 0


def _merged(node: Product, members: list[Product], rewriter: Rewriter) -> tuple[Value, ...]:
    """Emit the product that computes all *members*, whose first is *node*, and its split."""
    name = f"{node.name}_merged"
    if isinstance(node, Convolution):
        changes = {
            "filter": _joined([m.filter for m in members if isinstance(m, Convolution)], 0),
            "bias": _joined([m.bias for m in members if isinstance(m, Convolution)], 0),
        }
    elif isinstance(node, FullyConnected):
        changes = {
            "weights": _joined([m.weights for m in members if isinstance(m, FullyConnected)], 1),
            "bias": _joined([m.bias for m in members if isinstance(m, FullyConnected)], 0),
        }
    else:
        changes = {"rhs": _joined([m.rhs for m in members if isinstance(m, MatMul)], 1)}
    constants: dict[str, Any] = {
        field: rewriter.constant(f"{name}_{field}", array) for field, array in changes.items()
    }
    merged = rewriter.emit(dataclasses.replace(node, name=name, **constants))
    sizes = tuple(member.type.shape[-1] for member in members)
    split = rewriter.emit(Split(merged, axis=merged.type.rank - 1, sizes=sizes), f"{name}_split")
    return split.results


def _joined(values: Sequence[Value], axis: int) -> Array:
    arrays = [array for array in map(array_of, values) if array is not None]
    return np.concatenate(arrays, axis=axis)
