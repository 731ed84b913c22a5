"""Reading elements at places that another tensor names; indices are clamped to the axis."""

from __future__ import annotations

from glow_nb.hlir.ops import gather as nodes
from glow_nb.llir.instructions.derived import derive_instruction

GatherInst = derive_instruction(nodes.Gather)
GatherElementsInst = derive_instruction(nodes.GatherElements)
GatherNDInst = derive_instruction(nodes.GatherND)
