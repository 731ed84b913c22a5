"""Winograd's form of convolutions."""

from __future__ import annotations

from glow_nb.kernels.operators import winograd as nodes
from glow_nb.llir.instructions.derived import derive_instruction

WinogradFilterInst = derive_instruction(nodes.WinogradFilter)
WinogradConvolutionInst = derive_instruction(nodes.WinogradConvolution)
