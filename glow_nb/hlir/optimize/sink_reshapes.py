"""Push reshapes below elementwise operators, to where they meet and merge."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from glow_nb.base.schema import map_operands, operands_of
from glow_nb.base.size import hinted
from glow_nb.hlir.graph import Constant, Function, Node
from glow_nb.hlir.ops import Broadcast, IntLookupTable, Reshape
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.permutation import Shape, axis_groups, shape_before
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

SMALL_PART = 16
"""A constant that is repeated has at most one element for this number of elements of the result."""


@register_pass
def sink_reshapes(function: Function) -> Function:
    """Reshape the result of an elementwise operator instead of its operands.

    All operands must be reshaped alike, but for constants: they are reshaped by the inverse, if
    they repeat along whole groups of merged or split axes, or are small when made to. In this way
    elementwise operators are next to the product or convolution before them, and the reshape is
    next to the following one.

    ::

        %a = reshape(%x : <1 x 1 x 1 x 8>) {shape = [1, 8]}    ->  %r = relu(%x)
        %r = relu(%a)                                              %y = reshape(%r) {shape = [1, 8]}
    """
    return rewrite(function, _rule)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    match node:
        case IntLookupTable(input=Reshape(predicate=None) as source, predicate=None):
            found = rewriter.emit(replace(node, input=source.input, name=""))
            return rewriter.emit(Reshape(found, node.type.shape))
    if not node.data_parallel or node.predicate is not None:
        return None
    before = _common_shape(node)
    if before is None:
        return None
    shapes = {}
    for value in operands_of(node):
        if isinstance(value, Constant):
            repeated = _repeated(value.type.shape, node.type.shape, before)
            shape = shape_before(repeated, node.type.shape, before)
            if shape is None:
                return None
            shapes[value] = repeated, shape

    def unshaped(value: Any) -> Any:
        if not isinstance(value, Constant):
            return value.input
        repeated, shape = shapes[value]
        whole = value if repeated == value.type.shape else rewriter.emit(Broadcast(value, repeated))
        return rewriter.emit(Reshape(whole, shape))

    inner = rewriter.emit(map_operands(node, unshaped).copied(name=""))
    return rewriter.emit(Reshape(inner, node.type.shape))


def _common_shape(node: Node) -> Shape | None:
    """Return the one shape that all operands but constants had before they were reshaped."""
    shapes: set[Shape] = set()
    for value in operands_of(node):
        if isinstance(value, Constant):
            continue
        if not isinstance(value, Reshape) or value.predicate is not None:
            return None
        if value.type.shape != node.type.shape:
            return None
        shapes.add(value.input.type.shape)
    return shapes.pop() if len(shapes) == 1 else None


def _repeated(shape: Shape, after: Shape, before: Shape) -> Shape:
    """Return *shape* repeated along whole groups of the axes of *after*, if that is small."""
    result = list(shape)
    for _, right in axis_groups(before, after) or ():
        if any(shape[axis] != 1 for axis in right):
            for axis in right:
                result[axis] = after[axis]
    is_small = hinted(prod(result)) * SMALL_PART <= hinted(prod(after))
    return tuple(result) if is_small else shape
