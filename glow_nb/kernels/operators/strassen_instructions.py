"""Strassen's form of matrix products."""

from __future__ import annotations

from glow_nb.kernels.operators import strassen as nodes
from glow_nb.llir.instructions.derived import derive_instruction

StrassenMatMulInst = derive_instruction(nodes.StrassenMatMul)
