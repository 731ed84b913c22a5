"""Operators that are the same in ONNX: rows of a table that the importer reads, too."""

from __future__ import annotations

from collections.abc import Mapping

from glow_nb.base.schema import operand_specs
from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.exporter.registry import (
    OLDEST_OPSET,
    Condition,
    ExportRule,
    exports,
    has_single_attributes,
)
from glow_nb.formats.onnx.exporter.rules.arithmetic import divides_safely, has_modulo
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.formats.onnx.schema.same import SAME, Same
from glow_nb.formats.onnx.schema.schemas import NEWEST_OPSET, find_schema
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Node, Value


def _is_not_double(node: Node) -> bool:
    """ONNX's constants are float32, and so are its statistics."""
    return node.type.kind is not ElementKind.FLOAT64


_SAYS: Mapping[type[Node], Condition] = {
    ops.Div: divides_safely,
    ops.Gelu: _is_not_double,
    ops.LayerNormalization: _is_not_double,
    ops.Modulo: has_modulo,
}

_WRITTEN = (
    Same("Erf", ops.Erf),
    Same("Gather", ops.Gather, {"axis": "axis"}),
    Same("GatherElements", ops.GatherElements, {"axis": "axis"}),
    Same("LayerNormalization", ops.LayerNormalization, {"axis": "axis", "epsilon": "epsilon"}),
    Same("Max", ops.Maximum),
    Same("Min", ops.Minimum),
    Same("PRelu", ops.PRelu),
    Same("ScatterElements", ops.ScatterElements, {"axis": "axis", "reduction": "reduction"}),
)
"""What ONNX has operators for that can more: the importer has a rule of its own for these."""


def _rule(row: Same) -> ExportRule:
    names = [spec.name for spec in operand_specs(row.node_class)]

    def rule(ctx: Writer, node: Node) -> Value:
        values = ((theirs, getattr(node, ours)) for ours, theirs in row.attributes.items())
        attributes = {k: int(v) if isinstance(v, bool) else v for k, v in values}
        return ctx.node(node, row.name, *(getattr(node, name) for name in names), **attributes)

    return rule


def _since(name: str) -> int:
    """Return the first operator set that may be written and has the operator."""
    sets = range(OLDEST_OPSET, NEWEST_OPSET + 1)
    return next(opset for opset in sets if find_schema("", name, opset))


for _row in (*SAME, *_WRITTEN):
    _says = _SAYS.get(_row.node_class, has_single_attributes)
    exports(_row.node_class, since=_since(_row.name), says=_says)(_rule(_row))
