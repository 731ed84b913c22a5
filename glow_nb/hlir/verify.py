"""Whole-function rules; a node has checked its own types when it was built."""

from __future__ import annotations

from glow_nb.base.counted import problem_of
from glow_nb.base.errors import VerifyError
from glow_nb.base.schema import operands_of
from glow_nb.base.size import Symbol, symbols_in
from glow_nb.hlir.graph import (
    Constant,
    Function,
    Node,
    Placeholder,
    Result,
    State,
    Value,
    producer_of,
)
from glow_nb.hlir.module import Module
from glow_nb.hlir.save import Save, is_update
from glow_nb.hlir.stages import decided_sizes


def verify(function: Function) -> None:
    """Check order, names and storage of *function*; raise VerifyError at the first broken rule.

    Every operand is defined before it is used, names are unique, every output is written by exactly
    one ``save``, a state by at most one, and nothing else is written. What reads a state, for its
    old value, comes before its save; saves of states take place together, in any order.
    """
    defined: set[Value] = set(function.placeholders)
    names: dict[str, Value] = {}
    for placeholder in function.placeholders:
        _claim_name(names, placeholder)
    for node in function.nodes:
        _verify_operands(function, node, defined, names)
        _claim_name(names, node)
        defined.update(node.results)
    _verify_saves(function)
    _verify_updates(function)
    _verify_sizes(function)


def verify_module(module: Module) -> None:
    """Check every function of *module*, and that names of functions and shared storage are unique.

    Inputs and outputs are those of one function; others may have some of the same names.
    """
    functions: set[str] = set()
    for function in module.functions:
        if function.name in functions:
            raise VerifyError(function, "another function of the module has this name")
        functions.add(function.name)
        verify(function)
    names: dict[str, Value] = {}
    shared: tuple[Value, ...] = (*module.state, *module.constants)
    for storage in shared:
        _claim_name(names, storage, "module")


def _claim_name(names: dict[str, Value], value: Value, where: str = "function") -> None:
    if names.setdefault(value.name, value) is not value:
        raise VerifyError(
            value,
            f"the name is not unique in the {where}"
            if value.name
            else "it has no name; a Builder or a Rewriter gives one to what it emits",
        )


def _verify_operands(
    function: Function, node: Node, defined: set[Value], names: dict[str, Value]
) -> None:
    operands = operands_of(node)
    for operand in operands if not defined.issuperset(operands) else ():
        if operand in defined:
            continue
        if isinstance(operand, Constant | State):
            _claim_name(names, operand)
            defined.add(operand)
        else:
            raise VerifyError(node, _fault_of(function, operand))


def _fault_of(function: Function, operand: Value) -> str:
    """Return why no node of *function* may read *operand* where it does."""
    shown = _shown(operand)
    if isinstance(operand, Placeholder):
        return f"placeholder {shown} is not an input or output of the function"
    if producer_of(operand) in function.nodes:
        return f"value {shown} is used before it is defined"
    return (
        f"value {shown} is not in the function; emit the node that makes it with the builder, or "
        "with the rewriter that a rule gets"
    )


def _shown(value: Value) -> str:
    return repr(value.node if isinstance(value, Result) else value)


def _verify_saves(function: Function) -> None:
    written: dict[Placeholder, Node] = {}
    for node in function.nodes:
        if not isinstance(node, Save):
            continue
        if node.output in written:
            raise VerifyError(node, f"{node.output} is written by {written[node.output]} already")
        if node.output not in function.outputs and not is_update(node):
            raise VerifyError(node, f"{node.output} is not an output of the function")
        written[node.output] = node
    problem = problem_of({o.name: (o.type, o.counted) for o in function.outputs})
    if problem:
        raise VerifyError(function, problem)
    for output in function.outputs:
        if output not in written:
            raise VerifyError(function, f"output {output} is never written; save a value into it")


def _verify_sizes(function: Function) -> None:
    """Raise VerifyError if two sizes have one name, or the size of a state is open."""
    known: dict[str, Symbol] = {}
    for symbol in function.sizes:
        other = known.setdefault(symbol.name, symbol)
        if other != symbol:
            raise VerifyError(
                function,
                f"two sizes have one name: {other.declaration} and {symbol.declaration}; "
                "use one Symbol for both, or give one another name",
            )
    for state in function.state if known else ():
        if state.type.is_open:
            raise VerifyError(state, "the sizes of a state are fixed, as it survives runs")
    _verify_decisions(function)


def _verify_decisions(function: Function) -> None:
    """Raise VerifyError if a size is used before its decision, or if inputs determine it, too."""
    undecided = set(decided_sizes(function))
    if not undecided:
        return
    told = undecided.intersection(symbols_in([value.type.shape for value in function.inputs]))
    for node in function.nodes:
        symbol = node.decides
        if symbol is not None:
            if symbol not in undecided or symbol in told:
                raise VerifyError(node, f"size {symbol} is known already; decide another one")
            undecided.discard(symbol)
        elif not undecided.isdisjoint(node.symbols):
            early = next(symbol for symbol in node.symbols if symbol in undecided)
            raise VerifyError(node, f"size {early} is used before it is decided")


def _verify_updates(function: Function) -> None:
    """Raise VerifyError if a node expects the old value of a state after the save of a new one."""
    if not any(map(is_update, function.nodes)):
        return
    updated: dict[Value, Node] = {}
    for node in function.nodes:
        if is_update(node):
            updated[node.output] = node
            continue
        for operand in operands_of(node) if updated else ():
            if operand in updated:
                raise VerifyError(
                    node,
                    f"it reads state {operand!r} behind {updated[operand]!r}, which gives it its "
                    "next value; move the save after all nodes that read the old one",
                )
