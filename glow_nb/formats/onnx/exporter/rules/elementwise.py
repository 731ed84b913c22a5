"""Functions of one element."""

from __future__ import annotations

from math import inf

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.exporter.kinds import takes
from glow_nb.formats.onnx.exporter.registry import composes, exports
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.formats.onnx.schema.element_kinds import code_of
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.rewrite import Replacement, Rewriter


@exports(ops.Clip)
def clip(ctx: Writer, node: ops.Clip) -> Value:
    """A range: both bounds are given, since a bound left out is the largest finite number."""
    if (node.minimum, node.maximum) == (-inf, inf):
        return node.input
    kind = node.type.kind
    low, high = node.bounds
    bounds = ctx.number(low, kind, "minimum"), ctx.number(high, kind, "maximum")
    return ctx.node(node, "Clip", node.input, *bounds)


@exports(ops.ConvertTo)
def convert_to(ctx: Writer, node: ops.ConvertTo) -> Value:
    """Conversions, which are those that ONNX makes by default."""
    if node.input.type.kind is node.kind:
        return node.input
    return ctx.node(node, "Cast", node.input, to=code_of(node.kind))


BIT_CAST_SINCE = 26


def _has_bit_cast(node: ops.BitCast) -> bool:
    kinds = {"T1": node.input.type.kind, "T2": node.kind}
    return all(takes("BitCast", BIT_CAST_SINCE, name, kind) for name, kind in kinds.items())


@exports(ops.BitCast, since=BIT_CAST_SINCE, says=_has_bit_cast)
def bit_cast(ctx: Writer, node: ops.BitCast) -> Value:
    """The same bits as another kind."""
    return ctx.node(node, "BitCast", node.input, to=code_of(node.kind))


@composes(ops.BitCast)
def bit_cast_of_integers(node: ops.BitCast, rewriter: Rewriter) -> Replacement:
    """Integers of the same size are converted by their low bits, and a bool is 0 or 1."""
    if _is_whole(node.input.type.kind) and _is_whole(node.kind):
        return rewriter.emit(ops.ConvertTo(node.input, node.kind))
    return None


def _is_whole(kind: ElementKind) -> bool:
    return not kind.is_float and not (kind.is_storage and kind.value.startswith("float"))
