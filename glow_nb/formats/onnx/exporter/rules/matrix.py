"""Matrix products and determinants."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.exporter.registry import composes, exports
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.rewrite import Replacement, Rewriter

BYTES = frozenset({ElementKind.INT8, ElementKind.UINT8})


def multiplies_bytes(node: ops.MatMul | ops.Convolution) -> bool:
    """Return whether both factors are 8-bit integers, which ONNX multiplies as int32."""
    return all(factor.type.kind in BYTES for factor in node.factors)


def multiplies_alike(node: ops.MatMul | ops.Convolution) -> bool:
    """Return whether factors and results have one kind."""
    return {factor.type.kind for factor in node.factors} == {node.type.kind}


def _has_product(node: ops.MatMul) -> bool:
    return multiplies_bytes(node) or multiplies_alike(node)


@exports(ops.MatMul, says=_has_product)
def mat_mul(ctx: Writer, node: ops.MatMul) -> Value:
    """A product of matrices."""
    op = "MatMulInteger" if multiplies_bytes(node) else "MatMul"
    return ctx.node(node, op, node.lhs, node.rhs)


@composes(ops.MatMul)
def other_mat_mul(node: ops.MatMul, rewriter: Rewriter) -> Replacement:
    """Factors in the kind of the result: integers of unlike kinds, or of 16 bits, and wide ones."""
    lhs, rhs = (rewriter.emit(ops.ConvertTo(each, node.type.kind)) for each in node.factors)
    return rewriter.emit(ops.MatMul(lhs, rhs))


def _has_dense_layer(node: ops.FullyConnected) -> bool:
    return node.type.kind.is_float and not node.wide and node.input.type.shape[1] > 0


@exports(ops.FullyConnected, says=_has_dense_layer)
def fully_connected(ctx: Writer, node: ops.FullyConnected) -> Value:
    """A dense layer."""
    return ctx.node(node, "Gemm", node.input, node.weights, node.bias)
