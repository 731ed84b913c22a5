"""The loops of a bilinear algorithm's products: tiles, blocks of tiles, panels, scratch.

Such an algorithm transforms both operands, multiplies *elements* of what it makes of them, and
transforms the products back: Winograd's algorithm for convolutions, Strassen's for matrix products.
The tiles that are transformed are the rows of matrix products, one for each element of a tile.
They are taken in blocks: a block is transformed into scratch, its *factors*, and for one panel of
weights after the other all products of the block are computed into scratch, transformed back and
stored. One element's factors and all products of a panel stay in the second-level cache. The
factors of all elements may come from the last-level cache, if the weights, which pass by for each
block, cost more: they are read in order, once a panel. Sums over many channels are cut into inner
blocks, as those of all products are. Weights of integers are made for each of these in scratch
(:mod:`glow_nb.kernels.winograd.weights`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from glow_nb.base.dot_instruction import DotInstruction, dot_named_by
from glow_nb.base.plan import Plan
from glow_nb.base.types import ElementKind
from glow_nb.kernels.products.blocking import Columns, lanes_of, most_rows
from glow_nb.kernels.products.caches import level_2_bytes, longest_dot
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.open_cut import AnyCut, cut_line
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.target import Target

PAD_BYTES = 64
"""Gap between the matrices of scratch, so that the elements of one tile, which are written
together, do not all fall into the same set of the cache."""


class BilinearNest(Protocol):
    """The problem of a bilinear algorithm."""

    @property
    def shape(self) -> ConvolutionShape:
        """Sizes of the channels, their groups and, of the first dimension, the taps."""
        ...

    @property
    def kind(self) -> ElementKind:
        """Element kind of the input."""
        ...

    @property
    def block(self) -> int:
        """Output channels of one panel of weights."""
        ...

    @property
    def elements(self) -> int:
        """Products that a tile takes for a pair of channels."""
        ...

    @property
    def sums(self) -> int:
        """Elements of a tile in which these products are summed up."""
        ...

    @property
    def tiles(self) -> int:
        """Tiles that are transformed."""
        ...

    @property
    def panels(self) -> int:
        """Panels of all groups."""
        ...

    @property
    def weights(self) -> int:
        """Transformed weights of all panels."""
        ...

    @property
    def filter_bytes(self) -> int:
        """Bytes of the weights, as they come."""
        ...

    @property
    def takes_taps(self) -> bool:
        """Return whether the weights come as they are, and the kernel transforms them."""
        ...

    @property
    def transformed_at_once(self) -> int:
        """Elements whose weights a kernel transforms together."""
        ...

    @property
    def patch_elements(self) -> int:
        """Elements of the input of a tile, if a kernel may have to copy it."""
        ...

    @property
    def input_elements(self) -> int:
        """Elements of the input."""
        ...

    @property
    def output_elements(self) -> int:
        """Elements of the output."""
        ...

    def dot(self, target: Target) -> DotInstruction:
        """Return how *target* multiplies transformed elements."""
        ...

    def kinds_with(self, dot: DotInstruction) -> ProductKinds:
        """Return the kinds of the products of transformed elements that *dot* multiplies."""
        ...


@dataclass(frozen=True)
class BilinearPlan:
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
        factors_ahead: How many bytes ahead the lines that factors are written to are fetched, if
            the second-level cache does not hold those of a block; 0 if they are not.
        fetch_lines: Lines of weights that come as they are which are fetched for each element of a
            tile, at most.
    """

    kinds: ProductKinds
    lanes: int
    columns: Columns
    cut: AnyCut
    groups: int
    dot: int
    block_units: int
    panels_first: bool
    fetches_pixels: bool
    factors_ahead: int = 0
    fetch_lines: int | None = None

    def as_plan(self, algorithm: str) -> Plan:
        """Return the plan that :meth:`from_plan` makes this of."""
        return Plan.of(
            algorithm,
            dot=self.kinds.dot.name,
            rows=self.cut.rows,
            inner=self.dot,
            units=self.block_units,
            panels_first=self.panels_first or None,
            fetch_pixels=self.fetches_pixels or None,
            fetch_factors=self.factors_ahead or None,
            fetch_lines=self.fetch_lines,
        )

    @classmethod
    def from_plan(cls, plan: Plan, nest: BilinearNest, target: Target) -> BilinearPlan:
        """Return the loops of *nest* with the settings of *plan*.

        Args:
            plan: The settings.
            nest: The loop nest.
            target: The processor.
        """
        kinds = nest.kinds_with(_dot_of(plan, nest, target))
        lanes = lanes_of(kinds.total, target)
        return cls(
            kinds=kinds,
            lanes=lanes,
            columns=Columns(nest.shape.depth_per_group, nest.block, lanes),
            cut=cut_line(nest.tiles, plan.rows),
            groups=-(-nest.shape.channels_per_group // kinds.factors),
            dot=plan.number("inner"),
            block_units=plan.number("units"),
            panels_first=plan.is_set("panels_first"),
            fetches_pixels=plan.is_set("fetch_pixels"),
            factors_ahead=plan.number("fetch_factors", 0, least=0),
            fetch_lines=plan.number("fetch_lines") if nest.takes_taps else None,
        )

    @property
    def block_tiles(self) -> int:
        """The most tiles that are transformed in a block."""
        return self.block_units * self.cut.rows

    @property
    def factor_lanes(self) -> int:
        """Transformed inputs in a vector: the same number of bits as the sums."""
        return self.lanes * self.kinds.factors


def _dot_of(plan: Plan, nest: BilinearNest, target: Target) -> DotInstruction:
    """Return what *plan* names, which must multiply groups like those of the weights of *nest*."""
    dot, wanted = dot_named_by(plan), nest.dot(target)
    if dot.group != wanted.group:
        raise plan.unfit(f"here {wanted.name!r} multiplies, and not {dot.name!r}")
    return dot


def plan_bilinear(nest: BilinearNest, target: Target, block_tiles: int = 0) -> BilinearPlan:
    """Cut up *nest* for *target*, in blocks of at most *block_tiles*, by default what fits."""
    machine = target.machine
    shape, kinds = nest.shape, nest.kinds_with(nest.dot(target))
    lanes, factors = lanes_of(kinds.total, target), kinds.factors
    columns = Columns(shape.depth_per_group, nest.block, lanes)
    cut = cut_line(nest.tiles, _most_rows(nest, columns, target))
    filter_elements = nest.elements * shape.channels_per_group * shape.depth
    groups = -(-shape.channels_per_group // factors)
    plan = BilinearPlan(
        kinds=kinds,
        lanes=lanes,
        columns=columns,
        cut=cut,
        groups=groups,
        dot=groups,
        block_units=cut.tiles,
        panels_first=filter_elements > nest.input_elements,
        fetches_pixels=_touched_bytes(nest, kinds) > machine.l3_share * machine.l3_bytes,
        fetch_lines=machine.winograd_fetched_lines if nest.takes_taps else None,
    )
    plan = _in_blocks(plan, block_tiles) if block_tiles else _in_best_blocks(nest, plan, target)
    parts = max(1, -(-groups // _longest_dot(nest, plan, target)))
    is_far = plan.block_tiles * factor_bytes(nest, kinds) > level_2_bytes(target)
    ahead = machine.winograd_factors_ahead_bytes if is_far else 0
    return replace(plan, dot=-(-groups // parts), factors_ahead=ahead)


def _most_rows(nest: BilinearNest, columns: Columns, target: Target) -> int:
    """Return the most rows of a register tile: a block of as many tiles fits into L2."""
    kinds = nest.kinds_with(nest.dot(target))
    fitting = level_2_bytes(target) // block_bytes(nest, kinds, 1)
    return max(1, min(fitting, most_rows(columns.vectors, target, kinds.dot)))


def _longest_dot(nest: BilinearNest, plan: BilinearPlan, target: Target) -> int:
    """Return the most groups of channels of an inner block of the sums."""
    machine = target.machine
    kinds = plan.kinds
    row_bytes = nest.shape.kernel[0] * nest.block * kinds.factors * kinds.right.size_bytes
    longest = longest_dot(row_bytes, target, is_exact=not kinds.total.is_float)
    if not nest.takes_taps:
        return longest
    near, far = (
        machine.winograd_weights_l1_share * machine.l1_bytes,
        machine.winograd_weights_l2_share * machine.l2_bytes,
    )
    sums_bytes = plan.block_tiles * nest.sums * nest.block * kinds.total.size_bytes
    made_bytes = int(near if sums_bytes <= near else far)
    return min(longest, max(1, made_bytes // (nest.transformed_at_once * row_bytes)))


def _touched_bytes(nest: BilinearNest, kinds: ProductKinds) -> int:
    """Return the bytes of the input, the output, and the factors of all tiles."""
    pixels = (nest.input_elements + nest.output_elements) * nest.kind.size_bytes
    return pixels + nest.tiles * factor_bytes(nest, kinds)


def _in_best_blocks(nest: BilinearNest, plan: BilinearPlan, target: Target) -> BilinearPlan:
    """Return *plan* with blocks of the number of tiles that the caches hold."""
    kinds, tile_bytes = plan.kinds, factor_bytes(nest, plan.kinds)
    near = level_2_bytes(target) // (tile_bytes + nest.sums * nest.block * kinds.total.size_bytes)
    far = level_2_bytes(target) // block_bytes(nest, kinds, 1)
    far = min(far, int(target.machine.l3_share * target.machine.l3_bytes) // max(1, tile_bytes))
    plans = [_in_blocks(plan, tiles) for tiles in (near, far)]

    def cycles(plan: BilinearPlan) -> float:
        blocks = -(-plan.cut.tiles // max(1, plan.block_units))
        again = again_cycles(nest, plan, target) + _factor_cycles(nest, plan, target)
        return again + blocks * taps_cycles(nest, plan, target)

    return min(plans, key=cycles)


def _in_blocks(plan: BilinearPlan, tiles: int) -> BilinearPlan:
    """Return *plan* with balanced blocks of at most this number of tiles, one register tile at
    least.
    """
    blocks = -(-plan.cut.tiles // max(1, tiles // plan.cut.rows))
    return replace(plan, block_units=-(-plan.cut.tiles // blocks))


def factor_bytes(nest: BilinearNest, kinds: ProductKinds) -> int:
    """Return the bytes of the factors of one tile."""
    return nest.elements * nest.shape.channels * kinds.left.size_bytes


def block_bytes(nest: BilinearNest, kinds: ProductKinds, tiles: int) -> int:
    """Return the bytes of an element's factors and of a panel's products, for this number of
    tiles.
    """
    factors = nest.elements // nest.sums * nest.shape.channels_per_group * kinds.left.size_bytes
    return tiles * (factors + nest.sums * nest.block * kinds.total.size_bytes)


def again_cycles(nest: BilinearNest, plan: BilinearPlan, target: Target) -> float:
    """Estimate the cycles in which the filter comes again, for each block but the first.

    We suppose that the last-level cache has kept it; of a larger filter, most.
    """
    blocks = -(-plan.cut.tiles // max(1, plan.block_units))
    return (blocks - 1) * nest.filter_bytes * target.machine.l3_stream_byte_cycles


def _factor_cycles(nest: BilinearNest, plan: BilinearPlan, target: Target) -> float:
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
    return blocks * nest.panels * factors * target.machine.l3_stream_byte_cycles


def taps_cycles(nest: BilinearNest, plan: BilinearPlan, target: Target) -> float:
    """Estimate the cycles in which a kernel transforms the weights of one block, if it does."""
    return (
        target.machine.winograd_taps_byte_cycles * nest.weights * plan.kinds.right.size_bytes
        if nest.takes_taps
        else 0.0
    )


@dataclass(frozen=True)
class Scratch:
    """Where everything lies in the scratch memory of a thread.

    At its beginning is the *patch*, the input of one tile, ``[n, n, C]``, if what is outside
    belongs to it. One *line* is a vector of channels of a tile between the passes of a transform.

    Attributes:
        line: First byte of that line.
        factors: First byte of the transformed input.
        products: First byte of the products.
        bytes: The size of all of it.
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
    def of(cls, nest: BilinearNest, plan: BilinearPlan) -> Scratch:
        """Lay out the scratch of *plan*."""
        left, total = plan.kinds.left.size_bytes, plan.kinds.total.size_bytes
        rows = rounded_up(nest.shape.channels, plan.factor_lanes)
        plane = _with_gap(plan.block_tiles * rows, left)
        sums_plane = _with_gap(plan.block_tiles * nest.block, total)
        line = rounded_up(nest.patch_elements * nest.kind.size_bytes, PAD_BYTES)
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
    """Return *elements* of a matrix, in whole cache lines, and the gap after it."""
    pad = PAD_BYTES // size_bytes
    return rounded_up(elements, pad) + pad


def rounded_up(number: int, multiple: int) -> int:
    """Return the smallest multiple of *multiple* that is not below *number*."""
    return -(-number // multiple) * multiple
