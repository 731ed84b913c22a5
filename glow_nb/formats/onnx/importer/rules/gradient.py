"""Gradients that a model asks for itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from glow_nb.base.errors import GradientError
from glow_nb.base.schema import operands_of
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.differentiate import differentiate
from glow_nb.hlir.graph import Function, Node, Placeholder, Value
from glow_nb.hlir.save import Save


@onnx_op("Gradient", since=1, domain="ai.onnx.preview.training", stepwise=True)
def gradient(ctx: Context, node: OnnxNode) -> tuple[Value, ...]:
    """The gradients of the sum of *y*, a function of *xs* and *zs*, for *xs*.

    They are taken where *xs* and *zs* are the operands. What computes *y* is emitted once more for
    these, even if they are the tensors that *y* was computed from; a pass makes one of equal nodes.
    """
    xs, zs = node.texts("xs"), node.texts("zs", ())
    given = node.operands
    variables = [ctx.named(name) for name in (*xs, *zs)]
    types, wanted = [v.type for v in given], [v.type for v in variables]
    if types != wanted:
        raise ctx.wrong(f"its operands are {types}, but its xs and zs are {wanted}")
    if len(set(variables)) < len(variables):
        raise ctx.unsupported("two of its xs and zs are the same tensor")
    y = ctx.named(node.text("y"))
    nodes = _between(ctx.builder.nodes, y, variables)
    read = dict.fromkeys(operand for each in nodes for operand in operands_of(each))
    others = [v for v in read if isinstance(v, Placeholder) and v not in variables]
    part = _function(nodes, y, (*variables, *others))
    names = [placeholder.name for placeholder in part.inputs]
    try:
        both = differentiate(part, names[: len(xs)])
    except GradientError as error:
        raise ctx.unsupported(str(error)) from error
    found = _inlined(ctx, both, (*given, *others), known=part.constants)
    return found[1:]


def _between(nodes: Sequence[Node], y: Value, variables: Sequence[Value]) -> list[Node]:
    """Return the *nodes* that compute *y* from *variables*, in order."""
    needed, found = {y}, list[Node]()
    for node in reversed(nodes):
        if any(result in needed and result not in variables for result in node.results):
            found.append(node)
            needed.update(operands_of(node))
    return found[::-1]


def _function(nodes: Iterable[Node], y: Value, variables: Sequence[Value]) -> Function:
    """Return the sum of *y* as a function of *variables*."""
    builder = Builder()
    copies: dict[Value, Value] = {v: builder.input("x", v.type) for v in variables}
    for node in nodes:
        copy = builder.emit(node.map_operands(lambda value: copies.get(value, value)))
        copies.update(zip(node.results, copy.results, strict=True))
    total = copies.get(y, y)
    if total.type.size != 1:
        axes = tuple(range(total.type.rank))
        total = builder.emit(ops.ReduceSum(total, axes=axes, keep_dims=False))
    builder.save(total, "y")
    return builder.function()


def _inlined(
    ctx: Context, function: Function, operands: Sequence[Value], known: Iterable[Value]
) -> tuple[Value, ...]:
    """Emit *function* of *operands* and return its outputs; *known* constants are the model's."""
    copies: dict[Value, Value] = dict(zip(function.inputs, operands, strict=True))
    own = set(known)
    copies |= {c: ctx.constant(c.array) for c in function.constants if c not in own}
    results: dict[Value, Value] = {}
    for node in function.nodes:
        if isinstance(node, Save):
            results[node.output] = copies.get(node.input, node.input)
            continue
        values = ctx.emit_all(node.map_operands(lambda value: copies.get(value, value)))
        copies.update(zip(node.results, values, strict=True))
    return tuple(results[output] for output in function.outputs)
