"""How a Winograd convolution is cut up: tiles of outputs, blocks of tiles, panels, scratch.

The tiles of all images are the rows of ``n x n`` matrix products, one for each *element* of a tile.
They are taken in blocks: a block is transformed into scratch, its *factors*, and for one panel of
filters after the other all products of the block are computed into scratch, transformed back and
stored. One element's factors and all products of a panel stay in the second-level cache. The
factors of all elements may come from the last-level cache, if the filter, which passes by for each
block, costs more: they are read in order, once a panel. Sums over many channels are cut into inner
blocks, as those of all products are.

Of three dimensions the first is not transformed: tiles are flat, and the taps along it are summed
up as channels are. The transform of a plane of the input is then made once for each of these taps,
but the products that it spares are as many times more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from glow_nb.cook_toom import is_known
from glow_nb.kernels.products.blocking import Columns, Cut, lanes_of, registers_of, row_limit
from glow_nb.kernels.products.caches import (
    LEVEL_3_SHARE,
    MEMORY_CYCLES,
    level_2_bytes,
    longest_dot,
)
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.target import Target
from glow_nb.types import ElementKind

PAD_BYTES = 64
"""Gap between the matrices of scratch, so that the elements of one tile, which are written
together, do not all fall into the same set of the cache."""

VOLUME = 3
"""Dimensions that a kernel is written for; what has fewer gets dimensions of size 1 in front."""


STREAM_CYCLES = 0.02
"""Of each byte of factors or filter that comes from the last-level cache in order, ahead of use."""


@dataclass(frozen=True)
class WinogradNest:
    """A convolution by tiles of ``tile`` outputs; one to three spatial dimensions.

    Attributes:
        shape: Sizes; stride and dilation are 1.
        tile: Outputs of a tile in each dimension.
        kind: Element kind of all operands.
        block: Output channels of one panel of the filter.
        guarded: Tiles with results that are not finite are summed up directly.
    """

    shape: ConvolutionShape
    tile: tuple[int, ...]
    kind: ElementKind
    block: int
    guarded: bool = False

    @property
    def volume(self) -> WinogradNest:
        """The same with three dimensions, along the first of which a tile has one output."""
        input, kernel, tile = self.shape.input, self.shape.kernel, self.tile
        begins, ends = self.shape.begins, self.shape.ends
        if len(tile) == VOLUME and tile[0] > 1:  # lines and columns are plain, and one dimension
            input, kernel, tile = (input[0], prod(input[1:])), (kernel[0], 1), (tile[0], 1)
            begins, ends = (begins[0], 0), (ends[0], 0)
        missing = VOLUME - len(tile)
        ones, zeros = (1,) * missing, (0,) * missing
        shape = replace(
            self.shape,
            input=(*ones, *input),
            kernel=(*ones, *kernel),
            stride=(1,) * VOLUME,
            pads=(*zeros, *begins, *zeros, *ends),
            dilation=(1,) * VOLUME,
        )
        return replace(self, shape=shape, tile=(*ones, *tile))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Inputs of a tile in each dimension."""
        return tuple(m + r - 1 for m, r in zip(self.tile, self.shape.kernel, strict=True))

    @property
    def elements(self) -> int:
        """Products that a tile takes for a pair of channels."""
        return prod(self.sizes)

    @property
    def sums(self) -> int:
        """Elements of a tile in which these products are summed up."""
        return prod(self.volume.sizes[1:])

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles in each dimension."""
        return tuple(-(-o // m) for o, m in zip(self.shape.output, self.tile, strict=True))

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.shape.batch * prod(self.counts)

    @property
    def panels(self) -> int:
        """Panels of all groups."""
        return self.shape.group * -(-self.shape.depth_per_group // self.block)


def suits_winograd(shape: ConvolutionShape, tile: tuple[int, ...]) -> bool:
    """True if there is an algorithm for these taps and tiles that saves products."""
    return (
        set(shape.stride) == set(shape.dilation) == {1}
        and all(is_known(m, r) for m, r in zip(tile, shape.kernel, strict=True))
        and any(m > 1 and r > 1 for m, r in zip(tile, shape.kernel, strict=True))
        and shape.channels > 0
        and is_flat(shape, tile)
    )


def is_flat(shape: ConvolutionShape, tile: tuple[int, ...]) -> bool:
    """True if tiles have one output along the first of three dimensions, or can be seen so."""
    is_column = tile[1:] == (1, 1) and all(map(shape.is_plain, (1, 2)))
    return shape.rank < VOLUME or tile[0] == 1 or is_column


@dataclass(frozen=True)
class WinogradPlan:
    """The numbers that the loops of a kernel are made of.

    Attributes:
        lanes: Elements of a vector.
        columns: Output channels of one group in panels.
        cut: All tiles, as rows of register tiles.
        dot: The most channels of an inner block of a sum.
        block_units: Register tiles of one block.
        panels_first: True if threads share panels before they share tiles.
    """

    lanes: int
    columns: Columns
    cut: Cut
    dot: int
    block_units: int
    panels_first: bool

    @property
    def block_tiles(self) -> int:
        """The most Winograd tiles in a block."""
        return self.block_units * self.cut.rows


def plan_winograd(nest: WinogradNest, target: Target, block_tiles: int = 0) -> WinogradPlan:
    """Cut up *nest* for *target*, in blocks of at most *block_tiles*, by default what fits."""
    nest = nest.volume
    shape, lanes = nest.shape, lanes_of(nest.kind, target)
    columns = Columns(shape.depth_per_group, nest.block, lanes)
    cut = Cut.balanced(max(1, nest.tiles), row_limit(columns.vectors, registers_of(target)))
    filter_elements = nest.elements * shape.channels_per_group * shape.depth
    input_elements = shape.batch * prod(shape.input) * shape.channels
    row_bytes = shape.kernel[0] * nest.block * nest.kind.size_bytes
    parts = -(-shape.channels_per_group // longest_dot(row_bytes, target))
    plan = WinogradPlan(
        lanes=lanes,
        columns=columns,
        cut=cut,
        dot=-(-shape.channels_per_group // parts),
        block_units=cut.tiles,
        panels_first=filter_elements > input_elements,
    )
    if block_tiles:
        return _in_blocks(plan, block_tiles)
    size = nest.kind.size_bytes
    tile_bytes = nest.elements * shape.channels * size
    near = level_2_bytes(target) // (tile_bytes + nest.sums * nest.block * size)
    far = level_2_bytes(target) // block_bytes(nest, 1)
    far = min(far, int(LEVEL_3_SHARE * target.l3_bytes) // tile_bytes)
    plans = [_in_blocks(plan, tiles) for tiles in (near, far)]
    return min(plans, key=lambda plan: traffic_cycles(nest, plan, target))


def _in_blocks(plan: WinogradPlan, tiles: int) -> WinogradPlan:
    """Return *plan* with balanced blocks of at most so many tiles, one register tile at least."""
    blocks = -(-plan.cut.tiles // max(1, tiles // plan.cut.rows))
    return replace(plan, block_units=-(-plan.cut.tiles // blocks))


def block_bytes(nest: WinogradNest, tiles: int) -> int:
    """Return the bytes of an element's factors and of a panel's products, for so many tiles."""
    factors = nest.elements // nest.sums * nest.shape.channels_per_group
    return tiles * (factors + nest.sums * nest.block) * nest.kind.size_bytes


def traffic_cycles(nest: WinogradNest, plan: WinogradPlan, target: Target) -> float:
    """Estimate the cycles that the filter, and factors in far caches, take on their way."""
    channels, columns = nest.shape.channels_per_group, nest.panels * nest.block
    filter_bytes = nest.elements * channels * columns * nest.kind.size_bytes
    blocks = -(-plan.cut.tiles // max(1, plan.block_units))
    is_near = filter_bytes <= target.l3_bytes
    cycles = blocks * filter_bytes * (STREAM_CYCLES if is_near else MEMORY_CYCLES)
    tile_bytes = plan.block_tiles * nest.kind.size_bytes
    between = nest.elements * nest.shape.channels + nest.sums * nest.block
    if tile_bytes * between > level_2_bytes(target):
        factors = tile_bytes * nest.elements * channels
        cycles += blocks * nest.panels * factors * STREAM_CYCLES
    return cycles


@dataclass(frozen=True)
class Scratch:
    """Where everything lies in the scratch memory of a thread, in elements.

    Attributes:
        patch: Input of one tile, padded with zeros, ``[n, n, C]``.
        line: One vector of channels of a tile between the passes of a transform.
        rows: Elements from tile to tile of the transformed input.
        plane: Elements from product to product of the transformed input.
        sums_plane: Elements from product to product of the products.
        elements: Products of a tile for a pair of channels.
        sums: Elements of a tile in which they are summed up.
    """

    patch: int
    line: int
    rows: int
    plane: int
    sums_plane: int
    elements: int
    sums: int

    @classmethod
    def of(cls, nest: WinogradNest, plan: WinogradPlan) -> Scratch:
        """Lay out the scratch of *plan*."""
        pad = PAD_BYTES // nest.kind.size_bytes
        rows = -(-nest.shape.channels // plan.lanes) * plan.lanes
        return cls(
            patch=rounded_up(nest.sums * nest.shape.channels, pad),
            line=rounded_up(nest.sums * plan.lanes, pad),
            rows=rows,
            plane=rounded_up(plan.block_tiles * rows, pad) + pad,
            sums_plane=rounded_up(plan.block_tiles * nest.block, pad) + pad,
            elements=nest.elements,
            sums=nest.sums,
        )

    @property
    def size(self) -> int:
        """Elements in all."""
        products = self.elements * self.plane + self.sums * self.sums_plane
        return self.patch + self.line + products


def rounded_up(number: int, multiple: int) -> int:
    """Return the smallest multiple of *multiple* that is not below *number*."""
    return -(-number // multiple) * multiple
