"""The imported nodes that a node was made from, kept while rules replace nodes.

A node that was imported stands for itself. What a rule emits instead of a node stands for that
node, and for those that it makes superfluous: the ones between what the new nodes read and the node
that was replaced. So a convolution into which a batch normalization was folded stands for both::

    %conv = convolution(%x, %w, %b)
    %bn = batch_normalization(%conv, ...)  ->  %bn = convolution(%x, %w2, %b2) ... from %conv, %bn

Nodes that only lay numbers out anew stand for such nodes, and those that compute for such that do,
wherever there are both: a transpose that sinks below a relu is still the transpose it was.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from itertools import islice

from glow_nb.base.schema import operands_of
from glow_nb.hlir.graph import Constant, Node, Value, producer_of

Origins = MutableMapping[str, tuple[str, ...]]
"""Names of imported nodes by the name of the node that stands for them, if not for itself alone."""

LAYOUT = frozenset({"broadcast", "concat", "reshape", "slice", "split", "transpose"})
"""Opcodes of the operators that compute nothing."""

MAX_PATTERN = 64
"""Nodes, and operands of one, that are looked at when a node is replaced: no pattern has more."""

MAX_DETOUR = 4
"""Nodes that are looked at when one is replaced by what was there already."""


def record_replacement(
    origins: Origins, replaced: Node, emitted: Sequence[Node], values: Iterable[Value]
) -> None:
    """Note in *origins* the origins of *emitted* nodes, and of *values*, which replace a node."""
    own = _origins_of(origins, replaced)
    shares: dict[str, dict[str, None]] = {node.name: {} for node in emitted}
    for superfluous in [*_superfluous(replaced, emitted), replaced]:
        found = _origins_of(origins, superfluous)
        for heir in _heirs(superfluous, emitted):
            shares[heir.name].update(dict.fromkeys(found))
    for name, share in shares.items():
        _set(origins, name, tuple(share) or own)
    already = [node for node in map(producer_of, values) if node is not None]
    for survivor in _survivors(replaced, [node for node in already if node not in emitted]):
        _set(origins, survivor.name, (*_origins_of(origins, survivor), *own))


def _origins_of(origins: Origins, node: Node) -> tuple[str, ...]:
    return origins.get(node.name, (node.name,))


def _set(origins: Origins, name: str, found: tuple[str, ...]) -> None:
    unique = tuple(dict.fromkeys(found))
    if unique == (name,):
        origins.pop(name, None)
    else:
        origins[name] = unique


def _heirs(superfluous: Node, emitted: Sequence[Node]) -> Sequence[Node]:
    """Return those of *emitted* that take over the work of a node: the most alike."""
    same = [node for node in emitted if node.opcode == superfluous.opcode]
    computes = superfluous.opcode not in LAYOUT
    return same or [n for n in emitted if (n.opcode not in LAYOUT) == computes] or emitted


def _survivors(replaced: Node, already: Sequence[Node]) -> Sequence[Node]:
    """Return the nodes that were there *already* and do the work of *replaced*, too.

    They lie between what this reads and what it was replaced by, such as an equal node, or one that
    computes the results of both.
    """
    read = {value for value in operands_of(replaced) if not isinstance(value, Constant)}
    search = _Search(read, MAX_DETOUR)
    for node in already:
        search.leads_to_end(node)
    return search.found


def _superfluous(replaced: Node, emitted: Sequence[Node]) -> list[Node]:
    """Return the nodes on the paths from what *emitted* nodes read to *replaced*, in order."""
    inside = set(emitted)
    read = {value for node in emitted for value in operands_of(node)}
    ends = {value for value in read if value not in inside and not isinstance(value, Constant)}
    search = _Search(ends, MAX_PATTERN)
    for operand in operands_of(replaced) if ends else ():
        search.leads_to_end(operand)
    return search.found


class _Search:
    """Looks for the nodes from which a value that is an end is reached, walking up."""

    def __init__(self, ends: set[Value], limit: int) -> None:
        self.found: list[Node] = []
        self._ends, self._limit = ends, limit
        self._known: dict[Node, bool] = {}

    def leads_to_end(self, value: Value) -> bool:
        """Return whether *value* is an end or computed from one; add what is between to *found*."""
        if value in self._ends:
            return True
        node = producer_of(value)
        if node is None or (len(self._known) >= self._limit and node not in self._known):
            return False
        if node not in self._known:
            self._known[node] = False
            first = islice(operands_of(node), MAX_PATTERN)
            leads = [self.leads_to_end(operand) for operand in first]
            self._known[node] = any(leads)
            if self._known[node]:
                self.found.append(node)
        return self._known[node]
