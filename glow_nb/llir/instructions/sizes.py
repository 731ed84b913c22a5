"""Open sizes as numbers that are computed with."""

from __future__ import annotations

from glow_nb.hlir.ops import sizes as nodes
from glow_nb.llir.instructions.derived import derive_instruction

SizesInst = derive_instruction(nodes.Sizes)
