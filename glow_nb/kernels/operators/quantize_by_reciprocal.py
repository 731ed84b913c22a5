"""Quantization that multiplies by the reciprocal of its scale, which takes no division."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from glow_nb.base.conversion import rounded
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.linear_quantization import FLOAT32, require_beside, require_result_kind
from glow_nb.hlir.ops.quantization import BYTES


@define_node(
    "quantize_by_reciprocal",
    scalar="saturate(rint(fma(input, high, input * low)) + convert_float32(offset))",
)
class QuantizeByReciprocal(Node):
    """Round to bytes of *kind*: ``saturate(rint(input[i] * (high[i] + low[i])) + offset[i])``.

    The product is rounded to float32 once. It is :class:`QuantizeLinear` by a scale whose
    reciprocal ``high + low`` is, in twice the digits (:mod:`glow_nb.numerics.reciprocals`).
    """

    input: Value
    high: Value
    low: Value
    offset: Value
    kind: ElementKind

    @override
    def infer_type(self) -> TensorType:
        require_result_kind(self, self.kind, BYTES)
        for name, operand in (("input", self.input), ("high", self.high), ("low", self.low)):
            require_beside(self, name, operand, FLOAT32)
        require_beside(self, "offset", self.offset, self.kind)
        return self.input.type.with_kind(self.kind)

    @override
    def evaluate(self, input: Array, high: Array, low: Array, offset: Array) -> Array:
        with np.errstate(all="ignore"):
            first = input.astype(np.float64) * high  # exact
            return rounded((first + input * low).astype(np.float32), offset, self.kind)
