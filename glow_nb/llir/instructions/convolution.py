"""Convolution over one, two or three spatial dimensions, channels last."""

from __future__ import annotations

from glow_nb.hlir.ops import convolution as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, Out, define_instruction


@define_instruction("convolution", node=nodes.Convolution)
class ConvolutionInst(NodeInstruction):
    """``dest[n, p, k] = bias[k] + sum_{t, c} input[n, q, c] * filter[k, t, c]``.

    The window reads ``q = p * stride + t * dilation - begin``; outside of the input is zero.
    Input ``[N, *spatial, C]``, filter ``[K, *kernel, C / group]``, bias ``[K]``, dest
    ``[N, *out, K]``. Channels outside of the output channel's group are not read.
    """

    dest: Out
    input: In
    filter: In
    bias: In
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]
    group: int
