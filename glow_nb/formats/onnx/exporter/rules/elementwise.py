"""Functions of one element."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.exporter.kinds import takes
from glow_nb.formats.onnx.exporter.registry import composes, exports
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.formats.onnx.schema.element_kinds import code_of
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.rewrite import Replacement, Rewriter

NAMES: dict[type[Node], str] = {
    ops.Abs: "Abs",
    ops.Acos: "Acos",
    ops.Acosh: "Acosh",
    ops.Asin: "Asin",
    ops.Asinh: "Asinh",
    ops.Atan: "Atan",
    ops.Atanh: "Atanh",
    ops.Ceil: "Ceil",
    ops.Cos: "Cos",
    ops.Cosh: "Cosh",
    ops.Erf: "Erf",
    ops.Exp: "Exp",
    ops.Floor: "Floor",
    ops.IsNaN: "IsNaN",
    ops.Log: "Log",
    ops.Neg: "Neg",
    ops.Not: "Not",
    ops.Reciprocal: "Reciprocal",
    ops.Relu: "Relu",
    ops.Round: "Round",
    ops.Sigmoid: "Sigmoid",
    ops.Sign: "Sign",
    ops.Sin: "Sin",
    ops.Sinh: "Sinh",
    ops.Softplus: "Softplus",
    ops.Sqrt: "Sqrt",
    ops.Tan: "Tan",
    ops.Tanh: "Tanh",
}
"""Operators of one operand, without attributes, that mean the same in ONNX."""


@exports(*NAMES)
def same(ctx: Writer, node: ops.Abs) -> Value:
    """Operators that differ in their name at most."""
    return ctx.node(node, NAMES[type(node)], node.input)


@exports(ops.IsInf)
def is_inf(ctx: Writer, node: ops.IsInf) -> Value:
    """Infinities of the wanted signs."""
    signs = {"detect_positive": int(node.positive), "detect_negative": int(node.negative)}
    return ctx.node(node, "IsInf", node.input, **signs)


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
    """Integers of as many bits are converted by their low bits, and a bool is 0 or 1."""
    if _is_whole(node.input.type.kind) and _is_whole(node.kind):
        return rewriter.emit(ops.ConvertTo(node.input, node.kind))
    return None


def _is_whole(kind: ElementKind) -> bool:
    return not kind.is_float and not (kind.is_storage and kind.value.startswith("float"))
