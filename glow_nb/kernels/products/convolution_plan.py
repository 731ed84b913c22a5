"""How a convolution or matrix product is cut up: tiles, blocks, scratch, shares of the threads.

A product is a nest of four loops. ``units`` (output lines, or tiles where there is only one line)
are taken in blocks whose input stays in the second-level cache; for each block every panel of
filters passes by; for each panel every tile of the block is computed, whole sums in registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from glow_nb.kernels.products.blocking import (
    Columns,
    Cut,
    lanes_of,
    registers_of,
    row_limit,
)
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.target import Target
from glow_nb.types import ElementKind


@dataclass(frozen=True)
class ProductNest:
    """A product to write a kernel for, in as few dimensions as possible.

    Attributes:
        shape: Sizes; a matrix product is a convolution of one line of pixels with one tap.
        kind: Element kind of all operands.
        block: Columns of one panel of the filter.
        filter_per_image: True if each image has its own filter (a batched matrix product).
        dest_stride: Elements from pixel to pixel of a result that is a window of a wider tensor.
    """

    shape: ConvolutionShape
    kind: ElementKind
    block: int
    filter_per_image: bool = False
    dest_stride: int | None = None

    @property
    def pixel_stride(self) -> int:
        """Elements of the result from pixel to pixel."""
        return self.dest_stride or self.shape.depth


@dataclass(frozen=True)
class Plan:
    """The numbers that the loops of a kernel are made of.

    Attributes:
        lanes: Elements of a vector.
        columns: Output channels of one group in panels.
        cut: Pixels of one line in tiles.
        is_staged: True if the input is copied to scratch, padded with zeros.
        block_units: Units of one block.
        scratch_elements: Elements of the padded copy of one block.
        panels_first: True if threads share panels before they share units.
        is_streamed: True if the filter is too large for the second-level cache.
    """

    lanes: int
    columns: Columns
    cut: Cut
    is_staged: bool
    block_units: int
    scratch_elements: int
    panels_first: bool
    is_streamed: bool


def plan_product(nest: ProductNest, target: Target) -> Plan:
    """Cut up *nest* for *target*."""
    shape, lanes = nest.shape, lanes_of(nest.kind, target)
    columns = Columns(shape.depth_per_group, nest.block, lanes)
    cut = Cut.balanced(max(1, shape.output[-1]), row_limit(columns.vectors, registers_of(target)))
    block_units = _block_units(nest, cut, target)
    filter_elements = shape.steps * shape.depth * (shape.batch if nest.filter_per_image else 1)
    input_elements = shape.batch * prod(shape.input) * shape.channels
    return Plan(
        lanes=lanes,
        columns=columns,
        cut=cut,
        is_staged=shape.is_padded,
        block_units=block_units,
        scratch_elements=_staged_elements(shape, cut, block_units) if shape.is_padded else 0,
        panels_first=filter_elements > input_elements,
        is_streamed=filter_elements * nest.kind.size_bytes > target.l2_bytes // 2,
    )


def units_of(shape: ConvolutionShape, cut: Cut) -> int:
    """Return the number of units of one image: lines, or tiles of its only line."""
    return cut.tiles if shape.rank == 1 else shape.output[0]


def _block_units(nest: ProductNest, cut: Cut, target: Target) -> int:
    """Return how many units keep their input within half of the second-level cache, balanced."""
    shape, units = nest.shape, units_of(nest.shape, cut)
    budget = target.l2_bytes // 2 // nest.kind.size_bytes
    rows = max(0, budget // max(1, _line_elements(shape)) - shape.reach[0]) // shape.stride[0] + 1
    most = max(1, rows // cut.rows if shape.rank == 1 else rows)
    return -(-units // -(-units // most)) if units else 1


def _staged_elements(shape: ConvolutionShape, cut: Cut, units: int) -> int:
    """Return the input elements that *units* neighbouring units read."""
    pixels = units * cut.rows if shape.rank == 1 else units
    return ((pixels - 1) * shape.stride[0] + shape.reach[0]) * _line_elements(shape)


def _line_elements(shape: ConvolutionShape) -> int:
    """Return the input elements of one line, those that are read."""
    return prod(shape.needed[1:]) * shape.channels
