"""Operators that move elements and compute nothing: reshape, transpose, concat, slice, pad, ..."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Annotated, ClassVar

import numpy as np
from typing_extensions import override

from glow_nb.base.conversion import quantized
from glow_nb.base.schema import OneOf
from glow_nb.base.size import same, surely
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.index_ranges import IndexRange, index_range
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.families import fits, fitted, require_axis
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers
from glow_nb.system.freed_memory import mapped_empty


@define_node("reshape")
class Reshape(Node):
    """Give the elements, in row-major order, another *shape* of the same size.

    Attributes:
        shape: The shape of the result.
    """

    type_transparent: ClassVar[bool] = True
    input: Value
    shape: tuple[int, ...]

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        self.require(
            all(n >= 0 for n in self.shape) and same(prod(self.shape), type.size),
            f"{type.size!s} elements of {type} do not fill shape {list(self.shape)}",
        )
        return type.with_shape(self.shape)

    @override
    def evaluate(self, input: Array) -> Array:
        return fitted(input, self.type)


@define_node("transpose")
class Transpose(Node):
    """Reorder the axes: axis ``i`` of the result is axis ``permutation[i]`` of the input.

    Attributes:
        permutation: The axis of the input for each axis of the result.
    """

    type_transparent: ClassVar[bool] = True
    input: Value
    permutation: tuple[int, ...]

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        self.require(
            sorted(self.permutation) == list(range(type.rank)),
            f"permutation {self.permutation} must hold each axis of {type} once",
        )
        return type.with_shape(tuple(type.shape[axis] for axis in self.permutation))

    @override
    def evaluate(self, input: Array) -> Array:
        return fitted(input.transpose(self.permutation), self.type)


@define_node("concat")
class Concat(Node):
    """Put tensors one after another along *axis*; all other sizes are equal.

    Attributes:
        axis: The axis along which the tensors are put together.
    """

    type_transparent: ClassVar[bool] = True
    inputs: tuple[Value, ...]
    axis: int

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Where each input ends along *axis* of the result."""
        return tuple(accumulate(value.type.shape[self.axis] for value in self.inputs))

    @override
    def infer_type(self) -> TensorType:
        self.require(len(self.inputs) > 0, "nothing to concatenate; give one input or more")
        first = self.inputs[0].type
        require_axis(self, self.axis, first.rank)
        for value in self.inputs:
            sizes = (*first.shape[: self.axis], *value.type.shape[self.axis : self.axis + 1])
            wanted = first.with_shape((*sizes, *first.shape[self.axis + 1 :]))
            self.require(
                value.type.rank == first.rank and fits(value.type, wanted),
                f"input {value} does not fit the first, {first}, along axis {self.axis}",
            )
        size = self.ends[-1]
        return first.with_shape((*first.shape[: self.axis], size, *first.shape[self.axis + 1 :]))

    @override
    def evaluate(self, inputs: tuple[Array, ...]) -> Array:
        return fitted(np.concatenate(inputs, axis=self.axis), self.type)


@define_node("slice")
class Slice(Node):
    """Take the elements ``range(starts[i], stops[i], steps[i])`` along each axis ``i``.

    The three have one entry for each axis and mean what they mean to Python's ``range``, never
    counting from the end: ``0 <= start <= stop <= size`` for a positive step; for a negative one
    ``-1 <= stop <= start < size``, where a stop of -1 lies just before the front.

    Attributes:
        starts: The first element along each axis.
        stops: The end along each axis, which is not taken.
        steps: The distance of elements along each axis; not 0.
    """

    type_transparent: ClassVar[bool] = True
    input: Value
    starts: tuple[int, ...]
    stops: tuple[int, ...]
    steps: tuple[int, ...]

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        self.require(
            len(self.starts) == len(self.stops) == len(self.steps) == type.rank,
            f"starts {self.starts}, stops {self.stops} and steps {self.steps} must have one entry "
            f"for each axis of {type}",
        )
        for axis, size in enumerate(type.shape):
            self._check_axis(axis, size)
        return type.with_shape(tuple(map(_count, self.starts, self.stops, self.steps)))

    def _check_axis(self, axis: int, size: int) -> None:
        start, stop, step = self.starts[axis], self.stops[axis], self.steps[axis]
        self.require(step != 0, f"the step of axis {axis} is 0")
        is_inside = 0 <= start <= stop <= size if step > 0 else -1 <= stop <= start < size
        self.require(
            is_inside, f"range({start}, {stop}, {step}) leaves axis {axis} of {self.input.type}"
        )

    @property
    def ranges(self) -> tuple[IndexRange, ...]:
        """The indices taken along each axis."""
        return tuple(map(index_range, self.starts, self.stops, self.steps))

    @override
    def evaluate(self, input: Array) -> Array:
        slices = (
            slice(r.start, None if r.stop < 0 else r.stop, r.step) if r else slice(0)
            for r in map(range, self.starts, self.stops, self.steps)
        )
        return fitted(input[tuple(slices)], self.type)


def _count(start: int, stop: int, step: int) -> int:
    """Return the number of indices in a range that is as :class:`Slice` wants it."""
    length = stop - start if step > 0 else start - stop
    return (length + abs(step) - 1) // abs(step)


@define_node("split")
class Split(Node):
    """Cut a tensor along *axis* into pieces of the given *sizes*; one result for each.

    Attributes:
        axis: The axis that is cut.
        sizes: The size of each piece along the axis, in order.
    """

    type_transparent: ClassVar[bool] = True
    input: Value
    axis: int
    sizes: tuple[int, ...]

    @override
    def infer_types(self) -> tuple[TensorType, ...]:
        type = self.input.type
        require_axis(self, self.axis, type.rank)
        self.require(
            len(self.sizes) > 0
            and all(size >= 0 for size in self.sizes)
            and same(sum(self.sizes), type.shape[self.axis]),
            f"sizes {self.sizes} do not add up to axis {self.axis} of {type}",
        )
        before, after = type.shape[: self.axis], type.shape[self.axis + 1 :]
        return tuple(type.with_shape((*before, size, *after)) for size in self.sizes)

    @override
    def evaluate(self, input: Array) -> Array | tuple[Array, ...]:
        cuts = np.cumsum(self.sizes[:-1], dtype=np.int64)
        pieces = np.split(input, cuts, axis=self.axis)
        results = tuple(map(fitted, pieces, self.result_types))
        return results if len(results) > 1 else results[0]


@lowers(Split)
def lower_split(node: Split, rewriter: Rewriter) -> tuple[Value, ...]:
    """Express it as one slice for each piece."""
    pieces, start = [], 0
    for size in node.sizes:
        pieces.append(slice_axis(rewriter, node.input, node.axis, slice(start, start + size)))
        start += size
    return tuple(pieces)


def slice_axis(builder: Builder, input: Value, axis: int, indices: range | slice) -> Value:
    """Emit the slice that takes *indices* along *axis* and all else whole.

    A range has no open ends, a slice may have; it means what the range of the same numbers means.
    """
    starts, stops, steps = [0] * input.type.rank, list(input.type.shape), [1] * input.type.rank
    starts[axis] = 0 if indices.start is None else indices.start
    stops[axis] = indices.stop
    steps[axis] = 1 if indices.step is None else indices.step
    return builder.emit(Slice(input, tuple(starts), tuple(stops), tuple(steps)))


def _cut(pad: int) -> int:
    """Return the negative part of a *pad*, which cuts."""
    return 0 if surely(pad, ">=", 0) else min(pad, 0)


@define_node("pad")
class Pad(Node):
    """Add cells around a tensor, or cut some off where *pads* is negative.

    Cells are cut off first; what is added continues what is left.

    Attributes:
        pads: The begins of all axes, then the ends.
        mode: ``constant`` fills with *value*; ``reflect`` mirrors at the outermost element without
            repeating it; ``edge`` repeats that element; ``wrap`` starts again from the other end.
        value: The constant; truncated for integers, true if not zero for bool. Beside a quantized
            type it is a real number, and its nearest integer is added.
    """

    type_transparent: ClassVar[bool] = True
    input: Value
    pads: tuple[int, ...]
    mode: Annotated[str, OneOf("constant", "reflect", "edge", "wrap")] = "constant"
    value: float = 0.0

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        self.require(
            not type.kind.is_storage,
            f"'input' is {type}, and numbers of its kind are not computed with; convert it",
        )
        self.require(
            len(self.pads) == 2 * type.rank,
            f"pads {self.pads} must be {2 * type.rank} numbers for {type}: begins, then ends",
        )
        begins, ends = self.pads[: type.rank], self.pads[type.rank :]
        for axis, (size, begin, end) in enumerate(zip(type.shape, begins, ends, strict=True)):
            self._check_axis(axis, size, begin, end)
        return type.with_shape(tuple(map(sum, zip(type.shape, begins, ends, strict=True))))

    def _check_axis(self, axis: int, size: int, begin: int, end: int) -> None:
        left = size + _cut(begin) + _cut(end)
        self.require(
            left >= 0, f"pads {begin} and {end} cut more than axis {axis} of {self.input.type} has"
        )
        if self.mode == "constant" or (self.mode == "edge" and left):
            return
        limit = {"reflect": max(left - 1, 0), "wrap": left}.get(self.mode, 0)
        self.require(
            begin <= limit and end <= limit,
            f"pads {begin} and {end} of axis {axis} are more than mode {self.mode!r} can fill "
            f"from {left} elements",
        )

    @property
    def stored_value(self) -> Array:
        """The constant as an element of the result, of rank 0."""
        type = self.type.with_shape(())
        if type.is_quantized:
            return quantized(np.asarray(self.value), type)
        return fitted(self.value, type)

    @property
    def widths(self) -> tuple[tuple[int, int], ...]:
        """``(begin, end)`` of each axis."""
        rank = len(self.pads) // 2
        return tuple(zip(self.pads[:rank], self.pads[rank:], strict=True))

    @override
    def evaluate(self, input: Array) -> Array:
        kept = tuple(
            slice(max(-begin, 0), size - max(-end, 0))
            for size, (begin, end) in zip(input.shape, self.widths, strict=True)
        )
        added = [(max(begin, 0), max(end, 0)) for begin, end in self.widths]
        if self.mode == "constant":
            padded = mapped_empty(self.type)
            padded[...] = self.stored_value
            inner = zip(padded.shape, added, strict=True)
            padded[tuple(slice(begin, size - end) for size, (begin, end) in inner)] = input[kept]
            return padded
        if not added:  # np.pad takes no scalar
            return fitted(input, self.type)
        padded = np.pad(input[kept], added, mode=self.mode)  # type: ignore[call-overload]
        return fitted(padded, self.type)


@lowers(Pad)
def lower_pad(node: Pad, rewriter: Rewriter) -> Value | None:
    """Cut by a slice, and put what other modes than ``constant`` add there by a concat.

    A constant pad that only adds stays.
    """
    if any(map(_cut, node.pads)):
        return _cut_then_pad(node, rewriter)
    if node.mode == "constant":
        return None
    result = node.input
    for axis, (begin, end) in enumerate(node.widths):
        pieces = [
            _border(rewriter, result, node.mode, axis, begin, is_end=False),
            result,
            _border(rewriter, result, node.mode, axis, end, is_end=True),
        ]
        present = tuple(piece for piece in pieces if piece is not None)
        if len(present) > 1:
            result = rewriter.emit(Concat(present, axis))
    return result


def _cut_then_pad(node: Pad, rewriter: Rewriter) -> Value:
    shape = node.input.type.shape
    starts = tuple(max(-begin, 0) for begin, _ in node.widths)
    stops = tuple(n - max(-end, 0) for n, (_, end) in zip(shape, node.widths, strict=True))
    kept = rewriter.emit(Slice(node.input, starts, stops, (1,) * len(shape)))
    added = tuple(max(pad, 0) for pad in node.pads)
    return rewriter.emit(Pad(kept, added, node.mode, node.value)) if any(added) else kept


def _border(
    rewriter: Rewriter, input: Value, mode: str, axis: int, count: int, *, is_end: bool
) -> Value | None:
    """Emit the *count* slices that *mode* adds before or after *input* along *axis*."""
    if count == 0:
        return None
    size = input.type.shape[axis]
    if mode == "edge":
        outermost = slice(size - 1, size) if is_end else slice(1)
        line = slice_axis(rewriter, input, axis, outermost)
        shape = tuple(count if i == axis else n for i, n in enumerate(line.type.shape))
        return rewriter.emit(Broadcast(line, shape))
    if mode == "wrap":
        taken = slice(count) if is_end else slice(size - count, size)
    else:
        taken = slice(size - 2, size - 2 - count, -1) if is_end else slice(count, 0, -1)
    return slice_axis(rewriter, input, axis, taken)


@define_node("tile")
class Tile(Node):
    """Repeat the whole tensor ``repeats[i]`` times along each axis ``i``.

    Attributes:
        repeats: The number of repetitions along each axis.
    """

    type_transparent: ClassVar[bool] = True
    input: Value
    repeats: tuple[int, ...]

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        self.require(
            len(self.repeats) == type.rank and all(n >= 0 for n in self.repeats),
            f"repeats {self.repeats} must be one number >= 0 for each axis of {type}",
        )
        return type.with_shape(tuple(map(prod, zip(type.shape, self.repeats, strict=True))))

    @override
    def evaluate(self, input: Array) -> Array:
        return fitted(np.tile(input, self.repeats), self.type)


@lowers(Tile)
def lower_tile(node: Tile, rewriter: Rewriter) -> Value:
    """Express it as a broadcast along a new axis before each repeated one."""
    narrow: list[int] = []
    broad: list[int] = []
    for size, count in zip(node.input.type.shape, node.repeats, strict=True):
        narrow += [1, size] if count != 1 else [size]
        broad += [count, size] if count != 1 else [size]
    if narrow == broad:
        return node.input
    repeated = rewriter.emit(
        Broadcast(rewriter.emit(Reshape(node.input, tuple(narrow))), tuple(broad))
    )
    return rewriter.emit(Reshape(repeated, node.type.shape))
