"""Random words."""

from __future__ import annotations

from glow_nb.hlir.ops import random as nodes
from glow_nb.llir.instructions.derived import derive_instruction

RandomBitsInst = derive_instruction(nodes.RandomBits)
