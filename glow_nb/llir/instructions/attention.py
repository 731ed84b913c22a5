"""Attention, for backends that do not want it lowered."""

from __future__ import annotations

from glow_nb.hlir.ops import attention as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, OptionalIn, Out, define_instruction


@define_instruction("attention", node=nodes.Attention)
class AttentionInst(NodeInstruction):
    """``dest = softmax(scale * query @ transpose(key) + mask) @ value`` for each head.

    Layouts, *softcap*, *causal* with its *offset*, *fill* and *masked_rows* are those of the
    operator.
    """

    dest: Out
    query: In
    key: In
    value: In
    mask: OptionalIn
    scale: float
    causal: bool
    offset: int
    softcap: float
    fill: float
    masked_rows: str
    query_layout: str
    key_layout: str
    value_layout: str
    result_layout: str
