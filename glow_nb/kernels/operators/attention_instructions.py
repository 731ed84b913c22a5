"""Attention in parts."""

from __future__ import annotations

from glow_nb.kernels.operators import attention as nodes
from glow_nb.llir.instructions.attention import AttentionInst
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, Out, define_instruction


@define_instruction("attention_parts", node=nodes.AttentionParts)
class AttentionPartsInst(AttentionInst):
    """Attend to every *part_keys* keys on their own.

    Dest ``[parts, B, H, M, E + 2]``: sums of values, the peak of the scores and the total weight.
    """

    part_keys: int


@define_instruction("merge_attention_parts", node=nodes.MergeAttentionParts)
class MergeAttentionPartsInst(NodeInstruction):
    """``dest = sum(sums * exp(peak - M)) / sum(total * exp(peak - M))`` over the parts."""

    dest: Out
    parts: In
    masked_rows: str
    layout: str
