"""Ordering nodes so that little memory is live at a time (paper 3.6, step 6).

Two orders are tried and the one with the lower peak is kept: the given one, and a depth-first order
that computes the operand first whose subtree needs the most memory beyond what it leaves behind
(the heuristic of Glow's child-memory scheduler, after Sethi and Ullman).
"""

from __future__ import annotations

from collections.abc import Iterable

from glow_nb.hlir.graph import Function, Node, Placeholder, Save, Value, producer_of
from glow_nb.schema import operands_of


def schedule(function: Function) -> Function:
    """Return *function* with its nodes in the order of the lowest peak found."""
    reordered = function.with_nodes(_depth_first(function))
    better = peak_bytes(reordered) < peak_bytes(function)
    return reordered if better else function


def peak_bytes(function: Function) -> int:
    """Return the largest sum of result bytes live at one time, in the function's order.

    Storage does not count; a result lives from its node to its last reader.
    """
    last_reader: dict[Value, Node] = {v: users[-1] for v, users in function.users().items()}
    ending: dict[Node, int] = {}
    live = peak = 0
    for node in function.nodes:
        for result in node.results:
            live += result.type.size_bytes
            end = last_reader.get(result, node)
            ending[end] = ending.get(end, 0) + result.type.size_bytes
        peak = max(peak, live)
        live -= ending.get(node, 0)
    return peak


def _depth_first(function: Function) -> list[Node]:
    """Visit each root's operands before it, the hungriest first.

    A node is visited once all readers of what it overwrites have run.
    """
    left_bytes = {node: sum(t.size_bytes for t in node.result_types) for node in function.nodes}
    need = _needs(function, left_bytes)
    ordered: dict[Node, None] = {}
    readers = _readers_of_overwritten(function)
    for root in _roots(function):
        stack: list[tuple[Node, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in ordered:
                continue
            if ready:
                ordered[node] = None
                continue
            stack.append((node, True))
            before = [*_producers(node), *readers.get(node, ())]
            before.sort(key=lambda child: need[child] - left_bytes[child])
            stack += [(child, False) for child in before if child not in ordered]
    return list(ordered)


def _needs(function: Function, left_bytes: dict[Node, int]) -> dict[Node, int]:
    """Return the peak bytes of computing each node's subtree, sharing ignored."""
    need: dict[Node, int] = {}
    for node in function.nodes:
        held = peak = 0
        children = sorted(_producers(node), key=lambda child: left_bytes[child] - need[child])
        for child in children:
            peak = max(peak, held + need[child])
            held += left_bytes[child]
        need[node] = max(peak, held + left_bytes[node])
    return need


def _producers(node: Node) -> list[Node]:
    found = (producer_of(value) for value in operands_of(node))
    return list(dict.fromkeys(p for p in found if p is not None))


def _roots(function: Function) -> Iterable[Node]:
    """Return the nodes that no other node reads, in order."""
    read = {producer_of(value) for node in function.nodes for value in operands_of(node)}
    return [node for node in function.nodes if node not in read]


def _readers_of_overwritten(function: Function) -> dict[Node, list[Node]]:
    """Map each save to the nodes that must read its placeholder's old value first."""
    users = function.users()
    found: dict[Node, list[Node]] = {}
    for node in function.nodes:
        if isinstance(node, Save) and isinstance(node.output, Placeholder):
            readers = [user for user in users.get(node.output, ()) if user is not node]
            if readers:
                found[node] = readers
    return found
