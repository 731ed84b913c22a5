"""Ordering nodes so that little memory is live at a time (paper 3.6, step 6).

An elementwise node writes over an operand that ends there, and a reshape moves nothing: neither
takes memory of its own then. What a node writes to a placeholder is read by no other node.
:mod:`glow_nb.ordering` says how an order is found.
"""

from __future__ import annotations

from collections.abc import Sequence

from glow_nb.hlir.graph import Function, Node, producer_of
from glow_nb.hlir.ops.shape import Reshape
from glow_nb.ordering import best_order
from glow_nb.schema import operands_of
from glow_nb.steps import Steps


def schedule(function: Function) -> Function:
    """Return *function* with its nodes in the order of the lowest peak found."""
    order = best_order(_steps(function.nodes))
    if order == list(range(len(order))):
        return function
    return function.with_nodes(function.nodes[index] for index in order)


def peak_bytes(function: Function) -> int:
    """Return the largest sum of result bytes live at one time, in the function's order.

    Storage does not count; the results of a node live from it to their last reader.
    """
    return _steps(function.nodes).peak(range(len(function.nodes)))


def _steps(nodes: Sequence[Node]) -> Steps:
    """Return *nodes* as steps; the region of each has the node's number and holds its results."""
    number = {node: index for index, node in enumerate(nodes)}
    size = [sum(t.size_bytes for t in node.result_types) for node in nodes]
    before: list[list[int]] = []
    shared: list[list[tuple[int, int]]] = []
    for index, node in enumerate(nodes):
        found = (producer_of(value) for value in operands_of(node))
        producers = list(dict.fromkeys(number[p] for p in found if p is not None))
        before.append(producers)
        same = [p for p in producers if nodes[p].result_types == node.result_types]
        alike = producers if isinstance(node, Reshape) else same if node.data_parallel else []
        shared.append([(index, producer) for producer in alike])
    return Steps(
        before=before,
        reads=[{producer: size[producer] for producer in producers} for producers in before],
        writes=[{index: amount} for index, amount in enumerate(size)],
        size=size,
        traffic=[0] * len(nodes),  # what is near stays near when instructions are scheduled
        shared=shared,
    )
