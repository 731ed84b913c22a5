"""Operators on 16-bit floats that become several nodes: computed in float32, rounded once.

A rule is written without regard to the kind of its operands. What it emits on 16-bit floats is
followed, and if it computes with a number that it rounded itself, it is run again on operands
in float32. What is one node, moves elements only, or computes its results side by side stays as it
is: its weights stay narrow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnx import AttributeProto

from glow_nb.base.types import TensorType
from glow_nb.formats.onnx.importer.node import OnnxNode, attribute_type
from glow_nb.formats.onnx.importer.registry import STEPWISE, Rule
from glow_nb.hlir.graph import Value
from glow_nb.hlir.rounding import WIDE, is_narrow

if TYPE_CHECKING:
    from glow_nb.formats.onnx.importer.context import Context

Values = tuple[Value | None, ...]
_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def may_widen(rule: Rule, node: OnnxNode) -> bool:
    """Return whether an operand has 16-bit floats and the rule has steps of its own.

    The steps in the graphs of a loop or a branch are the model's.
    """
    has_graphs = any(attribute_type(a) in _GRAPHS for a in node.attributes.values())
    is_narrow_operand = (value is not None and is_narrow(value.type) for value in node.inputs)
    return any(is_narrow_operand) and not has_graphs and rule not in STEPWISE


def widened(rule: Rule, types: Sequence[TensorType | None]) -> Rule:
    """Return *rule* on float32 instead of 16-bit floats, its results rounded to those of *types*.

    These are the types of what the rule itself returns.
    """

    def wide_rule(ctx: Context, node: OnnxNode) -> Values:
        wide = {v: ctx.convert(v, WIDE) for v in node.inputs if v is not None and is_narrow(v.type)}
        operands = tuple(value and wide.get(value, value) for value in node.inputs)
        result = rule(ctx, dataclasses.replace(node, inputs=operands))
        return tuple(
            ctx.convert(value, type.kind) if value and type and is_narrow(type) else value
            for value, type in zip(ctx.emitted(result), types, strict=True)
        )

    return wide_rule
