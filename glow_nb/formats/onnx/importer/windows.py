"""Sliding windows: kernel, stride, dilation and padding of convolutions and pools."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from glow_nb.base.size import surely, symbols_of
from glow_nb.base.types import MAX_TENSOR_BYTES
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.open_numbers import raise_open
from glow_nb.hlir.ops.windows import Window

_MAX_SPATIAL_RANK = 3


@dataclass(frozen=True)
class OnnxWindow(Window):
    """A window of an ONNX node, which may be widened.

    Attributes:
        excess: The cells of the end pads that only ``ceil_mode`` has added.
    """

    excess: tuple[int, ...]


def window_of(
    ctx: Context, node: OnnxNode, spatial: tuple[int, ...], kernel: tuple[int, ...]
) -> OnnxWindow:
    """Return the window of a convolution or pool over *spatial* sizes.

    ``auto_pad`` becomes pads: SAME gives ``ceil(in / stride)`` results, the odd cell at the end
    (UPPER) or the begin (LOWER). ``ceil_mode`` becomes end pads, so that the rounded-up count of
    windows fits; a window that would start in the end padding is left out.
    """
    rank = len(spatial)
    if not 1 <= rank <= _MAX_SPATIAL_RANK:
        raise ctx.unsupported(f"{rank} spatial dimensions, 1 to {_MAX_SPATIAL_RANK} are possible")
    ones = (1,) * rank
    stride, dilation = node.integers("strides", ones), node.integers("dilations", ones)
    for name, values in (("kernel_shape", kernel), ("strides", stride), ("dilations", dilation)):
        if len(values) != rank or min(values) < 1:
            raise ctx.wrong(f"{name} {list(values)} must be {rank} positive numbers")
    window = OnnxWindow(kernel, stride, (0,) * 2 * rank, dilation, (0,) * rank)
    pads = _pads(ctx, node, spatial, window)
    excess = (0,) * rank
    if node.flag("ceil_mode", False):
        excess = tuple(
            _ceil_excess(n + pads[i] + pads[rank + i], n + pads[i], window.span[i], stride[i])
            for i, n in enumerate(spatial)
        )
    ends = tuple(end + extra for end, extra in zip(pads[rank:], excess, strict=True))
    window = OnnxWindow(kernel, stride, (*pads[:rank], *ends), dilation, excess)
    padded = [n + b + e for n, b, e in zip(spatial, window.pads, ends, strict=False)]
    if surely(prod(padded), ">", MAX_TENSOR_BYTES >> 10):
        raise ctx.wrong(f"pads {list(window.pads)} make an input of size {padded}, which is absurd")
    return window


def auto_pad_of(node: OnnxNode) -> str:
    """Return the mode of padding that a node names; empty is none, as for ONNX Runtime."""
    return node.text("auto_pad", "NOTSET") or "NOTSET"


def _pads(
    ctx: Context, node: OnnxNode, spatial: tuple[int, ...], window: Window
) -> tuple[int, ...]:
    mode, rank = auto_pad_of(node), len(spatial)
    if mode == "NOTSET":
        pads = node.integers("pads", (0,) * 2 * rank)
        if len(pads) != 2 * rank or min(pads) < 0:
            raise ctx.wrong(f"pads {list(pads)} must be {2 * rank} numbers of 0 or more")
        return pads
    if mode == "VALID":
        return (0,) * 2 * rank
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise ctx.wrong(f"auto_pad is {mode!r}; NOTSET, SAME_UPPER, SAME_LOWER and VALID exist")
    totals = [
        ((n + s - 1) // s - 1) * s + span - n
        for n, s, span in zip(spatial, window.stride, window.span, strict=True)
    ]
    totals = [_positive_part(total) for total in totals]
    small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return (*small, *large) if mode == "SAME_UPPER" else (*large, *small)


def _positive_part(pads: int) -> int:
    """Return the *pads* of an axis, none if they are negative."""
    if surely(pads, ">=", 0):
        return pads
    if not surely(pads, "<=", 0):  # a stride beyond the window jumps over cells of some sizes
        raise_open(pads)
    return 0


def _ceil_excess(padded: int, before_end: int, span: int, stride: int) -> int:
    """Return the cells that rounding up the number of windows adds behind *padded* cells.

    A window must start within the *before_end* cells in front of the end padding. Of open sizes
    they are the most that it adds for any size: windows over all of them are those that are wanted.
    """
    if symbols_of(padded):
        if span < padded - before_end + stride:  # one might start in the padding
            raise_open(padded)
        return stride - 1
    count = -(-(padded - span) // stride) + 1
    if (count - 1) * stride >= before_end:
        count -= 1
    return max((count - 1) * stride + span - padded, 0)
