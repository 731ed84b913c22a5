"""Convolutions and matrix products over repacked weights (paper 5.1, Figure 6)."""

from __future__ import annotations

from glow_nb.kernels.operators import packed as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, OptionalIn, Out, define_instruction


@define_instruction("packed_convolution", node=nodes.PackedConvolution)
class PackedConvolutionInst(NodeInstruction):
    """Convolve with a filter cut into panels of *block* output channels.

    Input ``[N, *spatial, C]``, filter ``[group, panels, *kernel, C / group, block]`` with
    ``panels = ceil(depth / group / block)``, bias ``[group * panels * block]``, dest
    ``[N, *out, depth]``. The last panel of a group is filled up with zeros. Maybe *factors*
    neighbouring weights of a channel lie together (:mod:`glow_nb.kernels.operators.panels`).
    """

    dest: Out
    input: In
    filter: In
    bias: In
    depth: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]
    group: int
    block: int
    factors: int = 1
    outside: int = 0


@define_instruction("depthwise_convolution", node=nodes.DepthwiseConvolution)
class DepthwiseConvolutionInst(NodeInstruction):
    """Convolve every channel by itself: output channel ``k`` reads input channel ``k // m``.

    Input ``[N, *spatial, C]``, filter ``[*kernel, C * m]``, bias ``[C * m]``, dest
    ``[N, *out, C * m]``.
    """

    dest: Out
    input: In
    filter: In
    bias: In
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]


@define_instruction("grouped_convolution", node=nodes.GroupedConvolution)
class GroupedConvolutionInst(NodeInstruction):
    """Convolve groups of ``m`` channels: channel ``k`` reads those from ``k - k % m`` on.

    Input ``[N, *spatial, C]``, filter ``[*kernel, m, C]``, bias ``[C]``, dest ``[N, *out, C]``.
    """

    dest: Out
    input: In
    filter: In
    bias: In
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]


@define_instruction("packed_mat_mul", node=nodes.PackedMatMul)
class PackedMatMulInst(NodeInstruction):
    """Multiply by a matrix cut into panels of *block* columns, and add a bias.

    Lhs ``[..., M, K]``, rhs ``[..., ceil(depth / block), K, block]``, bias
    ``[ceil(depth / block) * block]`` or absent, dest ``[..., M, depth]``. Maybe *factors*
    neighbours in a column of rhs lie together (:mod:`glow_nb.kernels.operators.panels`).
    """

    dest: Out
    lhs: In
    rhs: In
    bias: OptionalIn
    depth: int
    block: int
    factors: int = 1
