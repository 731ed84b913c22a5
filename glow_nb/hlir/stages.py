"""A function some of whose sizes its own values decide, cut into functions that run in turn.

A stage has all nodes whose sizes are known when it begins. What later ones read of its values are
its outputs and their inputs; a decided size comes to them as the shape of an input without
elements, so that a stage is a function with open sizes as any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.schema import changed_operands, operands_of
from glow_nb.base.size import Symbol, symbols_in
from glow_nb.base.staged_run import Decision, Passage
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, Placeholder, Value, producer_of
from glow_nb.hlir.save import Save


@dataclass(frozen=True)
class Stage:
    """A part of a function whose sizes are all known when it begins.

    Attributes:
        function: Its nodes; what it takes and gives beside inputs and outputs of the whole are
            values of the whole by their names.
        decisions: The sizes that are known when it has run.
    """

    function: Function
    decisions: tuple[Decision, ...]

    @property
    def passage(self) -> Passage:
        """The values that pass between it and the others."""
        return Passage(tuple(value.name for value in self.function.inputs), self.decisions)


def decided_sizes(function: Function) -> tuple[Symbol, ...]:
    """Return the sizes that values of *function* decide."""
    return tuple(_deciding(function))


def fed_sizes(function: Function) -> tuple[Symbol, ...]:
    """Return the sizes of *function* that the feeds determine."""
    decided = _deciding(function)
    return tuple(symbol for symbol in function.sizes if symbol not in decided)


def names_of(symbols: Iterable[Symbol]) -> str:
    """Return *symbols* as messages list them."""
    return ", ".join(symbol.name for symbol in symbols)


def stages_of(function: Function) -> tuple[Stage, ...]:
    """Return *function* in stages, one if none of its sizes is decided by its values."""
    return _Cut(function).stages()


def _deciding(function: Function) -> dict[Symbol, Node]:
    if not function.sizes:
        return {}
    nodes = ((node.decides, node) for node in function.nodes)
    return {symbol: node for symbol, node in nodes if symbol is not None}


def _is_check(node: Node) -> bool:
    """Return whether *node* decides what can be one number alone: any other is an error."""
    return node.decides is not None and node.decides.low == node.decides.high


class _Cut:
    """Where the nodes of a function go."""

    def __init__(self, function: Function) -> None:
        """Find the stage of each node of *function* that an output or a check depends on.

        Raises:
            UnsupportedError: It has a state.
        """
        if function.state:
            raise UnsupportedError(
                f"function {function.name!r}: it has the state {function.state[0]!r}, and its runs "
                f"decide sizes ({names_of(decided_sizes(function))}); a "
                "function with state must know its sizes when it begins"
            )
        self._function, self._decided = function, _deciding(function)
        live = self._live()
        self._stage: dict[Node, int] = {}
        for node in function.nodes:
            if node in live:
                needed = [self._stage[n] + (n.decides is not None) for n in self._before(node)]
                self._stage[node] = max(needed, default=0)
        self._between = self._crossing()

    def _before(self, node: Node) -> list[Node]:
        """Return the nodes that make what *node* reads, and that decide its sizes."""
        producers = (producer_of(value) for value in operands_of(node))
        deciding = (self._decided.get(symbol) for symbol in node.symbols)
        found = dict.fromkeys((*producers, *deciding))
        return [one for one in found if one is not None and one is not node]

    def _live(self) -> set[Node]:
        pending = [n for n in self._function.nodes if isinstance(n, Save) or _is_check(n)]
        live = set(pending)
        while pending:
            new = [one for one in self._before(pending.pop()) if one not in live]
            live.update(new)
            pending += new
        return live

    def _crossing(self) -> dict[Value, Placeholder]:
        """Return what stands between stages for each value that one makes and others read.

        The numbers of sizes are among them, and what tells the sizes.
        """
        found: dict[Value, Placeholder] = {}
        names = Builder(self._function.name, self._function.names)
        for node, stage in self._stage.items():
            made = [value for value in operands_of(node) if self._is_earlier(value, stage)]
            if node.decides is not None:
                made = [*operands_of(node), node]
            for value in made:
                if value not in found:
                    name = names.unique_name(f"{value.name.replace('#', '_')}_between")
                    found[value] = Placeholder(name, value.type)
        return found

    def _is_earlier(self, value: Value, stage: int) -> bool:
        producer = producer_of(value)
        return producer is not None and self._stage[producer] < stage

    def stages(self) -> tuple[Stage, ...]:
        """Return all stages in order."""
        count = max(self._stage.values(), default=0) + 1
        return tuple(self._made(number) for number in range(count))

    def _made(self, number: int) -> Stage:
        own = [node for node, stage in self._stage.items() if stage == number]
        nodes = [node for node in own if node.decides is None]
        known: dict[Value, Value] = {}  # what stands in this stage for a value of the function
        copied: list[Node] = []
        for node in nodes:
            for value in operands_of(node):
                if producer_of(value) is not None and value not in known:
                    known[value] = self._between[value]
            changes = changed_operands(node, lambda value: known.get(value, value))
            copied.append(replace(node, **changes) if changes else node)
            known.update(zip(node.results, copied[-1].results, strict=True))
        results = [value for node in nodes for value in node.results]
        numbers = [n for node in own if node.decides is not None for n in operands_of(node)]
        given = {
            self._between[value]: known.get(value, value)
            for value in dict.fromkeys([*results, *numbers])
            if value in self._between
        }
        saves = [Save(value, output, name=f"{output.name}_save") for output, value in given.items()]
        saved = {node.output for node in nodes if isinstance(node, Save)}
        outputs = (*(output for output in self._function.outputs if output in saved), *given)
        function = Function(
            f"{self._function.name}_{number + 1}",
            self._inputs((*copied, *saves)),
            outputs,
            (*copied, *saves),
            {node.name: self._function.origins_of(node) for node in nodes},
        )
        decided = (self._decision(node.decides, node) for node in own if node.decides is not None)
        return Stage(function, tuple(decided))

    def _decision(self, symbol: Symbol, node: Node) -> Decision:
        (number,) = operands_of(node)
        return Decision(self._between[number].name, symbol, self._between[node].name)

    def _inputs(self, nodes: Sequence[Node]) -> tuple[Placeholder, ...]:
        """Return the outside inputs of *nodes*, and the values that determine their sizes."""
        written = {node.output for node in nodes if isinstance(node, Save)}
        operands = dict.fromkeys(value for node in nodes for value in operands_of(node))
        read = dict.fromkeys(v for v in operands if isinstance(v, Placeholder) and v not in written)
        symbols = {symbol for node in nodes for symbol in node.symbols}
        symbols.update(symbols_in([value.type.shape for value in read]))
        told = {size for value in read for size in value.type.shape}
        for symbol in sorted(symbols, key=str):
            if symbol.size not in told:
                read.update(dict.fromkeys(self._tellers(symbol)))
        return tuple(read)

    def _tellers(self, symbol: Symbol) -> list[Placeholder]:
        """Return inputs whose shapes determine the size of *symbol*."""
        if symbol in self._decided:
            return [self._between[self._decided[symbol]]]
        return [v for v in self._function.inputs if symbol in symbols_in([v.type.shape])]
