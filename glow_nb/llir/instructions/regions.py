"""Reading regions of images at one size."""

from __future__ import annotations

from glow_nb.hlir.ops import regions as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, Out, define_instruction


@define_instruction("roi_align", node=nodes.RoiAlign)
class RoiAlignInst(NodeInstruction):
    """``dest[r, i, j, :]`` = the mean, or the largest, of samples of bin i, j of box r."""

    dest: Out
    input: In
    boxes: In
    batch: In
    height: int
    width: int
    ratio: int
    scale: float
    half_pixel: bool
    mode: str
