"""Whole-function rules; a node has checked its own types when it was built."""

from __future__ import annotations

from glow_nb.counted import problem_of
from glow_nb.errors import VerifyError
from glow_nb.hlir.graph import Constant, Function, Node, Placeholder, Result, Save, Value
from glow_nb.hlir.module import Module
from glow_nb.schema import operands_of


def verify(function: Function) -> None:
    """Check order, names and storage of *function*; raise VerifyError at the first broken rule.

    Every operand is defined before it is used, names are unique, every output is written by exactly
    one ``save``, and nothing else is written.
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


def verify_module(module: Module) -> None:
    """Check every function of *module*, and that function and storage names are unique."""
    functions: set[str] = set()
    for function in module.functions:
        if function.name in functions:
            raise VerifyError(function, "another function of the module has this name")
        functions.add(function.name)
        verify(function)
    names: dict[str, Value] = {}
    for storage in (*module.placeholders, *module.constants):
        _claim_name(names, storage)


def _claim_name(names: dict[str, Value], value: Value) -> None:
    if names.setdefault(value.name, value) is not value:
        raise VerifyError(
            value,
            "the name is not unique in the function"
            if value.name
            else "it has no name; a Builder or a Rewriter gives one to what it emits",
        )


def _verify_operands(
    function: Function, node: Node, defined: set[Value], names: dict[str, Value]
) -> None:
    for operand in operands_of(node):
        if isinstance(operand, Constant):
            _claim_name(names, operand)
        elif operand not in defined:
            kind = "placeholder" if isinstance(operand, Placeholder) else "value"
            where = (
                "is not an input or output of the function"
                if isinstance(operand, Placeholder)
                else "is used before it is defined"
            )
            raise VerifyError(node, f"{kind} {_shown(operand)} {where}")


def _shown(value: Value) -> str:
    return repr(value.node if isinstance(value, Result) else value)


def _verify_saves(function: Function) -> None:
    written: dict[Placeholder, Node] = {}
    for node in function.nodes:
        if not isinstance(node, Save):
            continue
        if node.output in written:
            raise VerifyError(node, f"{node.output} is written by {written[node.output]} already")
        if node.output not in function.outputs:
            raise VerifyError(node, f"{node.output} is not an output of the function")
        written[node.output] = node
    problem = problem_of({o.name: (o.type, o.counted) for o in function.outputs})
    if problem:
        raise VerifyError(function, problem)
    for output in function.outputs:
        if output not in written:
            raise VerifyError(function, f"output {output} is never written; save a value into it")
