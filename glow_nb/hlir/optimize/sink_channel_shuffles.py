"""Let weights, not activations, be shuffled."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import cycle, islice
from math import prod

import numpy as np

from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.known import array_of
from glow_nb.hlir.ops import AvgPool, Convolution, Gather, MaxPool, Reshape, Transpose
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.permutation import Permutation, inverse, permute
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

MAX_GROWTH = 1.125
"""Channels are repeated, so that groups which overlap can be read apart, up to this number of
times."""


@register_pass
def sink_channel_shuffles(function: Function) -> Function:
    """Push a reordering of channels through pools and depthwise convolutions into the next filter.

    For a convolution without groups, the channels of the filter are reordered. One with ``G``
    groups and 1x1 taps takes its channels from all over: it becomes one whose taps are the parts
    ``g`` of the channels that the shuffle interleaves, side by side along the last spatial axis::

        %r = reshape(%x : <1 x 8 x 8 x 12>) {shape = [1, 8, 8, 3, 4]}
        %t = transpose(%r) {permutation = [0, 1, 2, 4, 3]}
        %s = reshape(%t) {shape = [1, 8, 8, 12]}
        %y = convolution(%s, %w : <6 x 1 x 1 x 6>, %b) {kernel = [1, 1], group = 2, ...}
        ->
        %r = reshape(%x) {shape = [1, 8, 24, 4]}
        %y = convolution(%r, %w' : <6 x 1 x 3 x 2>, %b) {kernel = [1, 3], group = 2, ...}

    Where two groups read the same channel of a part, a gather repeats it first
    (``hoist_channel_gathers`` has the convolution before compute it twice), unless that makes an
    eighth more of them.
    """
    return rewrite(function, _rule, AvgPool, Convolution, MaxPool)


@dataclass(frozen=True)
class _Shuffle:
    """Channels that count through *factors*, and then through these axes in another order."""

    source: Value
    factors: tuple[int, ...]
    permutation: Permutation

    @property
    def order(self) -> Array:
        """The channel of the source that stands at each place."""
        places = np.arange(prod(self.factors)).reshape(self.factors)
        return places.transpose(self.permutation).reshape(-1)

    def applied(self, value: Value, rewriter: Rewriter) -> Value:
        """Emit the same shuffle of the last axis of *value*."""
        lead, rank = value.type.shape[:-1], value.type.rank - 1
        apart = rewriter.emit(Reshape(value, (*lead, *self.factors)))
        moved = (*range(rank), *(rank + axis for axis in self.permutation))
        return rewriter.emit(Reshape(rewriter.emit(Transpose(apart, moved)), value.type.shape))

    def undone(self, value: Value, axis: int, rewriter: Rewriter) -> Value:
        """Emit *value*, of which *axis* goes with the shuffled channels, in the source's order."""
        before, after = value.type.shape[:axis], value.type.shape[axis + 1 :]
        shuffled = permute(self.factors, self.permutation)
        apart = rewriter.emit(Reshape(value, (*before, *shuffled, *after)))
        last = axis + len(shuffled)
        moved = (
            *range(axis),
            *(axis + place for place in inverse(self.permutation)),
            *range(last, last + len(after)),
        )
        return rewriter.emit(Reshape(rewriter.emit(Transpose(apart, moved)), value.type.shape))


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None or not isinstance(node, AvgPool | Convolution | MaxPool):
        return None
    shuffle = _shuffle(node.input)
    if shuffle is None or rewriter.use_count(node.input) != 1:
        return None
    if not isinstance(node, Convolution):
        inner = rewriter.emit(dataclasses.replace(node, input=shuffle.source))
        return shuffle.applied(inner, rewriter)
    if node.group == 1:
        last = node.filter.type.rank - 1
        filter = shuffle.undone(node.filter, last, rewriter)
        return rewriter.emit(dataclasses.replace(node, input=shuffle.source, filter=filter))
    if node.group == node.input.type.shape[-1] == node.type.shape[-1]:
        return _sink_below_depthwise(node, shuffle, rewriter)
    return _read_in_parts(node, shuffle, rewriter)


def _shuffle(value: Value) -> _Shuffle | None:
    """Return the shuffle of the last axis that *value* is, or None."""
    match value:
        case Reshape(
            input=Transpose(
                input=Reshape(input=source, predicate=None) as apart,
                permutation=permutation,
                predicate=None,
            ),
            predicate=None,
        ):
            pass
        case _:
            return None
    lead = source.type.rank - 1
    factors, moved = apart.type.shape[lead:], permutation[lead:]
    is_shuffle = (
        source.type == value.type
        and lead > 0
        and value.type.size > 0
        and apart.type.shape[:lead] == source.type.shape[:lead]
        and permutation[:lead] == tuple(range(lead))
    )
    if not is_shuffle:
        return None
    return _Shuffle(source, factors, tuple(axis - lead for axis in moved))


def _sink_below_depthwise(node: Convolution, shuffle: _Shuffle, rewriter: Rewriter) -> Value:
    filter, bias = (shuffle.undone(value, 0, rewriter) for value in (node.filter, node.bias))
    inner = dataclasses.replace(node, input=shuffle.source, filter=filter, bias=bias)
    return shuffle.applied(rewriter.emit(inner), rewriter)


def _read_in_parts(node: Convolution, shuffle: _Shuffle, rewriter: Rewriter) -> Replacement:
    """Make the parts of the channels the taps of a pointwise convolution with groups."""
    filter = array_of(node.filter)
    is_pointwise = set(node.kernel) | set(node.stride) == {1} and not node.is_padded
    if filter is None or not is_pointwise:
        return None
    parts = shuffle.factors[0]
    channels, weights = _layout(shuffle.order.reshape(node.group, -1), parts)
    if channels.size > MAX_GROWTH * shuffle.order.size:
        return None
    if channels.size > shuffle.order.size and not node.type.kind.is_float:
        return None  # their weights cannot be shared out
    source = shuffle.source
    if not np.array_equal(channels.reshape(-1), np.arange(shuffle.order.size)):
        indices = rewriter.constant(f"{node.name}_channels", channels.reshape(-1))
        source = rewriter.emit(Gather(source, indices, axis=source.type.rank - 1))
    *lead, width, size = source.type.shape
    side_by_side = rewriter.emit(Reshape(source, (*lead, width * parts, size // parts)))
    ones = (1,) * (len(node.kernel) - 1)
    per_group = filter.shape[0] // node.group
    rows = np.zeros((node.group, per_group, *weights.shape[1:]), filter.dtype)
    for group in range(node.group):
        shares = filter.reshape(node.group, per_group, filter.shape[-1])[group]
        copies = np.bincount(weights[group].reshape(-1))
        shares = shares if channels.size == shuffle.order.size else shares / copies
        rows[group] = shares[:, weights[group]]
    shape = (filter.shape[0], *ones, parts, weights.shape[-1])
    return rewriter.emit(
        dataclasses.replace(
            node,
            input=side_by_side,
            filter=rewriter.constant(f"{node.filter.name}_parts", rows.reshape(shape)),
            kernel=(*ones, parts),
            stride=(*ones, parts),
            dilation=(1,) * len(node.kernel),
        )
    )


def _layout(wanted: Array, parts: int) -> tuple[Array, Array]:
    """Lay out the channels that the groups want so that each finds them at the same distance.

    Args:
        wanted: The channels that each group reads, ``[group, channels / group]``.
        parts: The channels are cut into this number of parts of equal size.

    Returns:
        The channel to put at each place, ``[parts, group, places]``, and the number of the
        group's weight for it, ``[group, parts, places]``. What only fills up repeats channels that
        the group reads anyhow, of the same part if it can: those stand together. Each copy has its
        share of the weight: a foreign one times zero would let its NaN in.
    """
    groups = len(wanted)
    size = wanted.size // parts
    numbers = [[np.nonzero(row // size == part)[0] for part in range(parts)] for row in wanted]
    numbers = [
        [found[np.argsort(row[found])] for found in cuts]
        for row, cuts in zip(wanted, numbers, strict=True)
    ]
    places = max(found.size for cuts in numbers for found in cuts)
    channels = np.zeros((parts, groups, places), np.int64)
    weights = np.zeros((groups, parts, places), np.int64)
    for group, cuts in enumerate(numbers):
        for part, found in enumerate(cuts):
            repeated = cycle(found if found.size else range(wanted.shape[1]))
            filled = [*found, *islice(repeated, places - found.size)]
            weights[group, part] = filled
            channels[part, group] = wanted[group, filled]
    return channels, weights
