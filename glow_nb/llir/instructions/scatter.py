"""Writing elements at places that another tensor names; indices are clamped to the axis.

The result may lie where the data lies: then only what is updated is touched.
"""

from __future__ import annotations

from glow_nb.hlir.ops import scatter as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, Out, define_instruction

_INPLACE = (("dest", "data"),)


@define_instruction("scatter_elements", inplace=_INPLACE, node=nodes.ScatterElements)
class ScatterElementsInst(NodeInstruction):
    """``dest = data``, then ``dest[i] = updates[i]`` with ``i[axis]`` replaced by ``indices[i]``.

    With a *reduction* the update is combined with what is there.
    """

    dest: Out
    data: In
    indices: In
    updates: In
    axis: int
    reduction: str


@define_instruction("scatter_nd", inplace=_INPLACE, node=nodes.ScatterND)
class ScatterNDInst(NodeInstruction):
    """``dest = data``, then ``dest[*indices[i, :]] = updates[i]``, or combined by *reduction*."""

    dest: Out
    data: In
    indices: In
    updates: In
    reduction: str
