"""The matrix product of operands that lie as they came, which a backend may read in place."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.families import NUMBERS, Wide, fitted, product_kind, require_kind, widest
from glow_nb.hlir.ops.matrix import matrix_product_cost
from glow_nb.llir.instructions.derived import derive_instruction


@define_node("unpacked_mat_mul")
class UnpackedMatMul(Node):
    """Multiply matrices like :class:`MatMul`, transposing the operands, and add a bias row.

    Axis ``i`` of what is multiplied is axis ``order[i]`` of the operand, as in ``transpose``. So
    transposed, ``lhs`` is ``[batch..., M, K]``, and ``rhs`` is ``[batch..., K, N]`` with the same
    batch or ``[K, N]``; ``bias`` is ``[N]`` or absent; the result is ``[batch..., M, N]``.

    Attributes:
        lhs_order: Order of the axes of the left operand.
        rhs_order: Order of the axes of the right operand.
        wide: As of the product.
    """

    lhs: Value
    rhs: Value
    bias: Value | None
    lhs_order: tuple[int, ...]
    rhs_order: tuple[int, ...]
    wide: Wide = False

    @override
    def infer_type(self) -> TensorType:
        require_kind(self, "lhs", self.lhs.type, NUMBERS)
        lhs, rhs = self._transposed("lhs"), self._transposed("rhs")
        kind = product_kind(self, lhs, rhs, wide=self.wide)
        self.require(
            lhs.shape[-1] == rhs.shape[-2] and rhs.shape[:-2] in ((), lhs.shape[:-2]),
            f"operands do not fit: transposed, 'lhs' is {lhs} and 'rhs' {rhs}",
        )
        wanted = TensorType(kind, rhs.shape[-1:])
        if self.bias is not None:
            found = self.bias.type
            self.require(found == wanted, f"'bias' is {found}, but 'rhs' needs {wanted}")
        return TensorType(kind, (*lhs.shape[:-1], rhs.shape[-1]))

    def _transposed(self, name: str) -> TensorType:
        """Return the type of an operand once it is transposed."""
        type: TensorType = getattr(self, name).type
        order: tuple[int, ...] = getattr(self, f"{name}_order")
        self.require(
            type.rank >= 2 and sorted(order) == list(range(type.rank)),
            f"'{name}' is {type} and {name}_order {order}; give a matrix, or a batch of matrices, "
            "and an order that holds each of its axes once",
        )
        return type.with_shape(tuple(type.shape[axis] for axis in order))

    @override
    def evaluate(self, lhs: Array, rhs: Array, bias: Array | None) -> Array:
        left, right = lhs.transpose(self.lhs_order), rhs.transpose(self.rhs_order)
        with np.errstate(all="ignore"):
            result: Any = widest(left) @ widest(right)
            result = result if bias is None else result + widest(bias)
        return fitted(result, self.type)

    @override
    def cost(self) -> Cost:
        has_bias = self.bias is not None
        return matrix_product_cost(self, self._transposed("lhs").shape[-1], has_bias=has_bias)


UnpackedMatMulInst = derive_instruction(UnpackedMatMul)
