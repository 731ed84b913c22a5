"""Determinants."""

from __future__ import annotations

from glow_nb.hlir.ops import matrix as nodes
from glow_nb.llir.instructions.derived import derive_instruction

DeterminantInst = derive_instruction(nodes.Determinant)
