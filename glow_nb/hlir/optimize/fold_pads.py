"""Let windows do their own padding."""

from __future__ import annotations

import dataclasses
import math

from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import AvgPool, Convolution, MaxPool, Pad
from glow_nb.hlir.ops.convolution import PADDED_KINDS
from glow_nb.hlir.ops.families import bounds_of
from glow_nb.hlir.optimize.ranges import range_of
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def fold_pads(function: Function) -> Function:
    """Merge a constant pad of the spatial axes into the convolution or pool that reads it.

    The merge is exact only if the pad has the meaning of the window's own padding: zeros for a
    convolution of floats, any one number for a convolution of integers; zeros that are counted for
    an average; the least value for a maximum, or zeros if the input has no negative number and
    every window contains an element of it. Pads of one value are merged, too.

    ::

        %p = pad(%x) {pads = [0, 1, 1, 0, 0, 1, 1, 0], mode = "constant", value = 0.0}
        %y = convolution(%p, %w, %b) {pads = [0, 0, 0, 0], ...}
        ->
        %y = convolution(%x, %w, %b) {pads = [1, 1, 1, 1], ...}
    """
    return rewrite(function, _rule, Pad, Convolution, MaxPool, AvgPool)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    pad = getattr(node, "input", None)
    if not isinstance(pad, Pad) or pad.mode != "constant" or min(pad.pads, default=-1) < 0:
        return None
    if pad.predicate is not None:
        return None
    if isinstance(node, Pad):
        return _merge_pads(node, pad, rewriter)
    if not isinstance(node, Convolution | MaxPool | AvgPool):
        return None
    spatial = spatial_pads(pad)
    if spatial is None:
        return None
    pads = tuple(map(sum, zip(node.pads, spatial, strict=True)))
    match node:
        case Convolution() if pad.value == 0 or pad.type.kind in PADDED_KINDS:
            value = int(pad.stored_value)
            if node.is_padded and value != node.pad_value:
                return None
            return rewriter.emit(
                dataclasses.replace(node, input=pad.input, pads=pads, pad_value=value)
            )
        case AvgPool() if pad.value == 0 and _counts_all(node):
            return rewriter.emit(
                dataclasses.replace(
                    node, input=pad.input, pads=pads, count_padding=True, uncounted=()
                )
            )
        case MaxPool() if _is_neutral(pad, node, pads):
            return rewriter.emit(dataclasses.replace(node, input=pad.input, pads=pads))
    return None


def _merge_pads(outer: Pad, inner: Pad, rewriter: Rewriter) -> Replacement:
    if outer.mode != "constant" or outer.value != inner.value or min(outer.pads) < 0:
        return None
    pads = tuple(map(sum, zip(inner.pads, outer.pads, strict=True)))
    return rewriter.emit(dataclasses.replace(outer, input=inner.input, pads=pads))


def spatial_pads(pad: Pad) -> tuple[int, ...] | None:
    """Return the pads of the spatial axes of ``N..C``, None if others are padded as well."""
    rank = pad.type.rank
    begins, ends = pad.pads[:rank], pad.pads[rank:]
    if rank < 3 or any((begins[0], begins[-1], ends[0], ends[-1])):
        return None
    return begins[1:-1] + ends[1:-1]


def _counts_all(node: AvgPool) -> bool:
    return not node.is_padded or (node.count_padding and not any(node.uncounted))


def _is_neutral(pad: Pad, node: MaxPool, pads: tuple[int, ...]) -> bool:
    """Return whether cells of *pad* never decide a maximum that the window's padding would not."""
    least = bounds_of(node.type.kind)[0]
    if pad.value == least or (math.isinf(pad.value) and pad.value < 0):
        return True
    low, _ = range_of(pad.input)
    return pad.value == 0 and low >= 0 and sees_input(node, pad.input.type.shape[1:-1], pads)


def sees_input(node: MaxPool, sizes: tuple[int, ...], pads: tuple[int, ...]) -> bool:
    """Return whether every window has a tap inside the input of *sizes* when padded by *pads*."""
    for axis, (size, kernel) in enumerate(zip(sizes, node.kernel, strict=True)):
        for position in range(node.type.shape[1 + axis]):
            first = position * node.stride[axis] - pads[axis]
            taps = range(first, first + kernel * node.dilation[axis], node.dilation[axis])
            if not any(0 <= tap < size for tap in taps):
                return False
    return True
