"""Ordering nodes so that little memory is live at a time (paper 3.6, step 6).

An elementwise node writes over an operand that ends there, and a reshape moves nothing: neither
takes memory of its own then. What a node writes to a placeholder is read by no other node. What
makes the next value of a state, for its ``save`` alone, comes after all that read the old one:
then it takes the memory of the old one. :mod:`glow_nb.scheduling.ordering` says how an order is
found.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from glow_nb.base.schema import operands_of
from glow_nb.base.size import hinted
from glow_nb.hlir.direct_saves import is_read_at_the_end, readers_of, saved_alone
from glow_nb.hlir.graph import Function, Node, State, producer_of
from glow_nb.hlir.ops.shape import Reshape
from glow_nb.hlir.save import is_update
from glow_nb.scheduling.ordering import Scheduler, best_order, order_by
from glow_nb.scheduling.steps import Steps

Behind = Mapping[Node, Sequence[Node]]
"""Nodes that overwrite a state, each with those that it comes behind: they read the old value."""


def schedule(function: Function, *, scheduler: Scheduler = best_order) -> Function:
    """Return *function* with its nodes in the order of the lowest peak found, or of *scheduler*.

    Raises:
        OptionError: *scheduler* returns no order that is allowed.
    """
    behind = _overwriters(function)
    updates = tuple(filter(is_update, function.nodes))
    nodes = _in_order([n for n in function.nodes if not is_update(n)], behind)
    order = order_by(scheduler, _steps(nodes, behind), [f"%{node.name}" for node in nodes])
    ordered = (*(nodes[index] for index in order), *updates)
    return function if ordered == function.nodes else function.with_nodes(ordered)


def peak_bytes(function: Function) -> int:
    """Return the largest sum of result bytes live at one time, in the function's order.

    Storage does not count; the results of a node live from it to their last reader.
    """
    return _steps(function.nodes, {}).peak(range(len(function.nodes)))


def _overwriters(function: Function) -> dict[Node, list[Node]]:
    """Return the nodes that can write their result over the old value of a state.

    If two of them read what the other one overwrites, the second one comes after the first.
    """
    found: dict[Node, list[Node]] = {}
    if not function.state:
        return found
    users = function.users()
    for value, save in saved_alone(function, users).items():
        state = save.output
        if not isinstance(state, State) or is_read_at_the_end(state, users):
            continue
        if isinstance(value, Node):  # others may read another result of a node with several
            found[value] = [reader for reader in readers_of(state, users) if reader is not value]
    place = {node: number for number, node in enumerate(function.nodes)}
    return {
        node: [r for r in readers if r not in found or place[r] < place[node]]
        for node, readers in found.items()
    }


def _in_order(nodes: Sequence[Node], behind: Behind) -> Sequence[Node]:
    """Return *nodes* in their order, but each as late as *behind* says."""
    if not behind:
        return nodes
    number = {node: index for index, node in enumerate(nodes)}
    before = [_before(node, number, behind) for node in nodes]
    missing = [len(numbers) for numbers in before]
    after: list[list[int]] = [[] for _ in nodes]
    for index, numbers in enumerate(before):
        for earlier in numbers:
            after[earlier].append(index)
    ready = [index for index, count in enumerate(missing) if not count]
    ordered: list[Node] = []
    while ready:
        index = heapq.heappop(ready)
        ordered.append(nodes[index])
        for later in after[index]:
            missing[later] -= 1
            if not missing[later]:
                heapq.heappush(ready, later)
    return ordered


def _before(node: Node, number: Mapping[Node, int], behind: Behind) -> list[int]:
    """Return the nodes that must come right before *node*, by *number*."""
    found = (producer_of(value) for value in operands_of(node))
    needed = [producer for producer in found if producer is not None]
    return list(dict.fromkeys(number[other] for other in (*needed, *behind.get(node, ()))))


def _steps(nodes: Sequence[Node], behind: Behind) -> Steps:
    """Return *nodes* as steps; the region of each has the node's number and holds its results."""
    number = {node: index for index, node in enumerate(nodes)}
    in_state = set(behind)  # and reshapes of these: what takes no memory of its own
    for node in nodes:
        if isinstance(node, Reshape) and node.input in in_state:
            in_state.add(node)
    size = [
        0 if n in in_state else hinted(sum(t.size_bytes for t in n.result_types)) for n in nodes
    ]
    before = [_before(node, number, behind) for node in nodes]
    shared: list[list[tuple[int, int]]] = []
    reads: list[dict[int, int]] = []
    for index, node in enumerate(nodes):
        producers = _before(node, number, {})
        same = [p for p in producers if nodes[p].result_types == node.result_types]
        alike = producers if isinstance(node, Reshape) else same if node.data_parallel else []
        shared.append([(index, p) for p in alike if size[p] == size[index]])
        reads.append({producer: size[producer] for producer in producers})
    return Steps(
        before=before,
        reads=reads,
        writes=[{index: amount} for index, amount in enumerate(size)],
        size=size,
        shared=shared,
    )
