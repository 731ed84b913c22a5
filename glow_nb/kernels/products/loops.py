"""The loops of a product's kernel, as its plan says.

``units`` are output lines, or tiles where there is only one line. They are taken in blocks, so that
what a block reads of the left operand stays in the second-level cache; a panel's part of an inner
block of the sum stays in the first-level cache from tile to tile. Around the tiles of a block run
two loops, in either order:

- *whole sums*: for each panel all inner blocks. The sums of one panel wait in scratch. The left
  rows of a block are read again for each panel, so whole rows must fit.
- *panels inside*: for each inner block all panels. The sums of all panels wait in scratch. Only an
  inner block's part of the left rows must fit, so blocks have more rows, and the right operand,
  which is read again for each block, passes less often. That part is packed into scratch first: at
  their old places, far apart, its pieces would drive each other out of a cache with few ways.

Where a sum is one inner block, both are the same, and nothing waits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from glow_nb.base.dot_instruction import SINGLE, DotInstruction
from glow_nb.base.plan import Plan, Setting
from glow_nb.base.size import hinted, symbols_of
from glow_nb.kernels.products.blocking import Columns
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.inner_blocks import reduction_of
from glow_nb.kernels.products.open_cut import AnyCut, OpenCut, OpenTile, cut_line
from glow_nb.kernels.products.product_nest import ProductNest
from glow_nb.kernels.products.reduction import Reduction

FEW = ("rows", "inner", "streams", "stream_steps")
"""Settings of the loops for few rows, of which a plan has its own where rows are open."""


@dataclass(frozen=True)
class Loops:
    """The numbers that the loops of a kernel are made of.

    Attributes:
        lanes: Elements of a vector.
        columns: Output channels of one group in panels.
        cut: Pixels of one line in tiles.
        sum: The loops of a sum.
        panels_inside: True if panels are the loop inside that over inner blocks.
        is_staged: True if the input is copied to scratch, padded.
        block_units: Units of one block.
        panels_first: True if threads share panels before they share units.
        is_right_far: True if the right operand is too large for the second-level cache: what the
            next inner block reads of it is prefetched.
        fetch_lines: How many lines a tile fetches at a time of what the next inner block copies of
            the right operand; None if it fetches none.
        tiles_ahead: The prefetch distance of results, in tiles; None if they are not prefetched.
    """

    lanes: int
    columns: Columns
    cut: AnyCut
    sum: Reduction
    panels_inside: bool
    is_staged: bool
    block_units: int
    panels_first: bool
    is_right_far: bool
    fetch_lines: int | None = None
    tiles_ahead: int | None = None

    def as_plan(self, algorithm: str, dot: DotInstruction) -> Plan:
        """Return the plan that :meth:`from_plan` makes these loops of."""
        is_in_streams = self.sum.streams > 1
        return Plan.of(
            algorithm,
            dot=dot.name,
            rows=self.cut.rows,
            inner=max(1, self.sum.block_products),
            units=self.block_units,
            streams=self.sum.streams if is_in_streams else None,
            stream_steps=self.sum.whole_dot if is_in_streams else None,
            panels_inside=self.panels_inside or None,
            panels_first=self.panels_first or None,
            fetch_weights=self.is_right_far or None,
            fetch_lines=self.fetch_lines,
            ahead=self.tiles_ahead,
        )

    def as_few(self) -> dict[str, Setting | None]:
        """Return the settings of a plan that :meth:`few_from_plan` makes these loops of."""
        settings = dict(self.as_plan("few", SINGLE).settings)
        return {f"few_{name}": settings.get(name) for name in FEW}

    @classmethod
    def few_from_plan(cls, nest: ProductNest, plan: Plan, lanes: int) -> Loops | None:
        """Return the loops for runs of so few rows as one tile has, None if *plan* has none."""
        if not plan.has("few_rows"):
            return None
        settings = {n: plan.number(f"few_{n}") for n in FEW if plan.has(f"few_{n}")}
        few = Plan.of(plan.algorithm, **settings, units=1, panels_first=True, fetch_weights=True)
        return cls.from_plan(nest, few, lanes, OpenTile(nest.shape.output[-1], few.rows))

    @classmethod
    def from_plan(
        cls, nest: ProductNest, plan: Plan, lanes: int, cut: AnyCut | None = None
    ) -> Loops:
        """Return the loops of *nest* in vectors of *lanes*, with the settings of *plan*.

        A line is cut into tiles as *cut* says, by default into balanced ones.
        """
        inner = plan.number("inner")
        fewest = plan.number("few_rows") + 1 if plan.has("few_rows") else 0
        cut = cut or cut_line(line_pixels(nest), plan.rows, fewest)
        sum = reduction_of(nest, inner, lanes)
        has_more_tiles = isinstance(cut, OpenCut) and not isinstance(cut, OpenTile)
        if plan.has("streams") and not has_more_tiles:  # which would read them again
            streams, steps = plan.number("streams", least=2), plan.number("stream_steps")
            if not can_stream(nest, cut) or streams * steps > sum.whole_dot:
                raise plan.unfit(f"{sum.whole_dot} steps are not read in {streams} streams")
            sum = sum.in_streams(streams, steps, stream_left(nest), inner)
        loops = cls(
            lanes=lanes,
            columns=columns_of(nest, lanes),
            cut=cut,
            sum=sum,
            panels_inside=plan.is_set("panels_inside"),
            is_staged=nest.is_staged,
            block_units=plan.number("units"),
            panels_first=plan.is_set("panels_first"),
            is_right_far=plan.is_set("fetch_weights"),
            fetch_lines=plan.number("fetch_lines") if plan.has("fetch_lines") else None,
            tiles_ahead=plan.number("ahead", least=0) if plan.has("ahead") else None,
        )
        if loops.panels_inside and not can_pack(nest, loops):
            raise plan.unfit("the left rows of this product are not packed for all panels")
        if nest.kinds.dot.is_matrix and sum.dot % nest.plane_groups:
            at_once = nest.plane_groups
            raise plan.unfit(f"of {inner} steps, matrix registers do not take {at_once} at a time")
        if not nest.is_in_planes:
            return loops
        sum = sum.in_planes(plane_elements(nest, loops), nest.plane_groups)
        return replace(loops, sum=sum)

    @property
    def is_cut(self) -> bool:
        """Return whether sums wait between inner blocks."""
        return self.sum.blocks not in (0, 1)


def columns_of(nest: ProductNest, lanes: int) -> Columns:
    """Return the output channels of one group in panels."""
    return Columns(nest.shape.depth_per_group, nest.block, lanes, nest.kinds.dot.is_dense)


def stream_left(nest: ProductNest) -> int:
    """Return the elements of the left operand from step to step of a stream."""
    return (1 if nest.is_staged else nest.left.step) * nest.kinds.factors


def can_stream(nest: ProductNest, cut: AnyCut) -> bool:
    """Return whether panels may be read from several places at a time: a single tile reads each."""
    shape, right = nest.shape, nest.right
    is_dense = right.row == nest.block * nest.kinds.factors
    is_product = (shape.rank, shape.kernel, shape.group) == (1, (1,), 1)
    has_streams = not (nest.kinds.dot.is_paired or nest.kinds.dot.is_matrix)
    is_plain = nest.codes is None and has_streams and not right.is_copied
    return cut.tiles == 1 and is_dense and is_product and is_plain


def can_pack(nest: ProductNest, loops: Loops) -> bool:
    """Return whether an inner block's part of the left rows may be packed for all panels.

    What is packed lies in runs then: of factors of a pixel, or of pixels of a line. Sums wait, and
    each is a single dot, no sum of chains.
    """
    shape, left, sum = nest.shape, nest.left, loops.sum
    if not loops.is_cut or loops.columns.panels == 1 or shape.group > 1:
        return False
    if nest.kinds.dot.is_matrix:
        return False
    if sum.chain is not None or sum.streams > 1:
        return False
    is_transposed = shape.rank == 1 and shape.stride == shape.kernel == (1,)
    return left.step == 1 or nest.is_staged or (is_transposed and left.pixel == 1)


def units_of(shape: ConvolutionShape, cut: AnyCut) -> int:
    """Return the number of units of one image: lines, or tiles of its only line."""
    return cut.tiles if shape.rank == 1 else shape.output[0]


def tile_steps(nest: ProductNest, loops: Loops) -> tuple[int, int]:
    """Return the elements from pixel to pixel and from step to step of what the tiles read."""
    shape, left, factors = nest.shape, nest.left, nest.kinds.factors
    if loops.panels_inside and left.step > 1 and not loops.is_staged:
        return 1, block_pixels(shape, loops)
    if loops.panels_inside:
        return loops.sum.block_products * factors, factors
    if loops.is_staged:
        return shape.stride[-1] * nest.staged_pixel, factors
    return shape.stride[-1] * left.pixel, left.step * factors


def staged_elements(nest: ProductNest, loops: Loops) -> int:
    """Return the elements of the padded copy of one block, 0 if there is none."""
    if not loops.is_staged:
        return 0
    if nest.is_in_planes:
        planes = nest.shape.group * nest.planes_per_group * plane_elements(nest, loops)
        whole = nest.runs_of
        return planes + (0 if whole is None else whole.needed[-1] * whole.channels)
    return _staged_pixels(nest.shape, loops) * nest.shape.channels + nest.kinds.dot.width - 1


def plane_elements(nest: ProductNest, loops: Loops) -> int:
    """Return the elements from plane to plane of the copy of one block.

    Tiles of a row less read a row more, and the last tile of several lines more. Planes are no
    multiple of two lines apart, so that those of a pixel do not meet in one place of the caches.
    """
    more = loops.cut.rows if nest.is_flat else nest.shape.stride[-1]
    pixels = _staged_pixels(nest.shape, loops) + more
    return (pixels // 2 * 2 + 1) * nest.staged_pixel


def flat_pixels(nest: ProductNest, lines: int) -> int:
    """Return the pixels of *lines* lines, and of what lies between them in the padded copy."""
    return lines * nest.shape.needed[-1] - (nest.shape.needed[-1] - nest.shape.output[-1])


def line_pixels(nest: ProductNest) -> int:
    """Return the pixels that are cut into tiles together."""
    return flat_pixels(nest, nest.shape.output[0]) if nest.is_flat else nest.shape.output[-1]


def _staged_pixels(shape: ConvolutionShape, loops: Loops) -> int:
    """Return the pixels of the padded copy of one block."""
    if not is_open_block(shape):
        return input_pixels(shape, loops.cut, loops.block_units)
    known = loops.block_units * hinted(needed_of_line(shape)) * shape.stride[0]
    return known + shape.reach[0] * needed_of_line(shape)


def packed_elements(nest: ProductNest, loops: Loops) -> int:
    """Return the elements of an inner block's part of the left rows, 0 if it is not packed."""
    if not loops.panels_inside:
        return 0
    return block_pixels(nest.shape, loops) * loops.sum.block_products * nest.kinds.factors


def waiting_elements(nest: ProductNest, loops: Loops) -> int:
    """Return the sums of one block that wait in scratch between inner blocks.

    Those of matrix registers go there in any case, where each tile has as many rows.
    """
    if nest.is_flat:
        tiles = -(-flat_pixels(nest, loops.block_units) // loops.cut.rows)
        return tiles * loops.cut.rows * loops.columns.width
    if nest.kinds.dot.is_matrix:
        is_line, width = nest.shape.rank == 1, loops.columns.width
        tiles = 1 if is_line else prod(nest.shape.output[1:-1]) * loops.cut.tiles
        return (loops.block_units * tiles if loops.is_cut else 1) * loops.cut.rows * width
    if not loops.is_cut:
        return 0
    panels = loops.columns.panels * nest.shape.group if loops.panels_inside else 1
    return panels * block_pixels(nest.shape, loops) * loops.columns.width


def block_pixels(shape: ConvolutionShape, loops: Loops) -> int:
    """Return the most pixels of a block."""
    if is_open_block(shape):
        line = needed_of_line(shape)
        return loops.block_units * hinted(line) + line
    return loops.block_units * (loops.cut.rows if shape.rank == 1 else prod(shape.output[1:]))


def panels_ahead(nest: ProductNest, loops: Loops, tiles: int) -> int:
    """Return by how many panels the results of *tiles* tiles later lie further on.

    The tiles of a block follow each other along the rows, and then come those of the next panel.
    Groups of channels, which have panels of their own, are not distinguished, nor are blocks
    of open sizes: 0.
    """
    if nest.shape.group > 1 or not tiles or is_open_block(nest.shape):
        return 0
    return tiles // -(-block_pixels(nest.shape, loops) // loops.cut.rows)


def input_elements(shape: ConvolutionShape, cut: AnyCut, units: int) -> int:
    """Return the input elements that *units* neighbouring units read."""
    return input_pixels(shape, cut, units) * shape.channels


def input_pixels(shape: ConvolutionShape, cut: AnyCut, units: int) -> int:
    """Return the input pixels that *units* neighbouring units read."""
    pixels = units * cut.rows if shape.rank == 1 else units
    return ((pixels - 1) * shape.stride[0] + shape.reach[0]) * needed_of_line(shape)


def needed_of_line(shape: ConvolutionShape) -> int:
    """Return the pixels of the padded input that a line of outputs reads of one line of it."""
    return prod(shape.needed[1:])


def is_open_block(shape: ConvolutionShape) -> bool:
    """Return whether only the run knows how many pixels a line, the unit of a block, has."""
    return shape.rank > 1 and bool(symbols_of(*shape.needed[1:]))


def most_units(shape: ConvolutionShape, loops: Loops) -> str:
    """Return how many units a block has at most: so that it is about as large as in the example."""
    if not is_open_block(shape):
        return str(loops.block_units)
    line = needed_of_line(shape)
    return f"max(1, {loops.block_units * hinted(line)} // {line})"
