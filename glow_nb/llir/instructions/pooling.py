"""Pooling over windows, channels last."""

from __future__ import annotations

from glow_nb.hlir.ops import pooling as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction, UnaryInstruction
from glow_nb.llir.program import In, Out, define_instruction


@define_instruction("max_pool", node=nodes.MaxPool)
class MaxPoolInst(UnaryInstruction):
    """``dest[n, p, c] = max_t input[n, p*stride + t*dilation - pad, c]``; padding never wins."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]


@define_instruction("max_pool_with_argmax", node=nodes.MaxPoolWithArgmax)
class MaxPoolWithArgmaxInst(NodeInstruction):
    """Pool like ``max_pool`` and write where each maximum came from, as ONNX counts elements."""

    values: Out
    indices: Out
    input: In
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]
    column_major: bool


@define_instruction("avg_pool", node=nodes.AvgPool)
class AvgPoolInst(UnaryInstruction):
    """``dest[n, p, c] = mean_t input[n, p*stride + t*dilation - pad, c]``.

    Divides by the cells of the input under the window, with *count_padding* by all but the
    *uncounted* outermost ones of the end padding.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]
    count_padding: bool
    uncounted: tuple[int, ...]
