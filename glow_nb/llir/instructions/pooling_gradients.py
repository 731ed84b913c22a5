"""Gradients of pools over windows, channels last."""

from __future__ import annotations

from glow_nb.hlir.ops import pooling_gradients as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, Out, define_instruction


@define_instruction("max_pool_gradient", node=nodes.MaxPoolGradient)
class MaxPoolGradientInst(NodeInstruction):
    """``dest[n, i, c]`` is the sum of ``gradient`` over the windows whose largest cell is ``i``.

    Input and dest ``[N, *in, C]``, gradient ``[N, *out, C]``.
    """

    dest: Out
    input: In
    gradient: In
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]
