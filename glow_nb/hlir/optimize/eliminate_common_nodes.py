"""Compute equal things once."""

from __future__ import annotations

import hashlib

from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite, substitute
from glow_nb.schema import structural_key


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
    by_type: dict[object, list[Constant]] = {}
    for constant in function.constants:
        if constant.payload is not None:
            by_type.setdefault(constant.type, []).append(constant)
    repeated: dict[Value, Value] = {}
    for constants in by_type.values():
        if len(constants) == 1:
            continue  # nothing to compare with: spare hashing the largest weights
        first: dict[bytes, Constant] = {}
        for constant in constants:
            digest = hashlib.blake2b(constant.array.tobytes()).digest()
            earlier = first.setdefault(digest, constant)
            if earlier is not constant:
                repeated[constant] = earlier
    return repeated
