"""Arithmetic of two quantized tensors, each with its own scale and offset (paper 4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from typing_extensions import override

from glow_nb.base.conversion import dequantized, quantized
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.arithmetic import Add, Div, Maximum, Minimum, Mul, Sub
from glow_nb.hlir.ops.families import BinaryElementwise, broadcast_type
from glow_nb.hlir.ops.linear_quantization import FLOAT32
from glow_nb.hlir.ops.quantization import (
    ACTIVATIONS,
    emit_quantized,
    emit_real,
    quantized_result,
    require_quantized,
)
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import LOWERINGS


@dataclass(frozen=True, eq=False, repr=False)
class QuantizedBinary(Node):
    """Base of operators on two quantized tensors.

    ``quantize(f(dequantize(lhs), dequantize(rhs)))``, all computed in float32. The tensors have one
    rank; a dimension of size 1 is repeated to fit the other.

    Attributes:
        kind: Kind of the result.
        scale: Scale of the result.
        offset: Offset of the result.
    """

    real: ClassVar[type[BinaryElementwise]]
    function: ClassVar[np.ufunc]
    lhs: Value
    rhs: Value
    kind: ElementKind
    scale: float
    offset: int

    @override
    def infer_type(self) -> TensorType:
        lhs, rhs = self.lhs.type, self.rhs.type
        require_quantized(self, "lhs", lhs, ACTIVATIONS)
        require_quantized(self, "rhs", rhs, ACTIVATIONS)
        reals = broadcast_type(self, lhs=lhs.with_kind(FLOAT32), rhs=rhs.with_kind(FLOAT32))
        return quantized_result(self, reals.shape)

    @override
    def evaluate(self, lhs: Array, rhs: Array) -> Array:
        with np.errstate(all="ignore"):
            x, y = dequantized(lhs, self.lhs.type), dequantized(rhs, self.rhs.type)
            return quantized(self.function(x, y), self.type)


@define_node("quantized_add", data_parallel=True, commutes=True)
class QuantizedAdd(QuantizedBinary):
    """Sum of the real numbers, quantized."""

    real, function = Add, np.add


@define_node("quantized_sub", data_parallel=True)
class QuantizedSub(QuantizedBinary):
    """Difference of the real numbers, quantized."""

    real, function = Sub, np.subtract


@define_node("quantized_mul", data_parallel=True, commutes=True)
class QuantizedMul(QuantizedBinary):
    """Product of the real numbers, quantized."""

    real, function = Mul, np.multiply


@define_node("quantized_div", data_parallel=True)
class QuantizedDiv(QuantizedBinary):
    """Quotient of the real numbers, quantized; 0 / 0 gives the least number of the kind."""

    real, function = Div, np.divide


@define_node("quantized_minimum", data_parallel=True, commutes=True)
class QuantizedMinimum(QuantizedBinary):
    """Smaller real number, quantized."""

    real, function = Minimum, np.minimum


@define_node("quantized_maximum", data_parallel=True, commutes=True)
class QuantizedMaximum(QuantizedBinary):
    """Larger real number, quantized."""

    real, function = Maximum, np.maximum


BINARY = (
    *(QuantizedAdd, QuantizedSub, QuantizedMul, QuantizedDiv),
    *(QuantizedMinimum, QuantizedMaximum),
)


@LOWERINGS.register(*BINARY)
def lower_quantized_binary(node: QuantizedBinary, rewriter: Rewriter) -> Value:
    """Express it as the operator on real numbers, between a dequantization and a quantization."""
    lhs, rhs = emit_real(rewriter, node.lhs), emit_real(rewriter, node.rhs)
    return emit_quantized(rewriter, rewriter.emit(node.real(lhs, rhs)), node.type)
