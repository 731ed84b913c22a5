"""Differentiation: a function and its backward nodes in one graph (paper 3.1, 3.6 step 2).

The backward nodes (:mod:`glow_nb.hlir.backpropagate`) are ordinary nodes: every pass and kernel
handles them, and they can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count

import glow_nb.hlir.gradients  # noqa: F401  registers the rules of all operators
from glow_nb.base.errors import GradientError
from glow_nb.base.schema import closest, listed, operands_of
from glow_nb.hlir.backpropagate import (
    Sums,
    backpropagate,
    dependent_on,
    no_flow_through,
    total,
)
from glow_nb.hlir.backward import PREFIX, Backward
from glow_nb.hlir.given_function import given_function
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.save import Save


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
        function: A graph that was not lowered for a backend. It may have any operators, also those
            that differentiation emits.
        wrt: Names of inputs, states and constants of a float kind.
        output: Name of an output of one element; the only one by default.

    Raises:
        GradientError: *function* is no graph, a name is unknown or not of a float kind, the output
            has several elements or does not depend on any of *wrt*, or operators between them have
            no gradient (all are listed).
    """
    given_function(function, GradientError)
    names = as_names(wrt)
    target = _saved_value(function, output)
    values = [_storage(function, name) for name in names]
    builder = Backward.continuing(function)
    found = emit_gradients(builder, target, values)
    for name, value in zip(names, values, strict=True):
        builder.save(found[value], _output_name(name, builder))
    return builder.function()


def emit_gradients(builder: Backward, output: Value, wrt: Sequence[Value]) -> dict[Value, Value]:
    """Emit nodes that compute the gradient of *output*, of one element, for each value of *wrt*.

    The nodes go to *builder*, which holds the nodes that compute *output*. A value that *output*
    does not depend on gets zeros.

    Raises:
        GradientError: As :func:`differentiate`.
    """
    _check_output(output)
    builder.dependent = dependent_on(wrt, builder.nodes)
    _check_predicates(builder)
    _check_dependence(output, wrt, builder)
    sums: Sums = {output: [builder.filled(output.type, 1.0, f"{PREFIX}one")]}
    backpropagate(builder, builder.nodes, sums)
    return {value: _gradient_of(value, sums, builder) for value in wrt}


def _gradient_of(value: Value, sums: Sums, builder: Backward) -> Value:
    found = total(value, sums, builder)
    return found or builder.filled(value.type, 0.0, f"{PREFIX}{value.name}_zero")


def as_names(wrt: Iterable[str]) -> list[str]:
    """Return the names of *wrt*, each once; raise GradientError if it is no list of names."""
    if isinstance(wrt, str) or not isinstance(wrt, Iterable):
        shown = wrt if isinstance(wrt, str) else "w"
        raise GradientError(f"wrt is {wrt!r:.80}; give a list of names: [{shown!r:.80}]")
    names = list(wrt)
    for name in names:
        if not isinstance(name, str):
            raise GradientError(
                f"wrt holds {name!r:.80}; give names of inputs, states or constants"
            )
    if not names:
        raise GradientError("wrt is empty; name at least one input, state or constant")
    return list(dict.fromkeys(names))


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
    if not isinstance(wanted, str):
        raise GradientError(f"output is {wanted!r:.80}; give the name of an output of {names}")
    for node in function.nodes:
        if isinstance(node, Save) and node.output.name == wanted:
            return node.input
    raise GradientError(
        f"function {function.name!r} has no output {wanted!r}; it has {listed(names)}"
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


def _check_dependence(output: Value, wrt: Sequence[Value], builder: Backward) -> None:
    """Raise GradientError unless floats lead from *wrt* to *output*."""
    if output in builder.dependent:
        return
    ends = _ends_of_floats(output, builder)
    if ends:
        raise no_flow_through(ends, "it passes on no floats")
    names = ", ".join(value.name for value in wrt)
    raise GradientError(
        f"{output!r} does not depend on any of {names}; differentiate another output, or for "
        "values that it is computed from"
    )


def _ends_of_floats(output: Value, builder: Backward) -> list[Node]:
    """Return the nodes before *output* that make no floats of those with a gradient."""
    needed, found = {output}, list[Node]()
    for node in reversed(builder.nodes):
        read = needed.intersection(node.results)
        if not read:
            continue
        needed.update(operands_of(node))
        if any(map(builder.wants, operands_of(node))) and not any(map(builder.wants, read)):
            found.append(node)
    return found[::-1]


def _check_predicates(builder: Backward) -> None:
    """Raise GradientError if a node need not compute all samples: sums over the batch would."""
    for node in builder.nodes:
        if node.predicate is not None and any(map(builder.wants, node.results)):
            raise GradientError(
                f"{node!r} has a predicate: its results for other samples are arbitrary, but "
                "gradients are sums over all samples; drop the predicate"
            )
