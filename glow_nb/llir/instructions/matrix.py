"""Determinants."""

from __future__ import annotations

from glow_nb.hlir.ops import matrix as nodes
from glow_nb.llir.instructions.node_instruction import UnaryInstruction
from glow_nb.llir.program import define_instruction


@define_instruction("determinant", node=nodes.Determinant)
class DeterminantInst(UnaryInstruction):
    """``dest[b] = det(input[b, :, :])``."""
