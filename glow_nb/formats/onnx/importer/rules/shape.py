"""Operators that move elements: reshape, transpose, concat, slice, split, pad, tile, ..."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from glow_nb.base.size import hinted, same, surely, symbols_of
from glow_nb.formats.onnx.importer.context import Context, broadcast_shape
from glow_nb.formats.onnx.importer.decided_operands import (
    Element,
    decided_expansion,
    decided_shape,
    decided_slice,
    decided_split,
    may_decide,
    rest_of,
    sizes_from,
)
from glow_nb.formats.onnx.importer.decided_padding import decided_pad
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.schema.counting import same_dimension
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value

_SLICE_BY_INPUT_SINCE = 10


@onnx_op("Reshape")
def reshape(ctx: Context, node: OnnxNode) -> Value:
    """Another shape: -1 is what is left; 0 keeps the size, or with ``allowzero`` is 0."""
    x, given = node.operand(0), node.operand(1)
    keeps = not node.flag("allowzero", False)
    if may_decide(ctx, given):
        shape = decided_shape(ctx, x, given, keeps=keeps)
    else:
        shape = list(ctx.known_integers(given, "'shape'"))
    asked = tuple(shape)
    if keeps:
        if 0 in shape[x.type.rank :]:
            raise ctx.wrong(f"shape {shape} keeps a dimension that {x} does not have")
        own = (*x.type.shape, *(-1,) * len(shape))  # a size that may be 0 may be that of x
        shape = [n if n == own[axis] else n or own[axis] for axis, n in enumerate(shape)]
    if shape.count(-1) > 1 or any(n < -1 for n in shape):
        raise ctx.wrong(f"shape {shape} must have one -1 at most and no other negative size")
    if -1 in shape:
        rest = prod(n for n in shape if n != -1)
        whole = rest_of(x.type.size, rest)
        shape[shape.index(-1)] = _quotient(x.type.size, rest) if whole is None else whole
    if not same(prod(shape), x.type.size):
        raise ctx.wrong(
            f"the {x.type.size!s} elements of {x} do not fill shape {[str(n) for n in shape]}"
        )
    if x in ctx.counts and not _follows_count(ctx, x, asked, shape):
        raise ctx.mixes(x)
    return ctx.reshape(x, shape)


def _follows_count(ctx: Context, x: Value, asked: Sequence[int], shape: Sequence[int]) -> bool:
    """Return whether the size that is *asked* for what counts of *x* is as many as count.

    A number would be the most that may count, whatever a run finds.
    """
    counted = ctx.counts[x].axis
    axis = same_dimension(x.type.shape, counted, tuple(shape))
    return axis is not None and (asked[axis] == -1 or (asked[axis] == 0 and axis == counted))


def _quotient(size: int, rest: int) -> int:
    """Return the size that -1 means: *size* elements in *rest* parts, none if these are none.

    If only some sizes leave a part, it is the number that the example says: blocks of so many.
    """
    if symbols_of(rest) and not surely(rest, ">", 0):
        size, rest = hinted(size), hinted(rest)
    return size // rest if rest else 0


@onnx_op("Flatten")
def flatten(ctx: Context, node: OnnxNode) -> Value:
    """A matrix: the dimensions before ``axis`` by those from it on."""
    x, axis = node.operand(0), node.integer("axis")
    if not -x.type.rank <= axis <= x.type.rank:
        raise ctx.wrong(f"axis {axis} is outside a tensor of rank {x.type.rank}")
    axis = axis + x.type.rank if axis < 0 else axis
    return ctx.reshape(x, (prod(x.type.shape[:axis]), prod(x.type.shape[axis:])))


def _axes(ctx: Context, node: OnnxNode, since: int = 13) -> tuple[int, ...] | None:
    """Return the axes of an operator: an attribute of old, an operand since opset 13."""
    if node.opset < since:
        return node.integers("axes") if node.has("axes") else None
    operand = node.optional(1)
    return None if operand is None else ctx.known_integers(operand, "'axes'")


@onnx_op("Squeeze")
def squeeze(ctx: Context, node: OnnxNode) -> Value:
    """Leave out dimensions of size 1."""
    x, axes = node.operand(0), _axes(ctx, node)
    shape = x.type.shape
    chosen = [a for a, n in enumerate(shape) if n == 1] if axes is None else axes
    if x in ctx.counts and ctx.counts[x].axis in ctx.axes(chosen, x.type.rank):
        raise ctx.mixes(x)  # one element may count, or none
    if axes is None:
        return ctx.reshape(x, [n for n in shape if not same(n, 1)])
    axes = ctx.axes(axes, x.type.rank)
    if not all(same(shape[axis], 1) for axis in axes):
        raise ctx.wrong(f"axes {list(axes)} of {x} cannot be squeezed: a size is not 1")
    return ctx.reshape(x, [n for axis, n in enumerate(shape) if axis not in axes])


@onnx_op("Unsqueeze")
def unsqueeze(ctx: Context, node: OnnxNode) -> Value:
    """Put in dimensions of size 1."""
    x, given = node.operand(0), _axes(ctx, node) or ()
    rank = x.type.rank + len(given)
    axes = ctx.axes(given, rank)
    sizes = iter(x.type.shape)
    return ctx.reshape(x, [1 if axis in axes else next(sizes) for axis in range(rank)])


@onnx_op("Transpose")
def transpose(ctx: Context, node: OnnxNode) -> Value:
    """Axes in another order; without ``perm`` the reverse."""
    x = node.operand(0)
    return ctx.transpose(x, node.integers("perm", tuple(range(x.type.rank))[::-1]))


@onnx_op("Concat")
def concat(ctx: Context, node: OnnxNode) -> Value:
    """One after another along an axis."""
    operands = node.operands
    axis = ctx.axis(node.integer("axis"), operands[0].type.rank)
    return operands[0] if len(operands) == 1 else ops.Concat(operands, axis=axis)


@onnx_op("Slice")
def slice_by_attributes(ctx: Context, node: OnnxNode) -> Value:
    """A range along each axis, by attributes up to opset 9."""
    starts, ends = node.integers("starts"), node.integers("ends")
    axes = node.integers("axes", tuple(range(len(starts))))
    return _slice(ctx, node.operand(0), starts, ends, axes, (1,) * len(starts))


@onnx_op("Slice", since=_SLICE_BY_INPUT_SINCE)
def slice_by_operands(ctx: Context, node: OnnxNode) -> Value:
    """A range along each axis, by operands."""
    ranges = [node.operand(1), node.operand(2)]
    starts, ends = (
        ctx.decided.elements_of(ctx, value)
        if may_decide(ctx, value)
        else ctx.known_integers(value, name)
        for value, name in zip(ranges, ("'starts'", "'ends'"), strict=True)
    )
    axes, steps = node.optional(3), node.optional(4)
    return _slice(
        ctx,
        node.operand(0),
        starts,
        ends,
        tuple(range(len(starts))) if axes is None else ctx.known_integers(axes, "'axes'"),
        (1,) * len(starts) if steps is None else ctx.known_integers(steps, "'steps'"),
    )


def _slice(
    ctx: Context,
    x: Value,
    starts: tuple[Element, ...],
    ends: tuple[Element, ...],
    axes: tuple[int, ...],
    steps: tuple[int, ...],
) -> Value:
    """Return the slice, with ranges clamped to the tensor as ONNX says."""
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise ctx.wrong(
            f"starts {list(starts)}, ends {list(ends)}, axes {list(axes)} and steps {list(steps)} "
            "must have the same length, and no step may be 0"
        )
    shape = x.type.shape
    ranges = [(0, n, 1) for n in shape]
    decided: list[tuple[int, Element, Element, int]] = []
    for axis, start, end, step in zip(
        ctx.axes(axes, x.type.rank), starts, ends, steps, strict=True
    ):
        found = None
        if not isinstance(start, Value) and not isinstance(end, Value):
            found = ctx.for_all_runs(partial(_clamped, start, end, step, shape[axis]))
        if found is None:
            decided.append((axis, start, end, step))
        else:
            ranges[axis] = found
    if not all(r == (0, n, 1) for r, n in zip(ranges, shape, strict=True)):
        begins, stops, strides = zip(*ranges, strict=True)
        part = ops.Slice(x, starts=begins, stops=stops, steps=strides)
        if not decided:
            return part
        x = ctx.emit(part)
    for axis, start, end, step in decided:
        x = decided_slice(ctx, x, axis, start, end, step)
    return x


def _clamped(start: int, end: int, step: int, size: int) -> tuple[int, int, int]:
    """Return the indices of a slice of an axis of *size*; an empty range lies at the front.

    They are those of Python's slice, but for a negative step that starts before the axis: ONNX
    starts such a slice at its first element, where Python's is empty.
    """
    if step < 0 < size:
        start = max(start, -size)
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first, last = (_place(n, size, low, high) for n in (start, end))
    is_empty = last <= first if step > 0 else first <= last
    return (0, 0, 1) if is_empty else (first, last, step)


def _place(index: int, size: int, low: int, high: int) -> int:
    """Return *index*, from the end of an axis of *size* if negative, clamped to a range."""
    place = index + size if index < 0 else index
    return low if place < low else min(place, high)


@onnx_op("Split")
def split(ctx: Context, node: OnnxNode) -> Value | tuple[Value, ...]:
    """Cut along an axis: by sizes, or into equal pieces, the last of which may be smaller."""
    x = node.operand(0)
    axis = ctx.axis(node.integer("axis", 0), x.type.rank)
    size, count = x.type.shape[axis], len(node.proto.output)
    operand = node.optional(1)
    if operand is not None and may_decide(ctx, operand):
        return decided_split(ctx, x, axis, operand)
    if operand is not None:
        sizes = ctx.known_integers(operand, "'split'")
    elif node.has("split"):
        sizes = node.integers("split")
    else:
        if node.integer("num_outputs", count) != count:
            raise ctx.wrong(f"num_outputs is {node.integer('num_outputs')}, it has {count} outputs")
        step = -(-size // max(count, 1))
        sizes = tuple(max(min(step, size - i * step), 0) for i in range(count))
    if len(sizes) != len(node.proto.output):
        raise ctx.wrong(f"it has {len(node.proto.output)} outputs, but sizes {list(sizes)}")
    return x if sizes == (size,) else ops.Split(x, axis=axis, sizes=sizes)


@onnx_op("Pad")
def pad_by_attributes(ctx: Context, node: OnnxNode) -> Value:
    """Cells around the tensor, by attributes up to opset 10."""
    return ops.Pad(
        node.operand(0),
        pads=node.integers("pads"),
        mode=node.text("mode"),
        value=node.number("value"),
    )


@onnx_op("Pad", since=11)
def pad(ctx: Context, node: OnnxNode) -> Value:
    """Cells around the tensor, on all axes or on given ones."""
    x, mode, value = node.operand(0), node.text("mode"), 0.0
    rank, known, computed = x.type.rank, [0] * 2 * x.type.rank, dict[int, tuple[Element, Element]]()
    for axis, (begin, end) in _given_pads(ctx, node).items():
        if isinstance(begin, Value) or isinstance(end, Value):
            computed[axis] = begin, end
        else:
            known[axis], known[rank + axis] = begin, end
    fill = node.optional(2)
    if fill is not None and mode == "constant":
        array = ctx.known(fill, "'constant_value'")
        if array.size != 1:
            raise ctx.wrong(f"constant_value {fill} must be one number")
        value = float(array.item())
    if mode == "wrap":
        x = _turned(ctx, x, known)
    for axis, ends in computed.items():
        x = decided_pad(ctx, x, axis, ends, mode, value)
    if computed and known.count(0) == len(known):
        return x
    return ops.Pad(x, pads=tuple(known), mode=mode, value=value)


def _given_pads(ctx: Context, node: OnnxNode) -> dict[int, tuple[Element, Element]]:
    """Return for each axis to pad how many cells there are before and behind."""
    given: Sequence[Element] = (
        ctx.decided.elements_of(ctx, node.operand(1))
        if may_decide(ctx, node.operand(1))
        else ctx.known_integers(node.operand(1), "'pads'")
    )
    rank, chosen = node.operand(0).type.rank, node.optional(3)
    axes = tuple(range(rank))
    if chosen is not None:
        axes = ctx.axes(ctx.known_integers(chosen, "'axes'"), rank)
    if len(given) != 2 * len(axes):
        raise ctx.wrong(f"pads {list(given)} must be two numbers for each of axes {list(axes)}")
    return dict(zip(axes, zip(given[: len(axes)], given[len(axes) :], strict=True), strict=True))


def _turned(ctx: Context, x: Value, pads: list[int]) -> Value:
    """Return *x* wrapped along axes whose *pads* take more than a turn; these pads become 0."""
    for axis, size in enumerate(x.type.shape):
        begin, end = pads[axis], pads[x.type.rank + axis]
        if min(begin, end) < 0 or max(begin, end) <= size or not size:
            continue
        pads[axis] = pads[x.type.rank + axis] = 0
        first, length = -begin % size, begin + size + end
        ctx.spend(length * prod(x.type.shape) // size * x.type.kind.size_bytes)
        turns = [-(-(first + length) // size) if i == axis else 1 for i in range(x.type.rank)]
        x = ctx.part(ctx.emit(ops.Tile(x, repeats=tuple(turns))), axis, first, length)
    return x


@onnx_op("CenterCropPad", since=18)
def center_crop_pad(ctx: Context, node: OnnxNode) -> Value:
    """Cut or pad axes to given sizes, as much at the begin as at the end.

    Of an odd number of elements, one more is cut or padded at the end.
    """
    x, rank = node.operand(0), node.operand(0).type.rank
    sizes = ctx.known_integers(node.operand(1), "'shape'")
    axes = ctx.axes(node.integers("axes", tuple(range(rank))), rank)
    if len(sizes) != len(axes) or min(sizes, default=0) < 0:
        raise ctx.wrong(f"shape {list(sizes)} must have a size for each of axes {list(axes)}")
    pads = [0] * 2 * rank
    for axis, size in zip(axes, sizes, strict=True):
        missing = size - x.type.shape[axis]
        x = ctx.part(x, axis, max(-missing, 0) // 2, min(size, x.type.shape[axis]))
        pads[axis] = max(missing, 0) // 2
        pads[rank + axis] = max(missing, 0) - pads[axis]
    return ops.Pad(x, pads=tuple(pads), mode="constant", value=0.0) if any(pads) else x


@onnx_op("Tile")
def tile(ctx: Context, node: OnnxNode) -> Value:
    """The whole tensor again and again."""
    return ops.Tile(node.operand(0), repeats=sizes_from(ctx, node.operand(1), "'repeats'"))


@onnx_op("Expand")
def expand(ctx: Context, node: OnnxNode) -> Value:
    """Repeat dimensions of size 1; both the tensor and the shape may have the larger size."""
    x = node.operand(0)
    if may_decide(ctx, node.operand(1)):
        x, wanted = decided_expansion(ctx, x, node.operand(1))
    else:
        wanted = ctx.known_integers(node.operand(1), "'shape'")
    if any(size < 0 for size in wanted):
        raise ctx.wrong(f"shape {list(wanted)} has a negative size")
    if x in ctx.counts:
        behind = x.type.rank - ctx.counts[x].axis
        if behind <= len(wanted) and wanted[-behind] != 1:
            raise ctx.mixes(x)
    return ctx.broadcast(x, broadcast_shape(ctx, x.type.shape, wanted))


@onnx_op("DepthToSpace")
def depth_to_space(ctx: Context, node: OnnxNode) -> Value:
    """Blocks of channels to blocks of pixels: ``[N, C, H, W]`` to ``[N, C / b², H b, W b]``."""
    x, block = node.operand(0), node.integer("blocksize")
    if x.type.rank != 4 or block < 1 or x.type.shape[1] % (block * block):
        raise ctx.wrong(f"input {x} must be [N, C, H, W] with C divisible by blocksize² = {block}²")
    batch, channels, height, width = x.type.shape
    depth = channels // block**2
    if node.text("mode", "DCR") == "DCR":
        cut, order = (batch, block, block, depth, height, width), (0, 3, 4, 1, 5, 2)
    else:
        cut, order = (batch, depth, block, block, height, width), (0, 1, 4, 2, 5, 3)
    moved = ctx.transpose(ctx.reshape(x, cut), order)
    return ctx.reshape(moved, (batch, depth, height * block, width * block))


@onnx_op("SpaceToDepth")
def space_to_depth(ctx: Context, node: OnnxNode) -> Value:
    """Blocks of pixels to blocks of channels: ``[N, C, H, W]`` to ``[N, C b², H / b, W / b]``."""
    x, block = node.operand(0), node.integer("blocksize")
    if x.type.rank != 4 or block < 1 or x.type.shape[2] % block or x.type.shape[3] % block:
        raise ctx.wrong(f"input {x} must be [N, C, H, W] with H, W divisible by {block}")
    batch, channels, height, width = x.type.shape
    cut = (batch, channels, height // block, block, width // block, block)
    order = (0, 3, 5, 1, 2, 4) if node.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    moved = ctx.transpose(ctx.reshape(x, cut), order)
    return ctx.reshape(moved, (batch, channels * block**2, height // block, width // block))
