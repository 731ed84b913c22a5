"""Random words."""

from __future__ import annotations

from glow_nb.hlir.ops import random as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, Out, define_instruction


@define_instruction("random_bits", node=nodes.RandomBits)
class RandomBitsInst(NodeInstruction):
    """Each element of *dest* is a random word of *stream*, by the seed and run of *generator*."""

    dest: Out
    generator: In
    shape: tuple[int, ...]
    stream: int
