"""Reading regions of images at one size."""

from __future__ import annotations

from glow_nb.hlir.ops import regions as nodes
from glow_nb.llir.instructions.derived import derive_instruction

RoiAlignInst = derive_instruction(nodes.RoiAlign)
