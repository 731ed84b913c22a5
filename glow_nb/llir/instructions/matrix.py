"""Matrix products and determinants."""

from __future__ import annotations

from glow_nb.hlir.ops import matrix as nodes
from glow_nb.llir.instructions.node_instruction import (
    BinaryInstruction,
    NodeInstruction,
    UnaryInstruction,
)
from glow_nb.llir.program import In, Out, define_instruction


@define_instruction("mat_mul", node=nodes.MatMul)
class MatMulInst(BinaryInstruction):
    """``dest[..., i, j] = sum_k lhs[..., i, k] * rhs[..., k, j]``.

    Batch dimensions are equal, or rhs is one matrix for all of lhs's batches.
    """


@define_instruction("fully_connected", node=nodes.FullyConnected)
class FullyConnectedInst(NodeInstruction):
    """``dest[i, j] = sum_k input[i, k] * weights[k, j] + bias[j]``."""

    dest: Out
    input: In
    weights: In
    bias: In


@define_instruction("determinant", node=nodes.Determinant)
class DeterminantInst(UnaryInstruction):
    """``dest[b] = det(input[b, :, :])``."""
