"""Sampling at places that a tensor names."""

from __future__ import annotations

import itertools
from typing import Annotated

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.schema import OneOf
from glow_nb.base.size import Size, same
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.arithmetic import Add, Mul
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.comparison import Select
from glow_nb.hlir.ops.elementwise import ConvertTo
from glow_nb.hlir.ops.families import FLOATS, NARROW_FLOATS, fitted, require_kind, splat, wide
from glow_nb.hlir.ops.formulas.sampling import (
    BORDER,
    CENTERS,
    CUBIC,
    EDGES,
    ELEMENTS,
    INSIDE,
    LINEAR,
    NEAREST,
    PLACE,
    REFLECTION,
    TAPS,
    WEIGHT,
    ZEROS,
    Length,
    Sampler,
    Tap,
    tap_function,
)
from glow_nb.hlir.ops.formulas.terms import Term
from glow_nb.hlir.ops.gather import GatherND
from glow_nb.hlir.ops.shape import Concat, Reshape, Slice
from glow_nb.hlir.ops.sizes import size_value
from glow_nb.hlir.rewrite import Replacement, Rewriter
from glow_nb.hlir.rules import lowers

INT64, BOOL, FLOAT32 = ElementKind.INT64, ElementKind.BOOL, ElementKind.FLOAT32
MOST_TAPS = 256
"""Elements that one of the result is made of: 4 in each of four axes, or 2 in each of eight."""


@define_node("grid_sample")
class GridSample(Node):
    """Sample ``[N, *in, C]`` at the places of ``grid``, ``[N, *out, rank]``: ``[N, *out, C]``.

    An element of the result is the weighted sum of those around a place. Places are computed in the
    kind of ``grid``, those of 16-bit floats in float32.

    Attributes:
        mode: ``nearest``; ``linear``, of two elements an axis; ``cubic``, of four.
        padding: The values outside of the input: ``zeros``; ``border``, the nearest element;
            ``reflection``.
        coordinates: ``centers`` and ``edges``: -1 and 1 are the centers, or the outer edges, of the
            outer elements, and the coordinate along the last axis comes first. ``elements``:
            coordinates count elements, and have the order of the axes.
    """

    input: Value
    grid: Value
    mode: Annotated[str, OneOf(NEAREST, LINEAR, CUBIC)] = LINEAR
    padding: Annotated[str, OneOf(ZEROS, BORDER, REFLECTION)] = ZEROS
    coordinates: Annotated[str, OneOf(CENTERS, EDGES, ELEMENTS)] = EDGES

    @override
    def infer_type(self) -> TensorType:
        input, grid = self.input.type, self.grid.type
        require_kind(self, "input", input, FLOATS)
        require_kind(self, "grid", grid, FLOATS)
        rank = input.rank - 2
        self.require(
            rank >= 1 and grid.rank >= 2 and same(grid.shape[-1], rank),
            f"grid {grid} must be [N, out..., {rank}] for input {input}",
        )
        self.require(same(grid.shape[0], input.shape[0]), f"grid {grid} has another N than {input}")
        result = input.with_shape((*grid.shape[:-1], input.shape[-1]))
        self.require(
            0 in result.shape or not any(same(n, 0) for n in input.shape[1:-1]),
            f"input {input} is empty: the places of grid {grid} have nothing to sample",
        )
        taps = TAPS[self.mode] ** rank
        self.require(
            taps <= MOST_TAPS,
            f"{taps} elements for each of the result; {MOST_TAPS} are possible",
        )
        return result

    @override
    def evaluate(self, input: Array, grid: Array) -> Array:
        result = np.zeros(self.type.shape)
        if not result.size:
            return fitted(result, self.type)
        x, axes = wide(input), [self._evaluated(grid, axis) for axis in range(input.ndim - 2)]
        images = np.arange(x.shape[0]).reshape(-1, *(1,) * (grid.ndim - 2))
        for taps in itertools.product(*axes):
            places, weights, insides = zip(*taps, strict=True)
            value = x[(images, *places)]
            if insides[0] is not None:
                value = np.where(np.logical_and.reduce(insides)[..., None], value, 0)
            if weights[0] is not None:
                value = value * np.prod([wide(each) for each in weights], axis=0)[..., None]
            result += value
        return fitted(result, self.type)

    def _evaluated(self, grid: Array, axis: int) -> list[tuple[Array, Array | None, Array | None]]:
        """Return the place, weight and presence of each tap along an *axis*, for all places."""
        size = self.input.type.shape[1 + axis]
        column = grid[..., self.column_of(axis)]
        column = column.astype(self.place_kind.dtype)
        function = tap_function(self.sampler, size, TensorType.of(column))
        found = evaluate(function, {"coordinate": column})
        taps = []
        for number in range(TAPS[self.mode]):
            with np.errstate(invalid="ignore"):
                place = found[f"{PLACE}{number}"].astype(np.int64).clip(0, size - 1)
            weight, inside = (found.get(f"{name}{number}") for name in (WEIGHT, INSIDE))
            taps.append((place, weight, inside))
        return taps

    @property
    def sampler(self) -> Sampler:
        """How coordinates map to elements."""
        return Sampler(self.mode, self.padding, self.coordinates)

    @property
    def place_kind(self) -> ElementKind:
        """The kind that places are computed in."""
        return FLOAT32 if self.grid.type.kind in NARROW_FLOATS else self.grid.type.kind

    def column_of(self, axis: int) -> int:
        """Return where in the grid the coordinate along an *axis* of the image is."""
        return axis if self.coordinates == ELEMENTS else self.input.type.rank - 3 - axis

    @override
    def cost(self) -> Cost:
        taps = TAPS[self.mode] ** (self.input.type.rank - 2)
        return Cost(taps * self.type.size)


@lowers(GridSample)
def lower_grid_sample(node: GridSample, rewriter: Rewriter) -> Replacement:
    """Express it as a gather of each combination of taps, times their weights, added up."""
    if 0 in node.type.shape:
        return rewriter.emit(Broadcast(splat(rewriter, node.type, 0, "nothing"), node.type.shape))
    axes = []
    for axis, size in enumerate(node.input.type.shape[1:-1]):
        coordinate = _coordinate(node, axis, rewriter)
        length: Length = size
        if isinstance(size, Size):
            like = coordinate.value.type
            length = Term(rewriter, size_value(rewriter, like, size, "size"))
        axes.append(node.sampler.taps(coordinate, length))
    total: Value | None = None
    for taps in itertools.product(*axes):
        part = _gathered(node, taps, rewriter)
        total = part if total is None else rewriter.emit(Add(total, part))
    assert total is not None
    return total


def _coordinate(node: GridSample, axis: int, rewriter: Rewriter) -> Term:
    shape, column = node.grid.type.shape, node.column_of(axis)
    starts, stops = (0,) * len(shape), (*shape[:-1], column + 1)
    part = Slice(node.grid, (*starts[:-1], column), stops, (1,) * len(shape))
    flat: Value = rewriter.emit(Reshape(rewriter.emit(part), shape[:-1]))
    if flat.type.kind is not node.place_kind:
        flat = rewriter.emit(ConvertTo(flat, node.place_kind))
    return Term(rewriter, flat)


def _gathered(node: GridSample, taps: tuple[Tap, ...], rewriter: Rewriter) -> Value:
    """Return the elements at one combination of taps, times their weights: ``[N, *out, C]``."""
    emit, shape = rewriter.emit, (*node.type.shape[:-1], 1)
    columns = tuple(emit(Reshape(emit(ConvertTo(tap.place.value, INT64)), shape)) for tap in taps)
    indices = columns[0] if len(columns) == 1 else emit(Concat(columns, axis=len(shape) - 1))
    value: Value = emit(GatherND(node.input, indices, batch_dims=1))
    insides = [tap.inside for tap in taps if tap.inside is not None]
    if insides:
        inside = insides[0]
        for other in insides[1:]:
            inside = inside & other
        zero = splat(rewriter, value.type, 0, "outside")
        value = emit(Select(emit(Reshape(inside.value, shape)), value, zero))
    weights = [tap.weight for tap in taps if tap.weight is not None]
    if weights:
        weight = weights[0]
        for other in weights[1:]:
            weight = weight * other
        factor = emit(Reshape(emit(ConvertTo(weight.value, value.type.kind)), shape))
        value = emit(Mul(value, factor))
    return value
