"""Rules on graphs: patterns are looked for in a function, and new nodes come instead.

A pattern is looked for at each node that its root may be, and from there up through operands. What
it finds between stays for other readers, if it has any. Passes have all that they make rules of
from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import override

from glow_nb.base.errors import GlowError, VerifyError
from glow_nb.base.foreign import foreign
from glow_nb.base.matching import CONTEXT, ROOT, Maker, PatternCompiler, Registers, Step
from glow_nb.base.pattern import ANY as ANY
from glow_nb.base.pattern import Given, Item, Number, Pattern, ResultOf, Wildcard, opcode_of
from glow_nb.base.pattern import any_of as any_of
from glow_nb.base.pattern import named as named
from glow_nb.base.pattern import number as number
from glow_nb.base.pattern import used_here as used_here
from glow_nb.base.pattern import wildcard as wildcard
from glow_nb.base.pattern import wildcards as wildcards
from glow_nb.base.rewriting import LEVELS, items_in
from glow_nb.base.rewriting import Rewrite as Rewrite
from glow_nb.base.rewriting import Rules as Rules
from glow_nb.base.rewriting import rule as rule
from glow_nb.base.rule_walks import Chain, Chains, to_the_end
from glow_nb.base.schema import structural_key
from glow_nb.hlir.graph import Constant, Function, Node, Result, Value, producer_of
from glow_nb.hlir.known import has_number, is_uniform
from glow_nb.hlir.live import with_live_nodes
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

MOST_COMPARED = 16
"""Elements of a constant by which it is told apart; larger ones are told apart by identity."""


def rewrite_once(function: Function, rules: Rules) -> Function:
    """Offer every node to *rules* in one walk, and return the rewritten function.

    What replaces a node is not offered again, and nodes that lose their last reader stay: this is
    for passes that are repeated with others anyway. The same function comes back if nothing fits.
    """
    return _walk(function, rules, Counter())


def keeps_type(node: Node, x: Value) -> bool:
    """Return whether *x* is of the type of *node*, so that it may come instead: a condition."""
    return x.type == node.type


def rewrite_by(function: Function, rules: Rules, traits: object = None) -> Function:
    """Return *function* with all that *rules* make of it, until none fits any more.

    Nodes that nothing reads any more are gone. The same function comes back if nothing fits.
    *traits* are those of kernels, which a graph knows nothing of.

    Raises:
        GlowError: The rules undo each other or come to no end; names those at fault.
    """

    def walk(function: Function, fired: Counter[str]) -> Function:
        after = _walk(function, rules, fired)
        return after if after is function else with_live_nodes(after)

    return to_the_end(function, len(function.nodes), walk, _state_of)


LEVELS[Function] = rewrite_by


def _state_of(function: Function) -> int:
    """Return a number that functions with the same nodes, whatever they are called, share."""
    numbers: dict[Value, object] = {}
    keys: list[object] = []

    def alike(value: Value) -> object:
        if isinstance(value, Constant) and value not in numbers:
            numbers[value] = _content(value)
        return numbers.get(value, value)

    for node in function.nodes:
        keys.append(structural_key(node, alike))
        numbers.update((result, ("result", len(numbers), len(keys))) for result in node.results)
    return hash(tuple(keys))


def _content(constant: Constant) -> object:
    if constant.payload is None or constant.type.size > MOST_COMPARED:
        return constant
    return constant.type, constant.array.tobytes()


def _walk(function: Function, rules: Rules, fired: Counter[str]) -> Function:
    chains: Chains | None = rules.compiled.get(Function)
    if chains is None:
        chains = rules.compiled[Function] = Chains(rules, _compiled, _may_begin)
    applied = chains.applied

    def offer(node: Node, rewriter: Rewriter) -> Replacement:
        found: Replacement = applied(node, rewriter, fired)
        return found

    classes = dict.fromkeys(cls for root in chains.roots for cls in root.classes)
    return rewrite(function, offer, *classes)


def _may_begin(cls: type, root: Item) -> bool:
    """Return whether a node of class *cls* may be the *root* of a pattern."""
    return cls in root.classes if root.is_exact else issubclass(cls, root.classes)


def _compiled(rule: Rewrite) -> Chain:
    for item in items_in(rule.pattern):
        for cls in item.classes:
            if not issubclass(cls, Node):
                raise GlowError(
                    f"rule {rule.__name__!r}: it is about the instruction {opcode_of(cls)!r}, and "
                    "a graph has none; give the rule as program_pipeline=..."
                )
    compiler = _GraphPattern(rule.pattern)
    first = compiler.chain(_end_of(rule, compiler))
    return Chain(rule.__name__, compiler.quick_test(), compiler.size, first)


class _GraphPattern(PatternCompiler):
    """A pattern that is looked for in a graph, where a value with one result is its node."""

    @override
    def fetch(self, value: int, into: int, reader: int, index: int | None) -> Maker | None:
        if index is None:
            return None

        def make(then: Step) -> Step:
            def fetch(r: Registers) -> Any:
                found = r[value]
                if found.__class__ is not Result or found.index != index:
                    return None
                r[into] = found.node
                return then(r)

            return fetch

        return make

    @override
    def classes_of(self, pattern: Pattern) -> tuple[type, ...]:
        if isinstance(pattern, Number):
            return (Constant,)
        if isinstance(pattern, ResultOf):
            return (Result,)
        return pattern.classes if isinstance(pattern, Item) else ()

    @override
    def used_here(self, value: int, reader: int, readings: int) -> Maker:
        return lambda then: (
            lambda r: then(r) if r[CONTEXT].use_count(r[value]) == readings else None
        )

    @override
    def is_number(self, value: Any, number: float) -> bool:
        return is_uniform(value, number)


def _end_of(rule: Rewrite, compiler: PatternCompiler) -> Step:
    """Return the last step of a chain: it looks at the condition and builds the replacement."""
    build = _builder_of(rule, compiler)
    when, subject = rule.when, foreign(GlowError, f"rule {rule.__name__!r}")
    asked = compiler.arguments(rule.condition_names)

    def end(r: Registers) -> Replacement:
        with subject:
            try:
                if when is not None and not when(*asked(r)):
                    return None
                found = build(r)
            except VerifyError as error:
                if r[CONTEXT].is_open:
                    raise  # the rule is not for these sizes
                raise GlowError(
                    f"rule {rule.__name__!r}: the replacement of {r[ROOT]!r} does not fit: {error}"
                ) from error
        return None if found is None else _checked(rule, r[ROOT], found, r[CONTEXT])

    return end


def _checked(rule: Rewrite, node: Node, found: Any, rewriter: Rewriter) -> tuple[Value, ...]:
    """Return the values that *rule* has *found* for *node*.

    Raises:
        GlowError: They are no values, or have other types.
    """
    values: tuple[Any, ...] = found if isinstance(found, tuple) else (found,)
    values = found.results if isinstance(found, Node) else values
    if not all(isinstance(value, Value) for value in values):
        raise GlowError(
            f"rule {rule.__name__!r}: its replacement of {node!r} is {found!r:.80}; it must be a "
            "value, a tuple of values, one for each result, or None to keep the node"
        )
    types = tuple(value.type for value in values)
    if types != node.result_types and not rewriter.is_open:
        before, after = (", ".join(map(str, each)) for each in (node.result_types, types))
        raise GlowError(
            f"rule {rule.__name__!r}: it would replace {node!r} : {before} by what is {after}; "
            "give it a condition (when=...), or convert, reshape or broadcast the replacement"
        )
    return values


def _builder_of(rule: Rewrite, compiler: PatternCompiler) -> Callable[[Registers], Any]:
    if rule.template is not None:
        return _template(rule.template, compiler.places)
    asked, function = compiler.arguments(rule.replacement_names), rule.replacement

    def build(r: Registers) -> Any:
        rewriter: Rewriter = r[CONTEXT]
        mark = rewriter.mark()
        found = function(*asked(r))
        if found is None or found is r[ROOT] or found == r[ROOT].results:
            if rewriter.mark() != mark:
                rewriter.reset(mark)
            return None
        emission = _Emission(r, mark[0])
        if isinstance(found, tuple):
            return tuple(map(emission.value, found))
        if isinstance(found, Pattern):  # of values and numbers
            return _template(found, {}, emission)(r)
        return emission.node(found) if isinstance(found, Node) else emission.value(found)

    return build


class _Emission:
    """Emits the nodes that a function of a rule has built and not emitted, operands first."""

    def __init__(self, registers: Registers, mark: int) -> None:
        """Begin once the function has returned; nodes from number *mark* on are its own."""
        self._rewriter: Rewriter = registers[CONTEXT]
        self._root: Node = registers[ROOT]
        self._registers, self._mark = registers, mark
        self._made: dict[Node, Node] = {}

    def value(self, value: Any) -> Any:
        """Return *value*, as it is once all is emitted that it is computed from."""
        node = producer_of(value) if isinstance(value, Value) else None
        if node is None:
            return value
        emitted = self.node(node)
        if emitted is node:
            return value
        return emitted.results[value.index] if isinstance(value, Result) else emitted

    def node(self, node: Node) -> Node:
        """Return *node* if it is there, else the same one emitted."""
        if node not in self._made:
            self._made[node] = node
            if not self._is_there(node):
                self._made[node] = self._rewriter.emit(node.map_operands(self.value))
        return self._made[node]

    def _is_there(self, node: Node) -> bool:
        """Return whether *node* is in the function; what is built around the root is built anew."""
        if not node.name or node is self._root:
            return False
        if any(node is found for found in self._registers):
            return True
        own = self._rewriter.nodes[self._mark :]
        if node.name == self._root.name:
            return any(node is each for each in own)
        return self._rewriter.has(node)


def _template(
    pattern: Pattern, places: Mapping[str, int], emission: _Emission | None = None
) -> Callable[[Registers], Any]:
    """Return what builds *pattern* of what is in registers, and of nodes that are not emitted."""
    if isinstance(pattern, Wildcard) and emission is None:
        place = places[pattern.name]
        return lambda r: r[place]
    if isinstance(pattern, Given):
        assert emission is not None
        value, given = emission.value, pattern.value
        return lambda _: value(given)
    if not isinstance(pattern, Item) or not pattern.is_exact:
        raise GlowError(
            f"{pattern!r} cannot be built; return operators, values and numbers (the value of a "
            "wildcard is passed to the parameter of its name)"
        )
    (cls,) = pattern.classes
    fields = [(name, _field(value, places, emission)) for name, value in pattern.fields.items()]

    def build(r: Registers) -> Node:
        values = {name: value(r) for name, value in fields}
        beside = next((v.type for v in values.values() if isinstance(v, Value)), None)
        for name, value in values.items():
            if isinstance(value, Number):
                if beside is None:
                    raise GlowError(f"{pattern!r}: there is no operand except the number")
                if not has_number(beside.kind, value.value):
                    raise GlowError(
                        f"{pattern!r}: {beside.kind.value} cannot represent {value.value!r}; give "
                        "the rule a condition (when=...)"
                    )
                values[name] = r[CONTEXT].number(beside, value.value)
        emitted: Node = r[CONTEXT].emit(cls(**values))
        return emitted

    return build


def _field(
    value: Any, places: Mapping[str, int], emission: _Emission | None
) -> Callable[[Registers], Any]:
    if isinstance(value, tuple) and any(isinstance(item, Pattern) for item in value):
        items = [_field(item, places, emission) for item in value]
        return lambda r: tuple(item(r) for item in items)
    if isinstance(value, Pattern) and not isinstance(value, Number):
        return _template(value, places, emission)
    return lambda _: value
