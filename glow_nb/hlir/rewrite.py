"""The one way to change a function: offer its nodes to a rule, build the result anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar, overload

from typing_extensions import override

from glow_nb.errors import GlowError
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.given_function import given_function
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.provenance import record_replacement
from glow_nb.schema import renewed

N = TypeVar("N", bound=Node)
M = TypeVar("M", bound=Node)

Replacement = Value | tuple[Value, ...] | None


class Rewriter(Builder):
    """The builder that a rule gets: new nodes land before the node that is being looked at."""

    def __init__(self, function: Function) -> None:
        """Rewrite *function*; every name in it counts as taken."""
        super().__init__(function.name, function.names)
        self.origins.update(function.origins)
        self.current: Node | None = None
        self._name_is_free = False
        self._function = function
        self._new_use_counts: dict[Value, int] = {}

    @override
    def emit(self, node: N, name: str | None = None) -> N:
        """Append *node*, by default named after the node being replaced and its own opcode.

        The name of the node being replaced is free: the first node that asks for it gets it.
        """
        if self.current is None:
            return super().emit(node, name)
        wanted = name or node.name or f"{self.current.name}_{node.opcode}"
        if wanted != self.current.name or not self._name_is_free:
            return super().emit(node, wanted)
        self._name_is_free = False
        named = node.copied(name=wanted)
        self.nodes.append(named)
        return named

    def begin(self, node: Node) -> None:
        """Look at *node* from now on."""
        self.current = node
        self._name_is_free = True

    def end(self) -> Node | None:
        """Return the last node if it should take the name of the current one, still free."""
        return self.nodes[-1] if self._name_is_free and self.nodes else None

    def use_count(self, value: Value) -> int:
        """Return how many operands of the function read *value*."""
        counted = self._new_use_counts.get(value)
        return self._function.use_counts.get(value, 0) if counted is None else counted

    def carry_uses(self, old: Value, new: Value) -> None:
        """Let the readers of *old* count as readers of *new*."""
        if new is not old:
            self._new_use_counts[new] = self.use_count(new) + self.use_count(old)

    def carry_all_uses(self, olds: tuple[Value, ...], news: tuple[Value, ...]) -> None:
        """Let the readers of each value count as readers of another one, which comes instead."""
        for old, new in zip(olds, news, strict=True):
            self.carry_uses(old, new)


Rule = Callable[[Node, Rewriter], Replacement]
"""Takes a node whose operands are already rewritten; returns what replaces it. None, or the node
itself, keeps it.

A node with several results is replaced by a tuple of as many values.
"""


@overload
def rewrite(function: Function, rule: Rule) -> Function: ...
@overload
def rewrite(
    function: Function, rule: Callable[[M, Rewriter], Replacement], *of: type[M]
) -> Function: ...
def rewrite(function: Function, rule: Callable[..., Replacement], *of: type[Node]) -> Function:
    """Offer every node *of* these classes to *rule* in order and return the rewritten function.

    Without classes, every node is offered. What replaces a node inherits its name if it was made
    for it. Nodes that lose their last reader stay until ``eliminate_dead_nodes``. The same function
    comes back when no rule fired.

    Raises:
        OptionError: *function* is none.
    """
    offered = given_function(function).classes_of(of or (Node,))
    if not offered:
        return function
    rewriter = Rewriter(function)
    replaced: dict[Value, Value] = {}
    fired = False
    for node in function.nodes:
        is_offered = type(node) in offered
        if not (replaced or is_offered):
            rewriter.nodes.append(node)
            continue
        current = renewed(node, replaced) if replaced else node
        if current is not node:
            rewriter.carry_all_uses(node.results, current.results)
        mark = len(rewriter.nodes)
        result = None
        if is_offered:
            rewriter.begin(current)
            result = rule(current, rewriter)
        if result is None or result is current or (result and result == current.results):
            rewriter.nodes.append(current)
            if current is node:
                continue
            values = current.results
        else:
            fired = True
            values = _inherit_name(current, _as_tuple(result), rewriter, mark)
            _check_replacement(current, values)
            record_replacement(rewriter.origins, current, rewriter.nodes[mark:], values)
        for old, looked_at, new in zip(node.results, current.results, values, strict=True):
            if new is not old:
                replaced[old] = new
                rewriter.carry_uses(looked_at, new)
    return function.with_nodes(rewriter.nodes, rewriter.origins) if fired else function


def substitute(function: Function, mapping: Mapping[Value, Value]) -> Function:
    """Return *function* with every read of a key of *mapping* replaced by its value.

    The same function comes back when nothing reads a key.
    """
    if not mapping:
        return function
    replaced = dict(mapping)
    nodes: list[Node] = []
    for node in function.nodes:
        current = renewed(node, replaced)
        nodes.append(current)
        if current is not node:
            replaced.update(zip(node.results, current.results, strict=True))
    changed = any(new is not old for new, old in zip(nodes, function.nodes, strict=True))
    return function.with_nodes(nodes) if changed else function


def _as_tuple(result: Value | tuple[Value, ...]) -> tuple[Value, ...]:
    if isinstance(result, tuple):
        return result
    return result.results if isinstance(result, Node) else (result,)


def _inherit_name(
    old: Node, values: tuple[Value, ...], rewriter: Rewriter, mark: int
) -> tuple[Value, ...]:
    """Give *old*'s name to the last node emitted for it, if that node is what replaces it."""
    last = rewriter.end()
    if last is None or len(rewriter.nodes) == mark or values != last.results:
        return values
    renamed = last.copied(name=old.name)
    rewriter.nodes[-1] = renamed
    rewriter.carry_all_uses(last.results, renamed.results)
    return renamed.results


def _check_replacement(old: Node, values: tuple[Value, ...]) -> None:
    """Raise GlowError unless *values* have the types of the results of *old*."""
    types = tuple(value.type for value in values)
    if types != old.result_types:
        written = [str(t) for t in types]
        raise GlowError(
            f"{old}: a rule replaced results of types {[str(t) for t in old.result_types]} "
            f"by values of types {written}"
        )
