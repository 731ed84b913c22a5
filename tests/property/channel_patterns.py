"""Patterns that move channels about: shuffles and gathers between convolutions and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from tests.property.patterns import POINT, affine

if TYPE_CHECKING:
    from tests.property.random_graphs import GraphMaker


def shuffled_channels(maker: GraphMaker) -> None:
    """Grouped convolutions with their channels interleaved in between, as in ShuffleNet."""
    candidates = [v for v in maker.pool if v.type.rank == 4 and v.type.size <= 512]
    if not candidates:
        return
    parts, groups = maker.integer(2, 3), maker.integer(1, 3)
    channels = parts * groups * maker.integer(1, 3)
    value = convolved(maker, maker.pick(candidates), channels, 1, POINT)
    if maker.integer(0, 1):
        value = maker.builder.emit(ops.Relu(affine(maker, value)))
    value = shuffled(maker, value, parts)
    if maker.integer(0, 1):
        taps = {**POINT, "kernel": (1, 2), "pads": (0, 1, 0, 0)}
        value = convolved(maker, value, channels, channels, taps)
    if maker.integer(0, 3) == 0:
        value = maker.builder.emit(ops.MaxPool(value, **POINT))
    stride = {**POINT, "stride": (1, 2)} if maker.integer(0, 3) == 0 else POINT
    value = convolved(maker, value, groups * maker.integer(1, 3), groups, stride)
    maker.add(ops.Tanh(value), exact=False)


def convolved(
    maker: GraphMaker, value: Value, depth: int, group: int, where: dict[str, object]
) -> Value:
    """Return *value* convolved with random weights."""
    channels = value.type.shape[3]
    kernel: tuple[int, ...] = where["kernel"]  # type: ignore[assignment]
    filter = maker.builder.constant("w", maker.numbers(depth, *kernel, channels // group))
    bias = maker.builder.constant("b", maker.numbers(depth))
    return maker.builder.emit(ops.Convolution(value, filter, bias, group=group, **where))  # type: ignore[arg-type]


def shuffled(maker: GraphMaker, value: Value, parts: int) -> Value:
    """Return *value* with the channels of its *parts* interleaved."""
    *lead, channels = value.type.shape
    apart = maker.builder.emit(ops.Reshape(value, (*lead, parts, channels // parts)))
    rank = len(lead)
    swapped = maker.builder.emit(ops.Transpose(apart, (*range(rank), rank + 1, rank)))
    return maker.builder.emit(ops.Reshape(swapped, value.type.shape))


def overlapping_groups(maker: GraphMaker) -> None:
    """Two groups that read parts of odd size: one channel of each part is read by both."""
    candidates = [v for v in maker.pool if v.type.rank == 4 and v.type.size <= 256]
    if not candidates:
        return
    source, size = maker.pick(candidates), maker.integer(8, 10) * 2 + 1
    group = 2 if source.type.shape[3] % 2 == 0 else 1
    value = convolved(maker, source, 2 * size, group, POINT)
    value = shuffled(maker, value, 2)
    maker.add(ops.Tanh(convolved(maker, value, 4, 2, POINT)), exact=False)


def gathered_channels(maker: GraphMaker) -> None:
    """Some channels, in any order, of what a convolution or product makes."""
    candidates = [v for v in maker.pool if v.type.rank in (2, 4) and v.type.size <= 512]
    if not candidates:
        return
    value = maker.pick(candidates)
    rank, group = value.type.rank, 1
    if rank == 4:
        group = (1, 2, value.type.shape[3])[maker.integer(0, 2)]
        group = group if value.type.shape[3] % group == 0 else 1
        value = convolved(maker, value, group * maker.integer(1, 3), group, POINT)
    else:
        weights = maker.numbers(value.type.shape[1], maker.integer(1, 6))
        value = maker.builder.emit(ops.MatMul(value, maker.builder.constant("m", weights)))
    if maker.integer(0, 1):
        value = maker.builder.emit(ops.Relu(affine(maker, value)))
    depth = value.type.shape[-1]
    rng = np.random.default_rng(maker.integer(0, 2**16))
    if maker.integer(0, 1):
        first = maker.integer(0, depth - 1)
        stops = (*value.type.shape[:-1], maker.integer(first + 1, depth))
        node = ops.Slice(value, (*(0,) * (rank - 1), first), stops, (1,) * rank)
        maker.add(ops.Tanh(maker.builder.emit(node)), exact=False)
        return
    places = rng.integers(-depth, depth, maker.integer(1, depth))
    if maker.integer(0, 1):
        places = np.sort(places % depth)
    indices = maker.builder.constant("i", places)
    taken = maker.builder.emit(ops.Gather(value, indices, axis=rank - 1))
    maker.add(ops.Tanh(taken), exact=False)


CHANNEL_PATTERNS: tuple[Callable[[GraphMaker], None], ...] = (
    shuffled_channels,
    overlapping_groups,
    gathered_channels,
)
