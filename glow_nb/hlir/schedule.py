"""Ordering nodes so that little memory is live at a time (paper 3.6, step 6).

Two orders are tried: the given one, and a depth-first order that computes the operand first whose
subtree needs the most memory beyond what it leaves behind (the heuristic of Glow's child-memory
scheduler, after Sethi and Ullman). Where neither needs as little as its largest step must, a search
over the sets of nodes that may be done first looks for a better one.

An elementwise node writes over an operand that ends there, and a reshape moves nothing: neither
takes memory of its own then. What a node writes to a placeholder is read by no other node.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from glow_nb.hlir.graph import Function, Node, producer_of
from glow_nb.hlir.ops.shape import Reshape
from glow_nb.schema import operands_of

SEARCH_STATES = 2000
"""After how many sets of nodes the search gives up; each takes about 20 microseconds."""


def schedule(function: Function) -> Function:
    """Return *function* with its nodes in the order of the lowest peak found."""
    graph = _Graph(function.nodes)
    given, order = list(range(len(function.nodes))), _depth_first(graph)
    peaks = graph.peak(given), graph.peak(order)
    best, peak = (order, peaks[1]) if peaks[1] < peaks[0] else (given, peaks[0])
    if peak > graph.largest_step():
        best = _search(graph, peak) or best
    if best == given:
        return function
    return function.with_nodes(function.nodes[index] for index in best)


def peak_bytes(function: Function) -> int:
    """Return the largest sum of result bytes live at one time, in the function's order.

    Storage does not count; the results of a node live from it to their last reader.
    """
    return _Graph(function.nodes).peak(range(len(function.nodes)))


class _Graph:
    """The nodes by their number in the given order, with what ordering must know of them.

    Attributes:
        producers: The nodes that compute each node's operands.
        readers: A bit for each node that reads a result.
        size: Bytes of a node's results, together.
        spared: The producers whose memory a node may take over if they end there.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        number = {node: index for index, node in enumerate(nodes)}
        self.producers: list[list[int]] = []
        self.readers = [0] * len(nodes)
        self.size = [sum(t.size_bytes for t in node.result_types) for node in nodes]
        self.spared: list[list[int]] = []
        for index, node in enumerate(nodes):
            found = (producer_of(value) for value in operands_of(node))
            producers = list(dict.fromkeys(number[p] for p in found if p is not None))
            self.producers.append(producers)
            for producer in producers:
                self.readers[producer] |= 1 << index
            in_place = node.data_parallel or isinstance(node, Reshape)
            same = [p for p in producers if nodes[p].result_types == node.result_types]
            alike = producers if isinstance(node, Reshape) else same
            self.spared.append(alike if in_place else [])

    def step(self, node: int, done: int, live: int) -> tuple[int, int]:
        """Return the bytes live while *node* runs after *done*, of which *live* are; and after."""
        now = done | 1 << node
        ended = [p for p in self.producers[node] if not self.readers[p] & ~now]
        taken = self.size[node] if any(p in ended for p in self.spared[node]) else 0
        during = live + self.size[node] - taken
        kept = self.size[node] if self.readers[node] else 0
        return during, live + kept - sum(self.size[p] for p in ended)

    def peak(self, order: Sequence[int]) -> int:
        """Return the largest sum of bytes live at one time in *order*."""
        done = live = peak = 0
        for node in order:
            during, live = self.step(node, done, live)
            done |= 1 << node
            peak = max(peak, during)
        return peak

    def largest_step(self) -> int:
        """Return what some node needs in any order: its operands and its results."""
        needs = (
            sum(self.size[p] for p in producers) + (0 if self.spared[node] else self.size[node])
            for node, producers in enumerate(self.producers)
        )
        return max(needs, default=0)


def _depth_first(graph: _Graph) -> list[int]:
    """Visit each root's operands before it, the hungriest first."""
    need = _needs(graph)
    ordered: dict[int, None] = {}
    for root in (node for node, readers in enumerate(graph.readers) if not readers):
        stack: list[tuple[int, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if node in ordered:
                continue
            if ready:
                ordered[node] = None
                continue
            stack.append((node, True))
            before = sorted(graph.producers[node], key=lambda p: need[p] - graph.size[p])
            stack += [(producer, False) for producer in before if producer not in ordered]
    return list(ordered)


def _needs(graph: _Graph) -> list[int]:
    """Return the peak bytes of computing each node's subtree, sharing ignored."""
    need: list[int] = []
    for node, producers in enumerate(graph.producers):
        held = peak = 0
        for producer in sorted(producers, key=lambda p: graph.size[p] - need[p]):
            peak = max(peak, held + need[producer])
            held += graph.size[producer]
        need.append(max(peak, held + graph.size[node]))
    return need


def _search(graph: _Graph, limit: int) -> list[int] | None:
    """Return the order of the lowest peak below *limit*; None if there is none or it takes long.

    States are sets of nodes that are done. The one of the lowest peak so far goes on first, so the
    first to be complete is the best. A node that can be done within the peak so far, and leaves no
    more behind than it finds, is done at once: later it would save nothing.
    """
    everything = (1 << len(graph.size)) - 1
    heap: list[tuple[int, int, int, int, tuple[int, ...]]] = [(0, 0, 0, 0, ())]
    seen: set[int] = set()
    while heap and len(seen) < SEARCH_STATES:
        peak, _, done, live, order = heapq.heappop(heap)
        if done == everything:
            return list(order)
        if done in seen:
            continue
        seen.add(done)
        for node, during, after in _choices(graph, done, live, peak):
            if during < limit:
                state = done | 1 << node
                item = (max(peak, during), -state.bit_count(), state, after, (*order, node))
                heapq.heappush(heap, item)
    return None


def _choices(graph: _Graph, done: int, live: int, peak: int) -> list[tuple[int, int, int]]:
    """Return the nodes that may come next, with the bytes live during and after; one if free."""
    found = []
    for node, producers in enumerate(graph.producers):
        if done >> node & 1 or not all(done >> p & 1 for p in producers):
            continue
        during, after = graph.step(node, done, live)
        if during <= peak and after <= live:
            return [(node, during, after)]
        found.append((node, during, after))
    return found
