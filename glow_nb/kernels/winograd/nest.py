"""Winograd convolutions, as their kernels see them: tiles of outputs, in one to three dimensions.

Of three dimensions the first is not transformed: tiles are flat, and the taps along it are summed
up as channels are. The transform of a plane of the input is then made once for each of these taps,
but the products that it spares are as many times more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from glow_nb.base.dot_instruction import PAIRS, SINGLE, DotInstruction
from glow_nb.base.types import ElementKind
from glow_nb.kernels.bilinear.plan import BilinearPlan, plan_bilinear
from glow_nb.kernels.operators.winograd import WHOLE_FACTORS, tiles_of
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.dot_choice import dots_for
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.target import Target
from glow_nb.numerics.cook_toom import inputs_of, is_known, row_pairs

VOLUME = 3
"""Dimensions that a kernel is written for; what has fewer gets dimensions of size 1 in front."""


@dataclass(frozen=True)
class WinogradNest:
    """A convolution by tiles of ``tile`` outputs; one to three spatial dimensions.

    Attributes:
        shape: Sizes. Where the dilation is more than 1, the stride is 1, and a tile has outputs so
            far apart, in as many phases; see :class:`WinogradConvolution`.
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

    def dot(self, target: Target) -> DotInstruction:
        """Return how *target* multiplies transformed elements."""
        if self.kind.is_float:
            return SINGLE
        suited = dots_for(WHOLE_FACTORS, WHOLE_FACTORS, target)
        return next((dot for dot in suited if dot.group == PAIRS.group), PAIRS)

    def kinds_with(self, dot: DotInstruction) -> ProductKinds:
        """Return the kinds of the products of transformed elements that *dot* multiplies."""
        return ProductKinds.of(self.kind if self.kind.is_float else WHOLE_FACTORS, dot=dot)

    @cached_property
    def volume(self) -> WinogradNest:
        """The same with three dimensions, along the first of which a tile has one output."""
        input, kernel, tile = self.shape.input, self.shape.kernel, self.tile
        stride, dilation = self.shape.stride, self.shape.dilation
        begins, ends = self.shape.begins, self.shape.ends
        if len(tile) == VOLUME and tile[0] > 1:  # lines and columns are plain, and one dimension
            input, kernel, tile = (input[0], prod(input[1:])), (kernel[0], 1), (tile[0], 1)
            begins, ends, stride = (begins[0], 0), (ends[0], 0), (stride[0], 1)
            dilation = (dilation[0], 1)
        missing = VOLUME - len(tile)
        ones, zeros = (1,) * missing, (0,) * missing
        shape = replace(
            self.shape,
            input=(*ones, *input),
            kernel=(*ones, *kernel),
            stride=(*ones, *stride),
            pads=(*zeros, *begins, *zeros, *ends),
            dilation=(*ones, *dilation),
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
        """Tiles in each dimension, those of all phases."""
        sizes = zip(self.shape.output, self.tile, self.shape.dilation, strict=True)
        return tuple(tiles_of(*axis) for axis in sizes)

    @property
    def tiles(self) -> int:
        """Tiles of all images."""
        return self.shape.batch * prod(self.counts)

    @property
    def takes_taps(self) -> bool:
        """Return whether the filter comes as it is, and the kernel transforms it."""
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

    @property
    def patch_elements(self) -> int:
        """Elements of the input of a tile, which is copied where it has a border."""
        return self.sums * self.shape.channels

    @property
    def input_elements(self) -> int:
        """Elements of the input."""
        return self.shape.batch * prod(self.shape.input) * self.shape.channels

    @property
    def output_elements(self) -> int:
        """Elements of the output."""
        return self.shape.batch * prod(self.shape.output) * self.shape.depth


def suits_winograd(shape: ConvolutionShape, tile: tuple[int, ...], *, whole: bool = False) -> bool:
    """Return whether an algorithm for such tiles saves products, one of integers if *whole*."""
    sizes = list(zip(tile, shape.kernel, shape.stride, strict=True))
    return (
        all(1 in axis for axis in zip(shape.stride, shape.dilation, strict=True))
        and (not whole or set(shape.stride) == {1})
        and all(is_known(*axis, whole=whole) for axis in sizes)
        and any(m > 1 and r > 1 for m, r, _ in sizes)
        and shape.channels > 0
        and is_flat(shape, tile)
    )


def is_flat(shape: ConvolutionShape, tile: tuple[int, ...]) -> bool:
    """Return whether tiles have one output along the first of three dimensions, or can be seen so.

    Planes are not so far apart as a dilation along that dimension would have it.
    """
    if shape.rank < VOLUME:
        return True
    if tile[0] == 1:
        return shape.dilation[0] == 1
    return tile[1:] == (1, 1) and all(map(shape.is_plain, (1, 2)))


def plan_winograd(nest: WinogradNest, target: Target, block_tiles: int = 0) -> BilinearPlan:
    """Cut up *nest* for *target*, in blocks of at most *block_tiles*, by default what fits."""
    return plan_bilinear(nest.volume, target, block_tiles)
