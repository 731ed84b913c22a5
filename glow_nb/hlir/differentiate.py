"""Differentiation: a function and its backward nodes in one graph (paper 3.1, 3.6 step 2).

Reverse mode: from the output backwards, each node on the way turns the gradient of its result into
gradients of its operands, by the rule of its operator (:data:`glow_nb.hlir.rules.GRADIENTS`). A
rule emits ordinary nodes: every pass and kernel serves them, and they can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count

import glow_nb.hlir.gradients  # noqa: F401  registers the rules of all operators
from glow_nb.errors import GradientError, PassError
from glow_nb.foreign import foreign, name_of
from glow_nb.hlir.backward import PREFIX, Backward
from glow_nb.hlir.graph import Function, Node, Save, Value
from glow_nb.hlir.ops.arithmetic import Add
from glow_nb.hlir.rules import GRADIENTS, WITHOUT_GRADIENT, OperandGradients
from glow_nb.schema import closest, operand_specs, operands_of


def differentiate(function: Function, wrt: Iterable[str], output: str | None = None) -> Function:
    """Return *function* with the gradients of one of its outputs as further outputs.

    The gradient for ``w`` is the output ``d_w``, of the type of ``w``; ``d_w_1`` in a function that
    has a ``d_w`` already, such as one that was differentiated before::

        func @main(%x : float32<4>) -> (%loss : float32<>)
        differentiate(main, ["x"]):
        func @main(%x : float32<4>) -> (%loss : float32<>, %d_x : float32<4>)

    Where an operator has no derivative, as relu at 0 or a maximum of equal elements, the gradient
    is the one that PyTorch chooses; the rule says which.

    Args:
        function: A graph that was not lowered for a backend; any operators, also those that
            differentiation emits.
        wrt: Names of inputs, states and constants, of floats.
        output: Name of an output of one element; the only one by default.

    Raises:
        GradientError: A name is unknown or not of floats, the output has several elements or does
            not depend on any of *wrt*, or operators on the way have no gradient (all are listed).
    """
    names = _as_names(wrt)
    target = _saved_value(function, output)
    values = [_storage(function, name) for name in names]
    builder = Backward.continuing(function)
    found = emit_gradients(builder, target, values)
    for name, value in zip(names, values, strict=True):
        builder.save(found[value], _output_name(name, builder))
    return builder.function()


def emit_gradients(builder: Backward, output: Value, wrt: Sequence[Value]) -> dict[Value, Value]:
    """Emit what computes the gradient of *output*, of one element, for each value of *wrt*.

    The nodes go to *builder*, which holds those that *output* is computed by. A value that *output*
    does not depend on gets zeros.

    Raises:
        GradientError: As :func:`differentiate`.
    """
    _check_output(output)
    builder.dependent = _dependent(builder.nodes, wrt)
    if output not in builder.dependent:
        names = ", ".join(value.name for value in wrt)
        raise GradientError(
            f"{output!r} does not depend on any of {names}; differentiate another output, or for "
            "values that it is computed from"
        )
    on_the_way = _on_the_way(builder.nodes, output, builder.dependent)
    _check_rules(on_the_way)
    sums: Sums = {output: [builder.filled(output.type, 1.0, f"{PREFIX}one")]}
    for node in reversed(on_the_way):
        builder.current = node
        _differentiate(node, sums, builder)
    builder.current = None
    return {value: _gradient_of(value, sums, builder) for value in wrt}


Sums = dict[Value, list[Value]]
"""The gradients of a value, by the nodes that read it; their sum is its gradient."""


def _differentiate(node: Node, sums: Sums, builder: Backward) -> None:
    """Add the gradients of the operands of *node* to *sums*."""
    upstream = tuple(_total(result, sums, builder) for result in node.results)
    if all(gradient is None for gradient in upstream):
        return
    rule = GRADIENTS[type(node)]
    subject = f"gradient rule {name_of(rule)!r} of {node!r}"
    with foreign(PassError, subject):
        found = rule(node, upstream[0] if len(upstream) == 1 else upstream, builder)
    with foreign(PassError, subject, ours=True):
        _check_found(node, found)
    for operand, gradient in _pairs(node, found):
        if builder.wants(operand):
            sums.setdefault(operand, []).append(gradient)


def _total(value: Value, sums: Sums, builder: Backward) -> Value | None:
    """Return the sum of all gradients of *value*, None if there is none."""
    if value not in sums:
        return None
    first, *others = sums[value]
    for other in others:
        first = builder.emit(Add(first, other))
    sums[value] = [first]
    return first


def _gradient_of(value: Value, sums: Sums, builder: Backward) -> Value:
    total = _total(value, sums, builder)
    return total or builder.filled(value.type, 0.0, f"{PREFIX}{value.name}_zero")


def _as_names(wrt: Iterable[str]) -> list[str]:
    """Return the names of *wrt*, each once."""
    if isinstance(wrt, str) or not isinstance(wrt, Iterable):
        raise GradientError(f"wrt is {wrt!r}; give a list of names: [{str(wrt)!r}]")
    names = list(dict.fromkeys(wrt))
    for name in names:
        if not isinstance(name, str):
            raise GradientError(f"wrt holds {name!r}; give names")
    if not names:
        raise GradientError("wrt is empty; name at least one input, state or constant")
    return names


def _output_name(name: str, builder: Backward) -> str:
    """Return what the gradient for *name* is called: ``d_w``, or ``d_w_1`` if that is taken."""
    taken = {placeholder.name for placeholder in (*builder.inputs, *builder.outputs)}
    names = chain([f"{PREFIX}{name}"], (f"{PREFIX}{name}_{i}" for i in count(1)))
    return next(free for free in names if free not in taken)


def _saved_value(function: Function, output: str | None) -> Value:
    """Return the value that is saved as *output*."""
    names = [placeholder.name for placeholder in function.outputs]
    if output is None and len(names) != 1:
        raise GradientError(
            f"function {function.name!r} has the outputs {names}; say which is differentiated"
        )
    wanted = names[0] if output is None else output
    for node in function.nodes:
        if isinstance(node, Save) and node.output.name == wanted:
            return node.input
    raise GradientError(
        f"function {function.name!r} has no output {wanted!r}; it has {names}"
        f"{closest(wanted, names)}"
    )


def _storage(function: Function, name: str) -> Value:
    """Return the input, state or constant called *name*."""
    storage = (*function.inputs, *function.state, *function.constants)
    known: Mapping[str, Value] = {value.name: value for value in storage}
    if name not in known:
        raise GradientError(
            f"function {function.name!r} has no input, state or constant {name!r}"
            f"{closest(name, known)}"
        )
    if not known[name].type.kind.is_float:
        raise GradientError(f"{known[name]!r} has no gradient: it does not hold floats")
    return known[name]


def _check_output(output: Value) -> None:
    if not output.type.kind.is_float or output.type.size != 1:
        raise GradientError(
            f"{output!r}: only an output of one float can be differentiated; reduce it to a sum or "
            "a mean first"
        )


def _dependent(nodes: Iterable[Node], wrt: Iterable[Value]) -> frozenset[Value]:
    """Return all floats that are computed from *wrt*, those included."""
    dependent = set(wrt)
    for node in nodes:
        if any(operand in dependent for operand in operands_of(node)):
            dependent.update(result for result in node.results if result.type.kind.is_float)
    return frozenset(dependent)


def _on_the_way(
    nodes: Sequence[Node], output: Value, dependent: frozenset[Value]
) -> tuple[Node, ...]:
    """Return the nodes that *output* is computed by from what is *dependent*, in order."""
    needed: set[Value] = {output}
    found: list[Node] = []
    for node in reversed(nodes):
        if any(result in needed and result in dependent for result in node.results):
            found.append(node)
            needed.update(operands_of(node))
    return tuple(reversed(found))


def _check_rules(nodes: Iterable[Node]) -> None:
    """Raise GradientError unless all *nodes* can be differentiated."""
    missing: dict[type[Node], list[Node]] = {}
    for node in nodes:
        if type(node) not in GRADIENTS:
            missing.setdefault(type(node), []).append(node)
    if missing:
        listed = "; ".join(_why_not(kind, found) for kind, found in missing.items())
        raise GradientError(f"no gradient flows through {listed}")


def _why_not(kind: type[Node], nodes: Sequence[Node]) -> str:
    shown = ", ".join(map(repr, nodes[:3])) + (", ..." if len(nodes) > 3 else "")
    return f"{shown} ({WITHOUT_GRADIENT.get(kind) or 'it has no rule: write one with @gradient'})"


def _pairs(node: Node, found: OperandGradients) -> Iterable[tuple[Value, Value]]:
    """Yield each operand with its gradient, if it has one."""
    for name, given in found.items():
        operands, gradients = _as_tuple(getattr(node, name)), _as_tuple(given)
        for operand, gradient in zip(operands, gradients, strict=given is not None):
            if operand is not None and gradient is not None:
                yield operand, gradient


def _check_found(node: Node, found: OperandGradients) -> None:
    """Raise PassError if what a rule gave for *node* does not fit it."""
    if not isinstance(found, Mapping):
        raise PassError(f"it must return a dict of gradients by operand, got {found!r}")
    names = [spec.name for spec in operand_specs(type(node))]
    for name in found:
        if name not in names:
            raise PassError(
                f"it gives a gradient for {name!r}, but the operands are {', '.join(names)}"
            )
    for operand, gradient in _pairs(node, found):
        if gradient.type != operand.type:
            raise PassError(f"it gives a gradient of type {gradient.type}, but {operand!r}")


def _as_tuple(item: Value | tuple[Value | None, ...] | None) -> tuple[Value | None, ...]:
    return item if isinstance(item, tuple) else (item,)
