"""Strassen's form of matrix products."""

from __future__ import annotations

from glow_nb.kernels.operators import strassen as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, OptionalIn, Out, define_instruction


@define_instruction("strassen_mat_mul", node=nodes.StrassenMatMul)
class StrassenMatMulInst(NodeInstruction):
    """Multiply rows by a matrix, cut into blocks, by fewer products of blocks, and add a bias.

    A matrix has ``side = 2 ** levels`` blocks in a row. Lhs ``[..., K]``, rhs ``[panels,
    7 ** levels, K / side, block]`` with ``panels = ceil(depth / side / block)``, scales ``[side *
    panels * block]``, bias like these or absent, dest ``[..., depth]``.
    """

    dest: Out
    lhs: In
    rhs: In
    scales: In
    bias: OptionalIn
    depth: int
    block: int
    levels: int = 1
