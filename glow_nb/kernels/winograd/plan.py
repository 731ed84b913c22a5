"""How a Winograd convolution is cut up: tiles of outputs, blocks of tiles, panels, scratch.

The tiles of all images are the rows of ``n x n`` matrix products, one for each *element* of a tile.
They are taken in blocks: a block is transformed into scratch, its *factors*, and for one panel of
filters after the other all products of the block are computed into scratch, transformed back and
stored. One element's factors and all products of a panel stay in the second-level cache. The
factors of all elements may come from the last-level cache, if the filter, which passes by for each
block, costs more: they are read in order, once a panel. Sums over many channels are cut into inner
blocks, as those of all products are. Weights of integers are made for each of these in scratch
(:mod:`glow_nb.kernels.winograd.weights`).

Of three dimensions the first is not transformed: tiles are flat, and the taps along it are summed
up as channels are. The transform of a plane of the input is then made once for each of these taps,
but the products that it spares are as many times more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from glow_nb.cook_toom import inputs_of, is_known, row_pairs
from glow_nb.kernels.operators.winograd import WHOLE_FACTORS
from glow_nb.kernels.products.blocking import Columns, Cut, lanes_of, most_rows
from glow_nb.kernels.products.caches import (
    LEVEL_3_SHARE,
    level_2_bytes,
    longest_dot,
)
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.dot_form import dot_form
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.target import Target
from glow_nb.types import ElementKind

PAD_BYTES = 64
"""Gap between the matrices of scratch, so that the elements of one tile, which are written
together, do not all fall into the same set of the cache."""

VOLUME = 3
"""Dimensions that a kernel is written for; what has fewer gets dimensions of size 1 in front."""

STREAM_CYCLES = 0.02
"""Of each byte that comes again from the last-level cache in order, ahead of use: of the filter,
and of factors. Where 0.052 was assumed of filters, picks of 11 layers of 40 x 40 to 80 x 80 took
1.05 times as long on a Zen 3 core."""

WEIGHTS_SHARE = 0.5
"""Part of the second-level cache for the weights that a kernel transforms at a time. Other kernels
need it for the weights that come from memory; of integers, taps come, which are far smaller."""

NEAR_SHARE = 1.5
"""The weights that are transformed at a time take at most so many times the first-level cache, if
the sums of a block take no more either. Then most weights are multiplied before they leave that
cache, and it takes little time to add to the sums of the inner block before. On one Zen 3 core a
convolution of bytes over 7 x 7 x 512 then takes 0.88 of the time, one over 14 x 14 x 256 takes
0.98; over 28 x 28 x 128, where sums take more, it would be 1.1."""

TAPS_CYCLES = 0.08
"""Of each byte of transformed weights that a kernel makes. A Zen 3 core takes 87 to 95 cycles for
the 36 vectors of 32 bytes that a vector of filters becomes."""


@dataclass(frozen=True)
class WinogradNest:
    """A convolution by tiles of ``tile`` outputs; one to three spatial dimensions.

    Attributes:
        shape: Sizes; the dilation is 1.
        tile: Outputs of a tile in each dimension.
        kind: Element kind of the input; the other operands of floats are like it.
        block: Output channels of one panel of the filter.
        guarded: Tiles with results that are not finite are summed up directly.
        outside: The number that cells outside the input count as.
        taps_kind: Element kind of the filter, if it is that of integers, which the kernel
            transforms.
    """

    shape: ConvolutionShape
    tile: tuple[int, ...]
    kind: ElementKind
    block: int
    guarded: bool = False
    outside: int = 0
    taps_kind: ElementKind = ElementKind.INT8

    def kinds(self, target: Target) -> ProductKinds:
        """Return the kinds of the products of transformed elements, and how they are multiplied."""
        if self.kind.is_float:
            return ProductKinds.of(self.kind)
        form = dot_form(WHOLE_FACTORS, WHOLE_FACTORS, 2, target)
        return ProductKinds.of(WHOLE_FACTORS, form=form)

    @cached_property
    def volume(self) -> WinogradNest:
        """The same with three dimensions, along the first of which a tile has one output."""
        input, kernel, tile = self.shape.input, self.shape.kernel, self.tile
        stride = self.shape.stride
        begins, ends = self.shape.begins, self.shape.ends
        if len(tile) == VOLUME and tile[0] > 1:  # lines and columns are plain, and one dimension
            input, kernel, tile = (input[0], prod(input[1:])), (kernel[0], 1), (tile[0], 1)
            begins, ends, stride = (begins[0], 0), (ends[0], 0), (stride[0], 1)
        missing = VOLUME - len(tile)
        ones, zeros = (1,) * missing, (0,) * missing
        shape = replace(
            self.shape,
            input=(*ones, *input),
            kernel=(*ones, *kernel),
            stride=(*ones, *stride),
            pads=(*zeros, *begins, *zeros, *ends),
            dilation=(1,) * VOLUME,
        )
        return replace(self, shape=shape, tile=(*ones, *tile))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Inputs of a tile in each dimension."""
        sizes = zip(self.tile, self.shape.kernel, self.shape.stride, strict=True)
        return tuple(inputs_of(*axis) for axis in sizes)

    @property
    def elements(self) -> int:
        """Products that a tile takes for a pair of channels."""
        return prod(self.sizes)

    @cached_property
    def sums(self) -> int:
        """Elements of a tile in which these products are summed up."""
        return prod(self.volume.sizes[1:])

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Tiles in each dimension."""
        return tuple(-(-o // m) for o, m in zip(self.shape.output, self.tile, strict=True))

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.shape.batch * prod(self.counts)

    @property
    def takes_taps(self) -> bool:
        """True if the filter comes as it is, and the kernel transforms it."""
        return not self.kind.is_float

    @property
    def weights(self) -> int:
        """Transformed weights of all panels."""
        return self.elements * self.shape.channels_per_group * self.panels * self.block

    @property
    def filter_bytes(self) -> int:
        """Bytes of the filter, as it comes."""
        if self.takes_taps:
            taps = self.weights // self.elements * prod(self.shape.kernel)
            return taps * self.taps_kind.size_bytes
        return self.weights * self.kind.size_bytes

    @property
    def transformed_at_once(self) -> int:
        """Elements whose weights are transformed together: pairs of rows of a tile, or one row."""
        high, wide = self.volume.sizes[1:]
        return len(row_pairs(high)[0]) * wide

    @property
    def panels(self) -> int:
        """Panels of all groups."""
        return self.shape.group * -(-self.shape.depth_per_group // self.block)


def suits_winograd(shape: ConvolutionShape, tile: tuple[int, ...], *, whole: bool = False) -> bool:
    """True if there is an algorithm, of integers if *whole*, for tiles that saves products."""
    sizes = list(zip(tile, shape.kernel, shape.stride, strict=True))
    return (
        set(shape.dilation) == {1}
        and (not whole or set(shape.stride) == {1})
        and all(is_known(*axis, whole=whole) for axis in sizes)
        and any(m > 1 and r > 1 for m, r, _ in sizes)
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
        kinds: Kinds of the transformed elements, and how they are multiplied.
        lanes: Sums in a vector.
        columns: Output channels of one group in panels.
        cut: All tiles, as rows of register tiles.
        groups: Channels of a sum, or groups of as many as *kinds* say.
        dot: The most of these of an inner block.
        block_units: Register tiles of one block.
        panels_first: True if threads share panels before they share tiles.
        fetches_pixels: True if pixels of the input and the output are fetched before their turn
            comes, as not all that is read and written finds room in the last-level cache.
        fetches_factors: True if the lines that factors are written to are fetched, too, as the
            second-level cache does not hold those of a block.
    """

    kinds: ProductKinds
    lanes: int
    columns: Columns
    cut: Cut
    groups: int
    dot: int
    block_units: int
    panels_first: bool
    fetches_pixels: bool
    fetches_factors: bool = False

    @property
    def block_tiles(self) -> int:
        """The most Winograd tiles in a block."""
        return self.block_units * self.cut.rows

    @property
    def factor_lanes(self) -> int:
        """Transformed inputs in a vector: as many bits as the sums."""
        return self.lanes * self.kinds.factors


def plan_winograd(nest: WinogradNest, target: Target, block_tiles: int = 0) -> WinogradPlan:
    """Cut up *nest* for *target*, in blocks of at most *block_tiles*, by default what fits."""
    nest = nest.volume
    shape, kinds = nest.shape, nest.kinds(target)
    lanes, factors = lanes_of(kinds.total, target), kinds.factors
    columns = Columns(shape.depth_per_group, nest.block, lanes)
    cut = Cut.balanced(max(1, nest.tiles), most_rows(columns.vectors, target, kinds.form))
    filter_elements = nest.elements * shape.channels_per_group * shape.depth
    input_elements = shape.batch * prod(shape.input) * shape.channels
    groups = -(-shape.channels_per_group // factors)
    plan = WinogradPlan(
        kinds=kinds,
        lanes=lanes,
        columns=columns,
        cut=cut,
        groups=groups,
        dot=groups,
        block_units=cut.tiles,
        panels_first=filter_elements > input_elements,
        fetches_pixels=_touched_bytes(nest, kinds) > LEVEL_3_SHARE * target.l3_bytes,
    )
    plan = _in_blocks(plan, block_tiles) if block_tiles else _in_best_blocks(nest, plan, target)
    parts = -(-groups // _longest_dot(nest, plan, target))
    is_far = plan.block_tiles * factor_bytes(nest, kinds) > level_2_bytes(target)
    return replace(plan, dot=-(-groups // parts), fetches_factors=is_far)


def _longest_dot(nest: WinogradNest, plan: WinogradPlan, target: Target) -> int:
    """Return the most groups of channels of an inner block of the sums."""
    kinds = plan.kinds
    row_bytes = nest.shape.kernel[0] * nest.block * kinds.factors * kinds.right.size_bytes
    longest = longest_dot(row_bytes, target, is_exact=not kinds.total.is_float)
    if not nest.takes_taps:
        return longest
    near, far = NEAR_SHARE * target.l1_bytes, WEIGHTS_SHARE * target.l2_bytes
    sums_bytes = plan.block_tiles * nest.sums * nest.block * kinds.total.size_bytes
    made_bytes = int(near if sums_bytes <= near else far)
    return min(longest, max(1, made_bytes // (nest.transformed_at_once * row_bytes)))


def _touched_bytes(nest: WinogradNest, kinds: ProductKinds) -> int:
    """Return the bytes of the input, the output, and the factors of all tiles."""
    shape = nest.shape
    input, output = prod(shape.input) * shape.channels, prod(shape.output) * shape.depth
    pixels = shape.batch * (input + output) * nest.kind.size_bytes
    return pixels + nest.tiles * factor_bytes(nest, kinds)


def _in_best_blocks(nest: WinogradNest, plan: WinogradPlan, target: Target) -> WinogradPlan:
    """Return *plan* with blocks of as many tiles as the caches hold."""
    kinds, tile_bytes = plan.kinds, factor_bytes(nest, plan.kinds)
    near = level_2_bytes(target) // (tile_bytes + nest.sums * nest.block * kinds.total.size_bytes)
    far = level_2_bytes(target) // block_bytes(nest, kinds, 1)
    far = min(far, int(LEVEL_3_SHARE * target.l3_bytes) // tile_bytes)
    plans = [_in_blocks(plan, tiles) for tiles in (near, far)]

    def cycles(plan: WinogradPlan) -> float:
        blocks = -(-plan.cut.tiles // max(1, plan.block_units))
        again = again_cycles(nest, plan) + _factor_cycles(nest, plan, target)
        return again + blocks * taps_cycles(nest, plan)

    return min(plans, key=cycles)


def _in_blocks(plan: WinogradPlan, tiles: int) -> WinogradPlan:
    """Return *plan* with balanced blocks of at most so many tiles, one register tile at least."""
    blocks = -(-plan.cut.tiles // max(1, tiles // plan.cut.rows))
    return replace(plan, block_units=-(-plan.cut.tiles // blocks))


def factor_bytes(nest: WinogradNest, kinds: ProductKinds) -> int:
    """Return the bytes of the factors of one tile."""
    return nest.elements * nest.shape.channels * kinds.left.size_bytes


def block_bytes(nest: WinogradNest, kinds: ProductKinds, tiles: int) -> int:
    """Return the bytes of an element's factors and of a panel's products, for so many tiles."""
    factors = nest.elements // nest.sums * nest.shape.channels_per_group * kinds.left.size_bytes
    return tiles * (factors + nest.sums * nest.block * kinds.total.size_bytes)


def again_cycles(nest: WinogradNest, plan: WinogradPlan) -> float:
    """Estimate the cycles in which the filter comes again, for each block but the first.

    We suppose that the last-level cache has kept it; of a larger filter, most.
    """
    blocks = -(-plan.cut.tiles // max(1, plan.block_units))
    return (blocks - 1) * nest.filter_bytes * STREAM_CYCLES


def _factor_cycles(nest: WinogradNest, plan: WinogradPlan, target: Target) -> float:
    """Estimate the cycles in which factors come again for each panel.

    They do if the second-level cache does not hold those of a block.
    """
    tile_bytes = nest.elements * plan.kinds.left.size_bytes
    sums_bytes = nest.sums * nest.block * plan.kinds.total.size_bytes
    held_bytes = plan.block_tiles * (tile_bytes * nest.shape.channels + sums_bytes)
    if held_bytes <= level_2_bytes(target):
        return 0.0
    blocks = -(-plan.cut.tiles // max(1, plan.block_units))
    factors = plan.block_tiles * tile_bytes * nest.shape.channels_per_group
    return blocks * nest.panels * factors * STREAM_CYCLES


def taps_cycles(nest: WinogradNest, plan: WinogradPlan) -> float:
    """Estimate the cycles in which a kernel transforms the weights of one block, if it does."""
    return TAPS_CYCLES * nest.weights * plan.kinds.right.size_bytes if nest.takes_taps else 0.0


@dataclass(frozen=True)
class Scratch:
    """Where everything lies in the scratch memory of a thread.

    At its beginning is the *patch*, the input of one tile, ``[n, n, C]``, if what is outside
    belongs to it. One *line* is a vector of channels of a tile between the passes of a transform.

    Attributes:
        line: First byte of that line.
        factors: First byte of the transformed input.
        products: First byte of the products.
        bytes: Of all.
        rows: Elements from tile to tile of the transformed input.
        plane: Elements from product to product of the transformed input.
        sums_plane: Elements from product to product of the products.
        sums: Elements of a tile in which its products are summed up.
        weights: First byte of the weights that the kernel transforms, if it does.
        weights_plane: Elements from product to product of these weights.
    """

    line: int
    factors: int
    products: int
    bytes: int
    rows: int
    plane: int
    sums_plane: int
    sums: int
    weights: int
    weights_plane: int

    @classmethod
    def of(cls, nest: WinogradNest, plan: WinogradPlan) -> Scratch:
        """Lay out the scratch of *plan*."""
        left, total = plan.kinds.left.size_bytes, plan.kinds.total.size_bytes
        rows = rounded_up(nest.shape.channels, plan.factor_lanes)
        plane = _with_gap(plan.block_tiles * rows, left)
        sums_plane = _with_gap(plan.block_tiles * nest.block, total)
        patch = nest.sums * nest.shape.channels * nest.kind.size_bytes
        line = rounded_up(patch, PAD_BYTES)
        factors = line + rounded_up(nest.sums * plan.lanes * total, PAD_BYTES)
        products = factors + nest.elements * plane * left
        weights = rounded_up(products + nest.sums * sums_plane * total, PAD_BYTES)
        weights_plane = _with_gap(plan.dot * nest.block * plan.kinds.factors, left)
        matrices = nest.shape.kernel[0] * nest.transformed_at_once if nest.takes_taps else 0
        return cls(
            line=line,
            factors=factors,
            products=products,
            bytes=weights + matrices * weights_plane * left,
            rows=rows,
            plane=plane,
            sums_plane=sums_plane,
            sums=nest.sums,
            weights=weights,
            weights_plane=weights_plane,
        )


def _with_gap(elements: int, size_bytes: int) -> int:
    """Return *elements* of a matrix, in whole cache lines, and the gap behind it."""
    pad = PAD_BYTES // size_bytes
    return rounded_up(elements, pad) + pad


def rounded_up(number: int, multiple: int) -> int:
    """Return the smallest multiple of *multiple* that is not below *number*."""
    return -(-number // multiple) * multiple
