"""Compute equal things once."""

from __future__ import annotations

import numpy as np

from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite, substitute
from glow_nb.schema import structural_key
from glow_nb.types import Array


@register_pass
def eliminate_common_nodes(function: Function) -> Function:
    """Reuse the first of several nodes, or of several constants, that are the same.

    Nodes are the same if operator, attributes, operands and predicate are; constants if their type
    and every bit of their numbers are.

    ::

        %a = relu(%x)        ->  %a = relu(%x)
        %b = relu(%x)
        %c = add(%a, %b)         %c = add(%a, %a)
    """
    first: dict[tuple[object, ...], Node] = {}

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        if node.has_side_effects:
            return None
        earlier = first.setdefault(structural_key(node), node)
        return None if earlier is node else earlier.results

    return rewrite(substitute(function, _repeated_constants(function)), rule)


def _repeated_constants(function: Function) -> dict[Value, Value]:
    """Map every constant that repeats an earlier one to that one."""
    alike: dict[object, list[Constant]] = {}
    repeated: dict[Value, Value] = {}
    for constant in function.constants:
        if constant.payload is None:
            continue
        earlier = alike.setdefault((constant.type, _sample(constant.array)), [])
        same = next((other for other in earlier if _same_bits(other, constant)), None)
        if same is None:
            earlier.append(constant)
        else:
            repeated[constant] = same
    return repeated


def _sample(array: Array) -> bytes:
    """Return a few of the numbers: enough to tell most arrays apart without reading them all."""
    places = np.arange(0, array.size, max(1, array.size // 16))
    return array[np.unravel_index(places, array.shape)].tobytes() if array.ndim else array.tobytes()


def _same_bits(left: Constant, right: Constant) -> bool:
    a, b = (np.ascontiguousarray(c.array).reshape(-1).view(np.uint8) for c in (left, right))
    return bool(np.array_equal(a, b))
