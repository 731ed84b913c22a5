"""Attention, for backends that do not want it lowered."""

from __future__ import annotations

from glow_nb.hlir.ops import attention as nodes
from glow_nb.llir.instructions.derived import derive_instruction

AttentionInst = derive_instruction(nodes.Attention)
