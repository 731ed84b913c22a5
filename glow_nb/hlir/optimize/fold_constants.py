"""Compute at compile time what does not depend on the inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from glow_nb.hlir.evaluate import evaluate_node
from glow_nb.hlir.graph import Constant, Function, Node, Value, producer_of
from glow_nb.hlir.ops import Reshape, Transpose, WinogradFilter
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Rewriter, substitute
from glow_nb.schema import operands_of
from glow_nb.types import Array

THREADS = 4
"""Groups of nodes that are computed at a time; NumPy computes one on one core."""

GROWTH_LIMIT_BYTES = 1 << 20
"""A result larger than this is folded only if it is at most twice as large as its operands, so that
a broadcast of one number does not become a hundred megabytes of weights. A transformed filter is
always folded: it is selected for that."""


@register_pass
def fold_constants(function: Function) -> Function:
    """Replace every node that reads only constants by the constants that it computes.

    ::

        %t = transpose(%w) {permutation = [1, 0]}    ->
        %y = mat_mul(%x, %t)                             %y = mat_mul(%x, %t)   // %t is a constant
    """
    foldable = _foldable_nodes(function)
    if not foldable:
        return function
    kept = [node for node in function.nodes if node not in foldable]
    wanted = {operand for node in kept for operand in operands_of(node)}
    rewriter = Rewriter(function)
    constants: dict[Value, Value] = {}
    with ThreadPoolExecutor(THREADS) as pool:
        groups = _independent_groups(foldable)
        for arrays in pool.map(lambda group: _evaluate_group(group, wanted), groups):
            for result, array in arrays.items():
                constants[result] = rewriter.constant(result.name.replace("#", "_"), array)
    return substitute(function.with_nodes(kept), constants)


def _foldable_nodes(function: Function) -> dict[Node, None]:
    """Return the nodes, in order, that read constants and results of such nodes only."""
    known: set[Value] = set()
    foldable: dict[Node, None] = {}
    for node in function.nodes:
        operands = tuple(operands_of(node))
        is_known = all(
            value in known or (isinstance(value, Constant) and value.payload is not None)
            for value in operands
        )
        if is_known and not node.has_side_effects and _is_small_enough(node, operands):
            foldable[node] = None
            known.update(node.results)
    return foldable


def _is_small_enough(node: Node, operands: Iterable[Value]) -> bool:
    read_bytes = sum(value.type.size_bytes for value in operands)
    made_bytes = sum(type.size_bytes for type in node.result_types)
    is_meant_to_grow = isinstance(node, WinogradFilter)
    return is_meant_to_grow or made_bytes <= max(GROWTH_LIMIT_BYTES, 2 * read_bytes)


def _independent_groups(nodes: Iterable[Node]) -> list[list[Node]]:
    """Cut *nodes* into groups that read nothing of each other, each in order."""
    group_of: dict[Node, list[Node]] = {}
    for node in nodes:
        producers = (producer_of(operand) for operand in operands_of(node))
        joined = {id(group_of[p]): group_of[p] for p in producers if p is not None}
        group = [other for group in joined.values() for other in group] + [node]
        group_of.update(dict.fromkeys(group, group))
    return list({id(group): group for group in group_of.values()}.values())


def _evaluate_group(group: Sequence[Node], wanted: Collection[Value]) -> dict[Value, Array]:
    """Return the *wanted* results; the others are freed as soon as they have been read."""
    reads = Counter(operand for node in group for operand in operands_of(node))
    values: dict[Value, Array] = {}
    for node in group:
        values.update(zip(node.results, _evaluate(node, values), strict=True))
        for operand in operands_of(node):
            reads[operand] -= 1
            if not reads[operand] and operand not in wanted:
                values.pop(operand, None)
    return {value: array for value, array in values.items() if value in wanted}


def _evaluate(node: Node, values: dict[Value, Array]) -> tuple[Array, ...]:
    """Compute the results of *node*; a transpose is a view, a reshape where NumPy can give one.

    Packed weights are a transpose of a reshape of a transpose: they are copied once, at the end, to
    the place where the kernels read them.
    """
    match node:
        case Reshape(input=input):
            return (_array_of(input, values).reshape(node.shape),)
        case Transpose(input=input):
            return (_array_of(input, values).transpose(node.permutation),)
    return evaluate_node(node, values)


def _array_of(value: Value, values: dict[Value, Array]) -> Array:
    return value.array if isinstance(value, Constant) else values[value]
