"""Reading elements at places that another tensor names; indices are clamped to the axis."""

from __future__ import annotations

from glow_nb.hlir.ops import gather as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, Out, define_instruction


@define_instruction("gather", node=nodes.Gather)
class GatherInst(NodeInstruction):
    """``dest[a, i, b] = input[a, indices[i], b]`` with *a* the dimensions before *axis*."""

    dest: Out
    input: In
    indices: In
    axis: int


@define_instruction("gather_elements", node=nodes.GatherElements)
class GatherElementsInst(NodeInstruction):
    """``dest[i] = input[i]`` with ``i[axis]`` replaced by ``indices[i]``."""

    dest: Out
    input: In
    indices: In
    axis: int


@define_instruction("gather_nd", node=nodes.GatherND)
class GatherNDInst(NodeInstruction):
    """``dest[b, i] = input[b, *indices[b, i, :]]`` with *batch_dims* leading dimensions *b*."""

    dest: Out
    input: In
    indices: In
    batch_dims: int
