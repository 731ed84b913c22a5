"""Counting the numbers of a tensor."""

from __future__ import annotations

from glow_nb.hlir.ops import profile as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, Out, define_instruction


@define_instruction("profile", node=nodes.Profile)
class ProfileInst(NodeInstruction):
    """The histogram of earlier runs with the numbers of one more tensor counted, too."""

    counted: Out
    limits: Out
    input: In
    counts: In
    bounds: In
