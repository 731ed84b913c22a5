"""Writing elements at places that another tensor names; indices are clamped to the axis.

The result may lie where the data lies: then only what is updated is touched.
"""

from __future__ import annotations

from glow_nb.hlir.ops import scatter as nodes
from glow_nb.llir.instructions.derived import derive_instruction

_INPLACE = (("dest", "data"),)

ScatterElementsInst = derive_instruction(nodes.ScatterElements, inplace=_INPLACE)
ScatterNDInst = derive_instruction(nodes.ScatterND, inplace=_INPLACE)
