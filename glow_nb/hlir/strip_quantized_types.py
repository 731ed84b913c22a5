"""The end of lowering: quantized types are taken away once no operator computes on them."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from glow_nb.base.schema import operands_of
from glow_nb.hlir.graph import Constant, Function, Node, Placeholder, State, Value
from glow_nb.hlir.ops.quantization import AsQuantized, Stored
from glow_nb.hlir.ops.shape import Pad


def computes_on_quantized(node: Node) -> bool:
    """Return whether *node* computes with an operand or a result of a quantized type."""
    return not node.type_transparent and _has_quantized_types(node)


def _has_quantized_types(node: Node) -> bool:
    types = (*(value.type for value in operands_of(node)), *node.result_types)
    return any(type.is_quantized for type in types)


def strip_quantized_types(function: Function) -> Function:
    """Return *function* on the stored integers, of plain types; itself if no type is quantized.

    ::

        %s = stored(%x) : int8<4>
        %y = mat_mul(%s, %w) : int32<4>             ->    %y = mat_mul(%x, %w) : int32<4>

    This goes for inputs, outputs, states and constants as well. Only operators that move or select
    elements may be left to read a quantized type: they do with the integers what they did before.
    """
    quantized = [value for value in function.storage if value.type.is_quantized]
    if not quantized and not any(map(_has_quantized_types, function.nodes)):
        return function
    bound = {value: _stored(value) for value in function.placeholders}
    plain: dict[Value, Value] = dict(bound.items())
    plain.update((state, _stored(state)) for state in function.state)
    plain.update((constant, _stored(constant)) for constant in function.constants)
    nodes: list[Node] = []
    for node in function.nodes:
        if isinstance(node, Stored | AsQuantized):
            plain[node] = plain.get(node.input, node.input)
            continue
        current = _with_stored_value(node).map_operands(lambda value: plain.get(value, value))
        nodes.append(current)
        plain.update(zip(node.results, current.results, strict=True))
    return dataclasses.replace(
        function.with_nodes(nodes),
        inputs=tuple(bound[value] for value in function.inputs),
        outputs=tuple(bound[value] for value in function.outputs),
    )


S = TypeVar("S", Placeholder, State, Constant)


def _stored(value: S) -> S:
    """Return an input, output, state or constant with the plain type of its integers."""
    if not value.type.is_quantized:
        return value
    return dataclasses.replace(value, type=value.type.stored)


def _with_stored_value(node: Node) -> Node:
    """Return *node*; a pad with a quantized type adds the integer that its number is stored as."""
    if not isinstance(node, Pad) or not node.type.is_quantized:
        return node
    return dataclasses.replace(node, value=float(node.stored_value))
