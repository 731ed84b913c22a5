"""Attention in parts."""

from __future__ import annotations

from glow_nb.kernels.operators import attention as nodes
from glow_nb.llir.instructions.derived import derive_instruction

AttentionPartsInst = derive_instruction(nodes.AttentionParts)
MergeAttentionPartsInst = derive_instruction(nodes.MergeAttentionParts)
