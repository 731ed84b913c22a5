"""Compute values again, that many nodes later are read once more, instead of keeping them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial

from glow_nb.base.arguments import whole_number
from glow_nb.base.schema import map_operands, operands_of
from glow_nb.base.size import hinted
from glow_nb.hlir.graph import Function, Node, Value, producer_of
from glow_nb.hlir.ops import Broadcast, Reshape
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.save import Save

MOST_NODES = 8
"""Nodes that are computed again for one value."""

SMALL = 8
"""What is kept longer, so that a value can be computed again, is together this number of times
smaller."""


@register_pass
def rematerialize(function: Function, *, budget: int = 0) -> Function:
    """Compute cheap values again where the function needs its peak of memory to keep them.

    ::

        %a = exp(%x)                           %a = exp(%x)
        %y = mat_mul(%a, %w)                   %y = mat_mul(%a, %w)
        ... many bytes are live here      ->   ...
        %z = mul(%a, %d_y)                     %a_again = exp(%x)
                                               %z = mul(%a_again, %d_y)

    Elementwise nodes, broadcasts and reshapes are cheap if their operands are kept until then
    anyway, are cheap themselves, or are small. The pass ends when the live results take at most
    *budget* bytes at any time, or when nothing else reduces the peak.

    It has to come last, as ``Step("rematerialize", is_last=True)``: ``eliminate_common_nodes``
    undoes it.
    """
    budget = whole_number("budget", budget, 0)
    while True:
        live = _Liveness(function)
        if live.peak <= budget:
            return function
        chosen = live.candidates()
        if not chosen:
            return function
        renewed = _computed_again(function, chosen, live)
        if _Liveness(renewed).peak >= live.peak:
            return function
        function = renewed


class _Liveness:
    """The lifetimes of results, in the order of the nodes."""

    def __init__(self, function: Function) -> None:
        self.nodes = function.nodes
        self.place = {node: index for index, node in enumerate(self.nodes)}
        self.readers: dict[Node, list[int]] = {node: [] for node in self.nodes}
        for index, node in enumerate(self.nodes):
            for producer in filter(None, map(producer_of, operands_of(node))):
                self.readers[producer].append(index)

    @cached_property
    def bytes_at(self) -> list[int]:
        """The bytes of results that are live while each node runs."""
        change = [0] * (len(self.nodes) + 1)
        for node, readers in self.readers.items():
            size = _bytes_of(node)
            change[self.place[node]] += size
            change[max(readers, default=self.place[node]) + 1] -= size
        total, sums = 0, []
        for amount in change[:-1]:
            total += amount
            sums.append(total)
        return sums

    @property
    def peak(self) -> int:
        """The most bytes that are live at one time."""
        return max(self.bytes_at, default=0)

    @cached_property
    def top(self) -> int:
        """The first node at which the peak is reached."""
        return self.bytes_at.index(self.peak)

    def candidates(self) -> set[Node]:
        """Return the nodes whose results lie unread at the peak, and can be computed again."""
        return {node for node in self.nodes[: self.top] if self._is_candidate(node)}

    def _is_candidate(self, node: Node) -> bool:
        late = [reader for reader in self.readers[node] if reader > self.top]
        if not late or self.top in self.readers[node]:
            return False
        if not _is_cheap(node) or any(isinstance(self.nodes[reader], Save) for reader in late):
            return False
        longer = self._kept_longer(node, min(late), [])
        return longer is not None and longer * SMALL <= _bytes_of(node)

    def _kept_longer(self, node: Node, until: int, seen: list[Node]) -> int | None:
        """Return the bytes that must be kept longer to compute *node* again; None for too much."""
        seen.append(node)
        if len(seen) > MOST_NODES:
            return None
        total = 0
        for operand in filter(None, map(producer_of, operands_of(node))):
            if self.is_live(operand, until) or operand in seen:
                continue
            more: int | None = _bytes_of(operand)
            if _is_cheap(operand):
                more = self._kept_longer(operand, until, seen)
            if more is None:
                return None
            total += more
        return total

    def is_live(self, node: Node, index: int) -> bool:
        """Return whether the result of *node* is read by the node at *index*, or later."""
        return max(self.readers[node], default=-1) >= index


def _computed_again(function: Function, chosen: set[Node], live: _Liveness) -> Function:
    """Return *function* with the *chosen* nodes made anew for those that read them late."""
    rewriter = Rewriter(function)
    clones: dict[Value, Value] = {}
    renewed: dict[Value, Value] = {}

    def again(value: Value, until: int) -> Value:
        node = producer_of(value)
        if node is None or value in clones:
            return clones.get(value, value)
        if node not in chosen and (not _is_cheap(node) or live.is_live(node, until)):
            return renewed.get(value, value)
        operands = map_operands(node, lambda operand: again(operand, until))
        clones[value] = rewriter.emit(operands.copied(name=""), f"{node.name}_again")
        return clones[value]

    for index, node in enumerate(function.nodes):
        read = set(operands_of(node))
        late = {value for value in read if index > live.top and producer_of(value) in chosen}
        for value in late:
            again(value, index)
        newest = partial(_newest, renewed | {value: clones[value] for value in late})
        current = map_operands(node, newest)
        rewriter.nodes.append(current)
        renewed.update(zip(node.results, current.results, strict=True))
    return function.with_nodes(rewriter.nodes, rewriter.origins)


def _newest(mapping: Mapping[Value, Value], value: Value) -> Value:
    return mapping.get(value, value)


def _is_cheap(node: Node) -> bool:
    is_elementwise = node.data_parallel and len(node.result_types) == 1
    return (is_elementwise or isinstance(node, Broadcast | Reshape)) and node.predicate is None


def _bytes_of(node: Node) -> int:
    return hinted(sum(type.size_bytes for type in node.result_types))
