"""Strassen's form of matrix products."""

from __future__ import annotations

from glow_nb.kernels.operators import strassen as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, OptionalIn, Out, define_instruction


@define_instruction("strassen_mat_mul", node=nodes.StrassenMatMul)
class StrassenMatMulInst(NodeInstruction):
    """Multiply rows by a matrix, cut into 2 x 2 blocks, by seven products, and add a bias.

    Lhs ``[..., K]``, rhs ``[panels, 7, K / 2, block]`` with ``panels = ceil(depth / 2 / block)``,
    scales ``[2 * panels * block]``, bias like these or absent, dest ``[..., depth]``.
    """

    dest: Out
    lhs: In
    rhs: In
    scales: In
    bias: OptionalIn
    depth: int
    block: int
