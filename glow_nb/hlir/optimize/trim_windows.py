"""Drop what a window cannot see."""

from __future__ import annotations

import dataclasses
from typing import Any

from glow_nb.base.size import Size
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import Convolution, MaxPool, Reshape, Slice
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def trim_windows(function: Function) -> Function:
    """Remove the taps of a convolution or maximum pool that read only padding.

    Such taps exist if the tensor is smaller than the window. A stride has no effect if there is
    only one position, a dilation if there is only one tap. A convolution whose window is the whole
    input is a product, with the whole image as channels.

    ::

        %y = convolution(%x : <1 x 1 x 1 x 8>, %w : <4 x 3 x 3 x 8>, %b) {pads = [1, 1, 1, 1], ...}
        ->
        %c = slice(%w) {starts = [0, 1, 1, 0], stops = [4, 2, 2, 8], ...}
        %y = convolution(%x, %c, %b) {kernel = [1, 1], pads = [0, 0, 0, 0], ...}
    """
    return rewrite(function, _rule, Convolution, MaxPool)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if not isinstance(node, Convolution | MaxPool) or node.type.size == 0:
        return None
    if isinstance(node, Convolution) and node.pad_value:
        return None  # taps that see padding alone count, too
    kept = [_taps_that_see(node, axis) for axis in range(len(node.kernel))]
    changes = _trimmed(node, kept)
    if all(getattr(node, name) == value for name, value in changes.items()):
        return _flattened(node, rewriter) if isinstance(node, Convolution) else None
    if isinstance(node, Convolution) and changes["kernel"] != node.kernel:
        shape = node.filter.type.shape
        starts = (0, *(taps.start for taps in kept), 0)
        stops = (shape[0], *(taps.stop for taps in kept), shape[-1])
        changes["filter"] = rewriter.emit(Slice(node.filter, starts, stops, (1,) * len(shape)))
    return rewriter.emit(dataclasses.replace(node, **changes))


def _taps_that_see(node: Convolution | MaxPool, axis: int) -> range:
    """Return the taps along *axis* from the first that sees input, at any place, to the last.

    All of them if none does, if what is left would begin or end within the input, or if it is known
    only at run time how many places there are.
    """
    size, places = node.input.type.shape[1 + axis], node.type.shape[1 + axis]
    if isinstance(places, Size):
        return range(node.kernel[axis])
    taps, step, dilation = node.kernel[axis], node.stride[axis], node.dilation[axis]
    begin, end = node.pads[axis], node.pads[len(node.kernel) + axis]
    seeing = [
        tap
        for tap in range(taps)
        if any(0 <= place * step + tap * dilation - begin < size for place in range(places))
    ]
    if not seeing:
        return range(taps)
    first = min(seeing[0], begin // dilation)
    last = max(seeing[-1], taps - 1 - end // dilation)
    return range(first, last + 1)


def _trimmed(node: Convolution | MaxPool, kept: list[range]) -> dict[str, Any]:
    """Return the attributes of *node* with the *kept* taps only."""
    rank = len(node.kernel)
    begins, ends, strides, dilations = [], [], [], []
    for axis, (taps, dilation) in enumerate(zip(kept, node.dilation, strict=True)):
        begins.append(node.pads[axis] - taps.start * dilation)
        ends.append(node.pads[rank + axis] - (node.kernel[axis] - taps.stop) * dilation)
        padded = node.input.type.shape[1 + axis] + begins[-1] + ends[-1]
        has_one_place = padded == (len(taps) - 1) * dilation + 1
        strides.append(1 if has_one_place else node.stride[axis])
        dilations.append(1 if len(taps) == 1 else dilation)
    return {
        "kernel": tuple(map(len, kept)),
        "stride": tuple(strides),
        "dilation": tuple(dilations),
        "pads": (*begins, *ends),
    }


def _flattened(node: Convolution, rewriter: Rewriter) -> Replacement:
    """Make a convolution with one place a product of whole images."""
    spatial = node.input.type.shape[1:-1]
    is_whole = node.kernel == spatial and not node.is_padded and set(node.dilation) == {1}
    if not is_whole or node.group != 1 or set(spatial) == {1}:
        return None
    ones = (1,) * len(spatial)
    (batch, *_), (depth, *_) = node.input.type.shape, node.filter.type.shape
    channels = node.filter.type.size // depth
    return rewriter.emit(
        dataclasses.replace(
            node,
            input=rewriter.emit(Reshape(node.input, (batch, *ones, channels))),
            filter=rewriter.emit(Reshape(node.filter, (depth, *ones, channels))),
            kernel=ones,
        )
    )
