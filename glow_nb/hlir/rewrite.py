"""Rewriting of functions: nodes are offered to a rule, and the result is built anew."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeVar, overload

from typing_extensions import override

from glow_nb.base.errors import GlowError, OptionError, VerifyError
from glow_nb.base.noted import keep, trial
from glow_nb.base.open_size_error import OpenSizeError, open_error
from glow_nb.base.schema import operands_of, renewed
from glow_nb.base.types import TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.given_function import given_function
from glow_nb.hlir.graph import Constant, Function, Node, Placeholder, State, Value, producer_of
from glow_nb.hlir.provenance import record_replacement
from glow_nb.hlir.save import Save

N = TypeVar("N", bound=Node)
M = TypeVar("M", bound=Node)

Replacement = Value | tuple[Value, ...] | None


_NO_NEW_ONES = (
    "a rule cannot add inputs and outputs; glow_nb.Builder.continuing(function) holds a whole "
    "function, and can"
)


class Rewriter(Builder):
    """The builder that a rule gets: new nodes are inserted before the node that is offered.

    Attributes:
        current: The node with rewritten operands.
        has_replaced: Whether a rule has replaced a node.
        updates: The updates of states that rules have emitted.
    """

    def __init__(self, function: Function) -> None:
        """Rewrite *function*; every name in it counts as taken."""
        super().__init__(function.name, function.names)
        self.origins.update(function.origins)
        self.current: Node | None = None
        self._name_is_free = False
        self._function = function
        self._new_use_counts: dict[Value, int] = {}
        self.has_replaced = False
        self.updates: list[Save] = []

    @override
    def input(self, name: str, type: TensorType | str) -> Placeholder:
        """Raise GlowError: rules leave the signature of a function as it is."""
        raise GlowError(f"input {name!r:.80} of function {self.name!r}: {_NO_NEW_ONES}")

    @override
    def save(self, value: Value, name: str) -> Placeholder:
        """Raise GlowError: rules leave the signature of a function as it is."""
        raise GlowError(f"output {name!r:.80} of function {self.name!r}: {_NO_NEW_ONES}")

    @override
    def update(self, state: State, value: Value) -> Save:
        """Let the next run begin with *value* in *state*, also if the rule keeps its node."""
        made = super().update(state, value)
        self.updates.append(made)
        return made

    @override
    def emit(self, node: N, name: str | None = None) -> N:
        """Append *node*, by default named after the node being replaced and its own opcode.

        The name of the node being replaced is free: the first node that asks for it gets it.
        """
        if self.current is None or not isinstance(node, Node):
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
        """Return the last node if it should take the name of the current one, which is still
        unused.
        """
        return self.nodes[-1] if self._name_is_free and self.nodes else None

    @property
    def is_open(self) -> bool:
        """Whether the function has sizes that are known only when it runs."""
        return bool(self._function.sizes)

    def has(self, node: Node) -> bool:
        """Return whether *node* is emitted, or was in the function to begin with."""
        return any(node is each for each in reversed(self.nodes))

    def use_count(self, value: Value) -> int:
        """Return how many operands of the function read *value*."""
        counted = self._new_use_counts.get(value)
        return self._function.use_counts.get(value, 0) if counted is None else counted

    def carry_uses(self, old: Value, new: Value) -> None:
        """Count the readers of *old* as readers of *new*."""
        if new is not old:
            self._new_use_counts[new] = self.use_count(new) + self.use_count(old)

    def carry_all_uses(self, olds: tuple[Value, ...], news: tuple[Value, ...]) -> None:
        """Count the readers of each value as readers of its replacement."""
        for old, new in zip(olds, news, strict=True):
            self.carry_uses(old, new)


Rule = Callable[[Node, Rewriter], Replacement]
"""Takes a node whose operands are already rewritten; returns what replaces it. None, or the node
itself, keeps it.

A node with several results is replaced by a tuple of as many values.
"""


@overload
def rewrite(function: Function, rule: Rule, *, for_all_sizes: bool = True) -> Function: ...
@overload
def rewrite(
    function: Function,
    rule: Callable[[M, Rewriter], Replacement],
    *of: type[M],
    for_all_sizes: bool = True,
) -> Function: ...
def rewrite(
    function: Function,
    rule: Callable[..., Replacement],
    *of: type[Node],
    for_all_sizes: bool = True,
) -> Function:
    """Offer every node *of* these classes to *rule* in order and return the rewritten function.

    Without classes, every node is offered. What replaces a node inherits its name if it was made
    for it. Nodes that lose their last reader stay until ``eliminate_dead_nodes``. The same function
    is returned if the rule replaced nothing.

    In a graph with open sizes and *for_all_sizes*, a node is kept if its replacement would be valid
    only with a new guard, or has a size that is equal only by a guard, or if the rule needs a
    number. Otherwise such guards are recorded.

    Raises:
        OpenSizeError: The rule needs a number, without *for_all_sizes*; names the node.
        OptionError: *function* is not a Function, *rule* cannot be called, or one of *of* is not a
            class.
        GlowError: The rule returned something else than a value for each result of a node, or a
            value that is not in the function and that a node reads.
    """
    offered = given_function(function).classes_of(_checked_classes(rule, of))
    if not offered:
        return function
    rewriter = Rewriter(function)
    ask = _asking(rule, rewriter, is_open=bool(function.sizes), for_all_sizes=for_all_sizes)
    replaced: dict[Value, Value] = {}
    borrowed: list[tuple[Node, Value]] = []
    for node in function.nodes:
        is_offered = type(node) in offered
        if not (replaced or is_offered):
            rewriter.nodes.append(node)
            continue
        current = renewed(node, replaced) if replaced else node
        if current is not node:
            rewriter.carry_all_uses(node.results, current.results)
        mark = len(rewriter.nodes)
        found = None
        if is_offered:
            rewriter.begin(current)
            found = ask(current)
        if found is None:
            rewriter.nodes.append(current)
            if current is node:
                continue
            values = current.results
        else:
            rewriter.has_replaced = True
            values = _inherit_name(current, found, rewriter, mark)
            _check_replacement(current, values)
            made = rewriter.nodes[mark:]
            borrowed += _not_of(made, current, values)
            record_replacement(rewriter.origins, current, made, values)
        for old, looked_at, new in zip(node.results, current.results, values, strict=True):
            if new is not old:
                replaced[old] = new
                rewriter.carry_uses(looked_at, new)
    return _rewritten(function, rewriter, borrowed)


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


def _checked_classes(rule: object, of: tuple[type[Node], ...]) -> tuple[type[Node], ...]:
    """Return the classes that a rule is offered; raise OptionError if it is none, or they are."""
    if not callable(rule):
        raise OptionError(
            f"rule={rule!r:.80}: give a function that takes a node and a rewriter, and returns "
            "what replaces the node"
        )
    for cls in of:
        if not isinstance(cls, type):
            raise OptionError(f"{cls!r:.80} is no class of nodes; give one such as ops.Relu")
    return of or (Node,)


def _asking(
    rule: Callable[..., Replacement], rewriter: Rewriter, *, is_open: bool, for_all_sizes: bool
) -> Callable[[Node], tuple[Value, ...] | None]:
    """Return a function that asks for the values that replace a node's results; None for none."""

    def ask(node: Node) -> tuple[Value, ...] | None:
        return _replacement(node, rule(node, rewriter))

    if is_open:
        return partial(_answer_for_sizes, ask, rewriter, for_all_sizes=for_all_sizes)
    return ask


def _answer_for_sizes(
    ask: Callable[[Node], tuple[Value, ...] | None],
    rewriter: Rewriter,
    node: Node,
    *,
    for_all_sizes: bool,
) -> tuple[Value, ...] | None:
    """Do what *ask* does with a node of a function with open sizes."""
    mark, updates = rewriter.mark(), len(rewriter.updates)
    found = None
    with trial() as notes:
        try:
            found = ask(node)
        except OpenSizeError as error:
            if not for_all_sizes:
                raise open_error(error.size, f"a number is needed for {node!r}") from error
        except VerifyError:  # what would fit if two sizes were the same text, and not just equal
            if not for_all_sizes:
                raise
    if found is not None and not (for_all_sizes and (notes or _types(found) != node.result_types)):
        keep(notes)
        return found
    rewriter.reset(mark)
    del rewriter.updates[updates:]
    return None


def _replacement(node: Node, result: object) -> tuple[Value, ...] | None:
    """Return the values that come instead of the results of *node*; None if it stays.

    Raises:
        GlowError: *result*, which a rule returned, is neither values nor None.
    """
    if result is None or result is node:
        return None
    values = result if isinstance(result, tuple) else (result,)
    if isinstance(result, Node):
        values = result.results
    if not all(isinstance(value, Value) for value in values):
        raise GlowError(
            f"{node}: a rule returned {result!r:.80}; it must return a value, a tuple of values, "
            "one for each result, or None to keep the node"
        )
    return None if values and values == node.results else values


def _not_of(made: list[Node], old: Node, values: tuple[Value, ...]) -> Iterator[tuple[Node, Value]]:
    """Yield *old* with each of *values* that comes instead of it and that none of *made* makes."""
    for value in values:
        if producer_of(value) not in made:
            yield old, value


def _rewritten(
    function: Function, rewriter: Rewriter, borrowed: list[tuple[Node, Value]]
) -> Function:
    """Return *function* with the nodes of *rewriter*.

    Raises:
        GlowError: A node reads one of the values *borrowed*, those that a rule returned and did not
            emit, and the function does not have it.
    """
    if not rewriter.has_replaced and not any(made in rewriter.nodes for made in rewriter.updates):
        return function
    present = set(rewriter.nodes) if borrowed else set()
    missing = {
        value: old for old, value in reversed(borrowed) if not _is_there(value, function, present)
    }
    read = itertools.chain.from_iterable(map(operands_of, rewriter.nodes)) if missing else ()
    for operand in read:
        if operand in missing:
            returned = producer_of(operand) or operand
            raise GlowError(
                f"{missing[operand]}: a rule returned {returned!r}, which is not in the function; "
                "emit it with the rewriter, as in return rewriter.emit(Relu(x)), once for each "
                "node that it replaces"
            )
    return function.with_nodes(rewriter.nodes, rewriter.origins)


def _is_there(value: Value, function: Function, nodes: set[Node]) -> bool:
    """Return whether one of *nodes* makes *value*, or it is stored in *function* or may be."""
    made_by = producer_of(value)
    if made_by is not None:
        return made_by in nodes
    return isinstance(value, Constant | State) or value in function.placeholders


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


def _types(values: tuple[Value, ...]) -> tuple[TensorType, ...]:
    return tuple(value.type for value in values)


def _check_replacement(old: Node, values: tuple[Value, ...]) -> None:
    """Raise GlowError unless *values* have the types of the results of *old*."""
    types = _types(values)
    if types != old.result_types:
        written = [str(t) for t in types]
        raise GlowError(
            f"{old}: a rule replaced results of types {[str(t) for t in old.result_types]} "
            f"by values of types {written}"
        )
