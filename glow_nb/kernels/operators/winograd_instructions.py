"""Winograd's form of convolutions."""

from __future__ import annotations

from glow_nb.kernels.operators import winograd as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import In, Out, define_instruction


@define_instruction("winograd_filter", node=nodes.WinogradFilter)
class WinogradFilterInst(NodeInstruction):
    """Transform a packed filter of ``[group, panels, *kernel, C / group, block]`` for *tile*.

    It will be applied with *stride*.
    """

    dest: Out
    filter: In
    tile: tuple[int, ...]
    stride: tuple[int, ...]


@define_instruction("winograd_convolution", node=nodes.WinogradConvolution)
class WinogradConvolutionInst(NodeInstruction):
    """Convolve by tiles of *tile* outputs, with a filter cut into panels.

    Input ``[N, *spatial, C]``, transformed filter ``[group, panels, *n, C / group, block]`` with
    ``panels = ceil(depth / group / block)`` and ``n = (tile - 1) stride + kernel``, bias
    ``[group * panels * block]``, dest ``[N, *out, depth]``. Bytes take a filter that is not
    transformed, with pairs of channels together: ``[group, panels, ceil(C / group / 2), *kernel,
    block * 2]`` (:class:`glow_nb.kernels.operators.winograd.WinogradConvolution`).
    """

    dest: Out
    input: In
    filter: In
    bias: In
    depth: int
    kernel: tuple[int, ...]
    tile: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]
    group: int
    block: int
    guarded: bool
    outside: int = 0
