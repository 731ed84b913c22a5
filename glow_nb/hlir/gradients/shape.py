"""Gradients of operators that move elements: each goes back to where its element came from."""

from __future__ import annotations

from glow_nb.hlir.backward import Backward
from glow_nb.hlir.gradients.broadcasting import sum_to
from glow_nb.hlir.graph import Value
from glow_nb.hlir.index_ranges import IndexRange, ascending
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.insertion import InsertSlice
from glow_nb.hlir.ops.reduction import ReduceSum
from glow_nb.hlir.ops.shape import Concat, Pad, Reshape, Slice, Split, Tile, Transpose, slice_axis
from glow_nb.hlir.permutation import inverse
from glow_nb.hlir.rules import OperandGradients, gradient


@gradient(Reshape)
def reshape_gradient(node: Reshape, upstream: Value, builder: Backward) -> OperandGradients:
    """Reshaped back."""
    return {"input": builder.emit(Reshape(upstream, node.input.type.shape))}


@gradient(Transpose)
def transpose_gradient(node: Transpose, upstream: Value, builder: Backward) -> OperandGradients:
    """Transposed back."""
    return {"input": builder.emit(Transpose(upstream, inverse(node.permutation)))}


@gradient(Concat)
def concat_gradient(node: Concat, upstream: Value, builder: Backward) -> OperandGradients:
    """Each input gets its part."""
    starts = (0, *node.ends)
    parts = zip(node.inputs, map(slice, starts, node.ends), strict=True)
    return {
        "inputs": tuple(
            slice_axis(builder, upstream, node.axis, indices) if builder.wants(input) else None
            for input, indices in parts
        )
    }


@gradient(Split)
def split_gradient(
    node: Split, upstream: Value | tuple[Value | None, ...], builder: Backward
) -> OperandGradients:
    """The pieces are put together again; one that nothing depends on is 0."""
    pieces = upstream if isinstance(upstream, tuple) else (upstream,)
    present = tuple(
        piece or builder.filled(type, 0.0)
        for piece, type in zip(pieces, node.result_types, strict=True)
    )
    return {"input": builder.emit(Concat(present, node.axis))}


@gradient(Slice)
def slice_gradient(node: Slice, upstream: Value, builder: Backward) -> OperandGradients:
    """The elements that were taken get theirs, all others 0."""
    ranges = tuple(map(ascending, node.ranges))
    shape = node.input.type.shape
    spread = _spread(_flipped(node, upstream, builder), ranges, builder)
    begins = tuple(r.start for r in ranges)
    sizes = zip(shape, begins, spread.type.shape, strict=True)
    ends = tuple(size - begin - own for size, begin, own in sizes)
    return {"input": builder.emit(Pad(spread, (*begins, *ends)))}


def _flipped(node: Slice, upstream: Value, builder: Backward) -> Value:
    """Return *upstream* with the axes reversed that the slice reverses."""
    for axis, (size, step) in enumerate(zip(upstream.type.shape, node.steps, strict=True)):
        if step < 0:
            upstream = slice_axis(builder, upstream, axis, slice(size - 1, -1, -1))
    return upstream


def _spread(value: Value, ranges: tuple[IndexRange, ...], builder: Backward) -> Value:
    """Return *value* with ``step - 1`` zeros after each element along each axis."""
    if all(r.step == 1 for r in ranges):
        return value
    apart = tuple(n for size in value.type.shape for n in (size, 1))
    zeros = tuple(n for r in ranges for n in (0, r.step - 1))
    cells = builder.emit(Reshape(value, apart))
    padded = builder.emit(Pad(cells, (*(0,) * len(apart), *zeros)))
    shape = tuple(n * r.step for n, r in zip(value.type.shape, ranges, strict=True))
    return builder.emit(Reshape(padded, shape))


@gradient(InsertSlice)
def insert_slice_gradient(
    node: InsertSlice, upstream: Value, builder: Backward
) -> OperandGradients:
    """The part gets its elements, and the input all others."""
    end = node.start + node.part.type.shape[node.axis]
    zeros = builder.filled(node.part.type, 0.0)
    return {
        "input": builder.emit(InsertSlice(upstream, zeros, axis=node.axis, start=node.start)),
        "part": slice_axis(builder, upstream, node.axis, slice(node.start, end)),
    }


@gradient(Pad)
def pad_gradient(node: Pad, upstream: Value, builder: Backward) -> OperandGradients:
    """Added elements are cut off and, unless constant, go to the elements that they repeat.

    What was cut off gets 0.
    """
    for axis, (begin, end) in enumerate(node.widths):
        if node.mode != "constant":
            upstream = _folded(upstream, node.mode, axis, max(begin, 0), max(end, 0), builder)
    kept = node.pads if node.mode == "constant" else (min(pad, 0) for pad in node.pads)
    undone = tuple(-pad for pad in kept)
    return {"input": builder.emit(Pad(upstream, undone)) if any(undone) else upstream}


def _folded(value: Value, mode: str, axis: int, begin: int, end: int, builder: Backward) -> Value:
    """Return *value* without *begin* and *end* cells, which are added where they came from."""
    size = value.type.shape[axis] - begin - end
    sources = {
        "edge": (slice(0, 1), slice(size - 1, size)),
        "wrap": (slice(size - begin, size), slice(0, end)),
        "reflect": (slice(1, begin + 1), slice(size - 1 - end, size - 1)),
    }
    borders = ((0, begin), (begin + size, end))
    total = builder.term(slice_axis(builder, value, axis, slice(begin, begin + size)))
    for (start, count), source in zip(borders, sources[mode], strict=True):
        if count:
            part = _border(value, mode, axis, start, count, builder)
            total = total + builder.term(_placed(part, axis, source, size, builder))
    return total.value


def _border(value: Value, mode: str, axis: int, start: int, count: int, builder: Backward) -> Value:
    """Return the cells of a border, in the order of those that they repeat, or their sum."""
    is_reversed = mode == "reflect"
    cells = slice(start + count - 1, start - 1, -1) if is_reversed else slice(start, start + count)
    part = slice_axis(builder, value, axis, cells)
    return builder.emit(ReduceSum(part, (axis,))) if mode == "edge" else part


def _placed(part: Value, axis: int, place: slice, size: int, builder: Backward) -> Value:
    """Return *part* at *place* of an axis of *size*, with zeros around it."""
    pads = [0] * (2 * part.type.rank)
    pads[axis], pads[part.type.rank + axis] = place.start, size - place.stop
    return builder.emit(Pad(part, tuple(pads)))


@gradient(Tile)
def tile_gradient(node: Tile, upstream: Value, builder: Backward) -> OperandGradients:
    """The sum over the repetitions."""
    sizes = zip(node.repeats, node.input.type.shape, strict=True)
    apart = builder.emit(Reshape(upstream, tuple(n for pair in sizes for n in pair)))
    axes = tuple(range(0, apart.type.rank, 2))
    return {"input": builder.emit(ReduceSum(apart, axes, keep_dims=False))}


@gradient(Broadcast)
def broadcast_gradient(node: Broadcast, upstream: Value, builder: Backward) -> OperandGradients:
    """The sum over the repetitions."""
    return {"input": sum_to(builder, upstream, node.input.type)}
