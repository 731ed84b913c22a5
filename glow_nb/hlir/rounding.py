"""The 16-bit floats in expansions: what stands for one operator computes wide and rounds once.

An operator's ``evaluate`` rounds when the result is stored. Nodes that together compute the same
would round after each of them, and overflow where the result is an ordinary number: the sum of
squares in a norm, the sum of exponentials in a softmax. So whatever replaces one operator by
several does their arithmetic in float32 and rounds to 16 bits at its end.
"""

from __future__ import annotations

from glow_nb.base.schema import map_operands, operands_of
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops.activation import Relu
from glow_nb.hlir.ops.arithmetic import Maximum, Minimum
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.comparison import Select
from glow_nb.hlir.ops.elementwise import Abs, ConvertTo, Neg
from glow_nb.hlir.ops.families import NARROW_FLOATS, keeps_every_number
from glow_nb.hlir.ops.gather import Gather, GatherElements, GatherND
from glow_nb.hlir.ops.pooling import MaxPool
from glow_nb.hlir.ops.reduction import ReduceMax, ReduceMin
from glow_nb.hlir.ops.scatter import ScatterElements, ScatterND
from glow_nb.hlir.ops.shape import Concat, Pad, Reshape, Slice, Split, Tile, Transpose

WIDE = ElementKind.FLOAT32
"""The kind that stands for a 16-bit float between the nodes of an expansion."""

_COMMUTING: tuple[type[Node], ...] = (
    *(Reshape, Transpose, Slice, Split, Concat, Broadcast, Tile, Pad),
    *(Gather, GatherElements, GatherND, Select),
    *(Abs, Neg, Relu, Maximum, Minimum, ReduceMax, ReduceMin, MaxPool),
)
"""Operators whose results are elements of their operands, or these with another sign."""


def is_narrow(type: TensorType) -> bool:
    """True for a tensor of 16-bit floats."""
    return type.kind in NARROW_FLOATS


def commutes_with_rounding(node: Node) -> bool:
    """Return whether rounding the operands of *node* gives what rounding its results gives."""
    if isinstance(node, ConvertTo):
        return keeps_every_number(node.input.type.kind, node.kind)
    return isinstance(node, _COMMUTING)


def computes_wide(node: Node) -> bool:
    """Return whether *node* does no arithmetic on 16-bit floats; it may convert to them.

    A wide product multiplies them exactly, and adds up in float32.
    """
    if isinstance(node, ConvertTo) or commutes_with_rounding(node):
        return True
    if getattr(node, "wide", False):
        return True
    return not reads_or_makes_narrow(node)


def rounds_inside(node: Node) -> bool:
    """Return whether *node* rounds more than its results, as a scatter does after each update."""
    if not isinstance(node, ScatterElements | ScatterND):
        return False
    return node.reduction in ("add", "mul") and is_narrow(node.type)


def reads_or_makes_narrow(node: Node) -> bool:
    """Return whether an operand or a result of *node* holds 16-bit floats."""
    types = (*(value.type for value in operands_of(node)), *node.result_types)
    return any(map(is_narrow, types))


def in_float32(node: Node, builder: Builder) -> tuple[Value, ...]:
    """Emit *node* on float32 instead of 16-bit floats, its results rounded; return them."""

    def widened(value: Value) -> Value:
        return builder.emit(ConvertTo(value, WIDE)) if is_narrow(value.type) else value

    wide = builder.emit(map_operands(node, widened).copied(name=""), f"{node.name}_float32")
    return tuple(
        builder.emit(ConvertTo(value, type.kind)) if is_narrow(type) else value
        for value, type in zip(wide.results, node.result_types, strict=True)
    )
