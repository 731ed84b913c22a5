"""Operators that are the same here: rows of a table that the exporter reads, too."""

from __future__ import annotations

from typing import Any

from glow_nb.base.schema import FieldSpec, attribute_specs, operand_specs
from glow_nb.formats.onnx.importer.by_fields import READERS
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import Rule, onnx_op
from glow_nb.formats.onnx.schema.same import SAME, Same
from glow_nb.hlir.graph import Value


def _rule(row: Same) -> Rule:
    count = len(operand_specs(row.node_class))
    specs = [spec for spec in attribute_specs(row.node_class) if spec.name in row.attributes]
    defaults: dict[str, Any] = {s.name: getattr(row.node_class, s.name, None) for s in specs}

    def rule(ctx: Context, node: OnnxNode) -> Value:
        operands = ctx.aligned(*(node.operand(index) for index in range(count)))
        attributes = {spec.name: read(ctx, node, spec) for spec in specs}
        return row.node_class(*operands, **attributes)

    def read(ctx: Context, node: OnnxNode, spec: FieldSpec) -> Any:
        name = row.attributes[spec.name]
        is_old = node.schema is not None and name not in node.schema.attributes
        value = defaults[spec.name] if is_old else READERS[spec.annotation](ctx, node, name)
        return ctx.axis(value, node.operand(0).type.rank) if name == "axis" else value

    return rule


for _row in SAME:
    onnx_op(_row.name, since=_row.since)(_rule(_row))
