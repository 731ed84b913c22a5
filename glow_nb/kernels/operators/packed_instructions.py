"""Convolutions and matrix products over repacked weights (paper 5.1, Figure 6)."""

from __future__ import annotations

from glow_nb.kernels.operators import packed as nodes
from glow_nb.llir.instructions.derived import derive_instruction

PackedConvolutionInst = derive_instruction(nodes.PackedConvolution)
DepthwiseConvolutionInst = derive_instruction(nodes.DepthwiseConvolution)
GroupedConvolutionInst = derive_instruction(nodes.GroupedConvolution)
PackedMatMulInst = derive_instruction(nodes.PackedMatMul)
