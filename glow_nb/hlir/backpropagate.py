"""Reverse mode: gradients go backwards through nodes, from results to operands.

Each node turns the gradient of its result into gradients of its operands, by the rule of
its operator. An operator without a rule of its own is differentiated as what it lowers to, or else
as what its formula says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from glow_nb.base.errors import GradientError, PassError
from glow_nb.base.foreign import foreign, name_of
from glow_nb.base.open_size_error import OpenSizeError, open_error
from glow_nb.base.schema import map_operands, operand_specs, operands_of
from glow_nb.hlir.backward import Backward
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, Value, producer_of
from glow_nb.hlir.inline import inline
from glow_nb.hlir.lower import lower
from glow_nb.hlir.ops.arithmetic import Add
from glow_nb.hlir.ops.families import fits
from glow_nb.hlir.ops.formulas.scalar import emit_formula, has_known_formula
from glow_nb.hlir.ops.formulas.terms import Term
from glow_nb.hlir.ops.shape import Reshape
from glow_nb.hlir.rules import (
    GRADIENTS,
    LOWERINGS,
    WITHOUT_GRADIENT,
    GradientRule,
    OperandGradients,
)

Sums = dict[Value, list[Value]]
"""The gradients of a value, by the nodes that read it; their sum is its gradient."""


def backpropagate(builder: Backward, nodes: Sequence[Node], sums: Sums) -> None:
    """Add to *sums* the gradients of what the values in it are computed from.

    Args:
        builder: Takes the backward nodes; its ``dependent`` says what gradients are for.
        nodes: The nodes that compute the values, in order; *builder* holds them.
        sums: The gradients of some results.

    Raises:
        GradientError: Operators of the nodes have no gradient (all are listed).
    """
    on_the_way = _on_the_way(nodes, sums, builder.dependent)
    _check_rules(on_the_way)
    outer = builder.current
    for node in reversed(on_the_way):
        builder.current = outer or node
        _differentiate(node, sums, builder)
    builder.current = outer


def dependent_on(values: Iterable[Value], nodes: Iterable[Node]) -> frozenset[Value]:
    """Return *values* and all floats that *nodes* compute from them."""
    dependent = set(values)
    for node in nodes:
        if any(operand in dependent for operand in operands_of(node)):
            dependent.update(result for result in node.results if result.type.kind.is_float)
    return frozenset(dependent)


def total(value: Value, sums: Sums, builder: Backward) -> Value | None:
    """Return the sum of all gradients of *value*, None if there is none."""
    if value not in sums:
        return None
    first, *others = sums[value]
    for other in others:
        first = builder.emit(Add(first, other))
    sums[value] = [first]
    return first


def through_lowering(
    node: Node, upstream: Value | tuple[Value | None, ...], builder: Backward
) -> OperandGradients:
    """Return the gradients of what *node* lowers to: the rule of a composition.

    What the backward pass needs of the composition is computed again, unless the backend lowers
    *node* itself and both come to be one.
    """
    mark = len(builder.nodes)
    return _through(node, upstream, builder, _emit_lowered(node, builder), mark)


def through_formula(node: Node, upstream: Value, builder: Backward) -> OperandGradients:
    """Return the gradients of what the formula of *node* says, which is computed once more."""
    mark = len(builder.nodes)
    return _through(node, upstream, builder, [emit_formula(node, builder)], mark)


def _through(
    node: Node,
    upstream: Value | tuple[Value | None, ...],
    builder: Backward,
    results: list[Value],
    mark: int,
) -> OperandGradients:
    """Return the gradients of *node*, whose *results* the nodes from *mark* on compute."""
    nodes = builder.nodes[mark:]
    wanted = [operand for operand in operands_of(node) if builder.wants(operand)]
    builder.dependent |= dependent_on(wanted, nodes)
    pairs = zip(results, _as_tuple(upstream), strict=True)
    sums: Sums = {result: [gradient] for result, gradient in pairs if gradient is not None}
    backpropagate(builder, nodes, sums)

    def gradient_of(operand: Value) -> Value | None:
        gradient = total(operand, sums, builder) if operand in wanted else None
        sums.pop(operand, None)  # an operand that is read twice has one gradient
        return gradient

    found: dict[str, Value | tuple[Value | None, ...] | None] = {}
    for spec in operand_specs(type(node)):
        operand = getattr(node, spec.name)
        if spec.is_variadic:
            found[spec.name] = tuple(map(gradient_of, operand))
        elif operand is not None:
            found[spec.name] = gradient_of(operand)
    return found


def rule_of(node_class: type[Node]) -> GradientRule | None:
    """Return the gradient rule of an operator, None if it has no gradient."""
    if node_class in GRADIENTS:
        return GRADIENTS[node_class]
    is_composition = node_class in LOWERINGS and node_class not in WITHOUT_GRADIENT
    if is_composition:
        return through_lowering
    has_formula = has_known_formula(node_class) and node_class not in WITHOUT_GRADIENT
    return through_formula if has_formula else None


def _emit_lowered(node: Node, builder: Backward) -> list[Value]:
    """Emit what *node* lowers to; return its results."""
    function = _function_of(node)
    lowered = lower(function, lambda found: type(found) is type(node))
    if lowered is function:
        raise GradientError(f"no gradient flows through {node!r}: its lowering declines it")
    names = (place.name for place in function.inputs)
    return list(inline(lowered, builder, dict(zip(names, operands_of(node), strict=True))).values())


def _function_of(node: Node) -> Function:
    """Return a function of a copy of *node* alone, with an input for each operand."""
    builder = Builder(node.name)
    copy = builder.emit(map_operands(node, lambda v: builder.input("x", v.type)), "node")
    for result in copy.results:
        builder.save(result, builder.unique_name("y"))
    return builder.function()


def _on_the_way(
    nodes: Sequence[Node], outputs: Iterable[Value], dependent: frozenset[Value]
) -> tuple[Node, ...]:
    """Return the nodes that *outputs* are computed by from what is *dependent*, in order."""
    needed = set(outputs)
    found: list[Node] = []
    for node in reversed(nodes):
        if any(result in needed and result in dependent for result in node.results):
            found.append(node)
            needed.update(operands_of(node))
    return tuple(reversed(found))


def _differentiate(node: Node, sums: Sums, builder: Backward) -> None:
    """Add the gradients of the operands of *node* to *sums*."""
    upstream = tuple(total(result, sums, builder) for result in node.results)
    if all(gradient is None for gradient in upstream):
        return
    rule = rule_of(type(node))
    assert rule is not None
    subject = f"gradient rule {name_of(rule)!r} of {node!r}"
    try:
        with foreign(PassError, subject):
            found = rule(node, upstream[0] if len(upstream) == 1 else upstream, builder)
    except OpenSizeError as error:
        raise open_error(error.size, f"a number is needed for the {subject}") from error
    with foreign(PassError, subject, ours=True):
        _check_found(node, found)
    for operand, gradient in _pairs(node, found):
        if builder.wants(operand):
            if gradient.type != operand.type:  # sizes that are the same where guards hold
                gradient = builder.emit(Reshape(gradient, operand.type.shape))
            sums.setdefault(operand, []).append(gradient)


def _check_rules(nodes: Iterable[Node]) -> None:
    """Raise GradientError unless all *nodes* can be differentiated."""
    missing = [node for node in nodes if rule_of(type(node)) is None]
    if missing:
        raise no_flow_through(missing, "it has no rule: write one with @gradient")


def no_flow_through(nodes: Iterable[Node], otherwise: str) -> GradientError:
    """Return the error that names *nodes*, each with the reason of its operator or *otherwise*."""
    by_class: dict[type[Node], list[Node]] = {}
    for node in nodes:
        by_class.setdefault(type(node), []).append(node)
    listed = (
        f"{_first_of(found)} ({WITHOUT_GRADIENT.get(node_class, otherwise)})"
        for node_class, found in by_class.items()
    )
    return GradientError(f"no gradient flows through {'; '.join(listed)}")


def _first_of(nodes: Sequence[Node]) -> str:
    return ", ".join(map(repr, nodes[:3])) + (", ..." if len(nodes) > 3 else "")


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
    for name, given in found.items():
        _check_given(getattr(node, name), given, name)
    for operand, gradient in _pairs(node, found):
        is_like = gradient.type.rank == operand.type.rank and fits(gradient.type, operand.type)
        if not is_like:
            raise PassError(f"it gives a gradient of type {gradient.type}, but {operand!r}")


def _check_given(operands: object, given: Any, name: str) -> None:
    """Raise PassError unless *given* may be the gradients of the operand field called *name*."""
    if given is None:
        return
    if isinstance(operands, tuple) and not (
        isinstance(given, tuple) and len(given) == len(operands)
    ):
        raise PassError(f"{name!r} has {len(operands)} operands; give a tuple of as many gradients")
    for gradient in given if isinstance(operands, tuple) else (given,):
        producer = producer_of(gradient) if isinstance(gradient, Value) else None
        if isinstance(gradient, Term):
            raise PassError(f"it gives a Term for {name!r}; give its .value")
        if producer is not None and not producer.name:
            raise PassError(f"it gives {gradient!r} for {name!r}, a node that it did not emit")
        if gradient is not None and not isinstance(gradient, Value):
            raise PassError(f"it gives {gradient!r:.80} for {name!r}; give a value, or None")


def _as_tuple(item: Value | tuple[Value | None, ...] | None) -> tuple[Value | None, ...]:
    return item if isinstance(item, tuple) else (item,)
