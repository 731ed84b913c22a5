"""Sliding windows: as attributes of ONNX, and written out as slices."""

from __future__ import annotations

from typing import Any

from glow_nb.base.size import Size, surely
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops import Pad, Slice
from glow_nb.hlir.rewrite import Rewriter


def onnx_window(node: Any) -> dict[str, Any]:
    """Return the attributes of ONNX for the window of a convolution or pool."""
    return {
        "kernel_shape": node.kernel,
        "strides": node.stride,
        "pads": node.pads,
        "dilations": node.dilation,
    }


def padded(node: Any, value: Value, fill: float, rewriter: Rewriter) -> Value:
    """Emit *value*, ``[N, *in, C]``, with the padding of the window of *node*, full of *fill*."""
    rank = len(node.kernel)
    begins, ends = node.pads[:rank], node.pads[rank:]
    if not node.is_padded:
        return value
    return rewriter.emit(Pad(value, (0, *begins, 0, 0, *ends, 0), value=fill))


def windows_of(node: Any, value: Value, fill: float, rewriter: Rewriter) -> tuple[Value, ...]:
    """Emit the cells under each tap of the window of *node* on *value*, each ``[N, *out, C]``."""
    whole = padded(node, value, fill, rewriter)
    batch, *out, _ = node.type.shape
    channels = value.type.shape[-1]
    cells = []
    for _, slices in node.window.tap_slices(tuple(out)):
        starts, stops = (cut.start for cut in slices), (cut.stop for cut in slices)
        taken = ((0, *starts, 0), (batch, *stops, channels), (1, *node.stride, 1))
        cells.append(rewriter.emit(Slice(whole, *taken)))
    return tuple(cells)


def sees_something(node: Any) -> bool:
    """Return whether there is a cell of the input under every window, whatever the sizes are."""
    rank = len(node.kernel)
    axes = zip(
        node.input.type.shape[1 : 1 + rank],
        node.type.shape[1 : 1 + rank],
        node.pads[:rank],
        node.pads[rank:],
        node.kernel,
        node.stride,
        node.dilation,
        strict=True,
    )
    return all(_sees_something(*axis) for axis in axes)


def _sees_something(
    size: int, places: int, begin: int, end: int, kernel: int, stride: int, dilation: int
) -> bool:
    """Return whether there is a cell of one axis under every window.

    It is so if the first window ends in the axis, the last one begins in it, and no two taps are
    farther apart than the axis is long. Otherwise, each window is looked at.
    """
    reach = dilation * (kernel - 1)
    if surely(begin, "<=", reach) and surely(end, "<=", reach) and surely(dilation, "<=", size):
        return True
    if any(isinstance(number, Size) for number in (size, places, begin)):
        return False
    return all(
        any(0 <= place * stride + tap * dilation - begin < size for tap in range(kernel))
        for place in range(places)
    )


def has_small_pads(node: Any) -> bool:
    """Return whether all padding is narrower than the window, as ONNX Runtime wants it."""
    return all(pad < size for pad, size in zip(node.pads, node.kernel * 2, strict=True))
