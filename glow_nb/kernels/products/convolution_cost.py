"""Estimated time of the ways to compute a convolution or a matrix product.

The time has these parts: the multiply-adds of all register tiles, tails included (see
:mod:`glow_nb.kernels.products.blocking`); sums that wait between inner blocks; what a register tile
of Winograd's algorithm costs beside its products; the transforms; and the bytes that come from far:
weights, which no cache holds from one run to the next, the weights that each further block of the
input reads once more from a nearer cache, and the padded copy of the input. Where threads share a
convolution, it is the time of the largest share: of the panels, and of the input, all of which each
thread transforms if they share panels alone; but no less than the weights take from memory, which
is the same for all threads. The constants are fitted to measurements of the products of ResNet50,
VGG19 and SqueezeNet on one Zen 4 core and, for memory, on two; the cost of left rows to 35 layers
and products on one Zen 5 core. ``experiments/benchmarks/cost_model.py`` shows how well.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod, sqrt

from glow_nb.cook_toom import inputs_of
from glow_nb.hlir.ops.quantization import BYTES
from glow_nb.kernels.products.blocking import (
    Columns,
    fetch_cycles,
    lanes_of,
    narrowest_block,
    rank_blocks,
)
from glow_nb.kernels.products.caches import longest_dot
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.dot_form import SINGLE, DotForm
from glow_nb.kernels.products.loops import staged_elements, units_of
from glow_nb.kernels.products.matmul import MatMulShape
from glow_nb.kernels.products.product_cost import (
    Candidate,
    filter_cycles,
    product_cycles,
    waiting_cycles,
    weight_fetch_cycles,
)
from glow_nb.kernels.products.product_nest import ProductKinds, ProductNest, run_of
from glow_nb.kernels.products.product_plan import plan_loops
from glow_nb.kernels.strassen.cost import LEAST_GAIN as STRASSEN_GAIN
from glow_nb.kernels.strassen.cost import strassen_candidate, suits_strassen
from glow_nb.kernels.strassen.nest import StrassenNest
from glow_nb.kernels.target import Target
from glow_nb.kernels.winograd.cost import winograd_candidate
from glow_nb.kernels.winograd.nest import VOLUME, WinogradNest, suits_winograd
from glow_nb.thread_grid import largest_share
from glow_nb.types import ElementKind

TRIED_TILES = {1: {3: (2, 4, 6), 5: (2, 4), 7: (2,)}, 2: {3: (2, 3, 4), 5: (2, 4)}}
"""Outputs of a tile that are tried for a stride and so many taps: what is larger costs too much
accuracy."""

LEAST_GAIN = {8: sqrt(1.05)}
"""How many times as fast tiles must seem to be preferred, for each dimension in which they have so
many inputs: 1.05 for tiles of 8 x 8 inputs. Their rounding errors are four times those of 6 x 6
inputs, and their filters take more memory. On a Zen 4 core, ResNet50 with eight images has tiles of
8 x 8 inputs in three layers, and comes 3.1e-5 of its largest output from float64. With 1.04 it has
them in three more, of its first stage, takes as long, and comes 1.05e-4 from it, which is more than
the policy allows (docs/accuracy.md). Tiles of 6 x 8 inputs, which need 1.025, make VGG19 1.01 to
1.04 times as fast on a Zen 3 core as those of 6 x 6, and a network of 1-D convolutions with tiles
of 8 inputs 1.05 times."""

MOST_REMEMBERED = 4096
"""Problems whose ways to be computed are remembered."""

PAIRED_COLUMNS = 16, 24
"""Columns of a panel whose weights lie in pairs. The fewer there are, the more can be pairs: panels
of 16 and of 24 columns of ResNet50's layers take 1.10 and 1.26 times the fewest steps for sums of
64, 1.03 and 1.12 for 128, 1.005 and 1.03 for 256, 1.002 and 1.006 for 512. With less, a step of
vectors of 8 lanes shuffles bytes for a single vector of weights."""


@lru_cache(MOST_REMEMBERED)
def convolution_candidates(
    shape: ConvolutionShape,
    kind: ElementKind,
    target: Target,
    *,
    form: DotForm = SINGLE,
    winograd: bool = True,
    strassen: bool = False,
    blocks: int = 1,
    threads: int = 1,
    is_packed: bool = True,
) -> tuple[Candidate, ...]:
    """Return the ways to compute a convolution, that with the least estimated time first.

    A tile whose results are less precise comes behind those that take hardly more. Networks have
    many convolutions of one problem, and each of them is asked for several times: what was found is
    remembered.

    Args:
        shape: Sizes of the convolution.
        kind: Element kind of the input.
        target: The processor.
        form: How its elements are multiplied.
        winograd: Whether filters may be transformed.
        strassen: Whether convolutions of single pixels may be done by Strassen's algorithm.
        blocks: How many widths of panels to try in each way.
        threads: Cores that share the work.
        is_packed: The filter is laid out, and transformed, before. Otherwise that takes its time.
    """
    simple = shape.simplified()
    widths = rank_blocks(
        simple.depth_per_group,
        target,
        pixels=simple.output[-1],
        steps=simple.steps,
        kind=kind,
        form=form,
        fetched=simple.new_inputs,
    )
    kinds = ProductKinds.of(kind, form=form)
    tried = widths_to_try(widths, form, blocks)
    if form.is_dense:
        tried = tuple(_dense_block(simple.depth_per_group, block, kinds, target) for block in tried)
    candidates = [direct_candidate(shape, kinds, target, block, threads) for block in tried]
    is_whole = kind in BYTES and form.factors > 1
    can_transform = kind is ElementKind.FLOAT32 or is_whole
    if winograd and can_transform and prod(shape.output) * shape.batch > 0:
        tiles = [tile for tile in _tiles(shape) if suits_winograd(shape, tile, whole=is_whole)]
        for tile in tiles:
            nest = WinogradNest(shape, tile, kind, target.lanes)
            kinds = nest.kinds_with(nest.form(target))
            widths = rank_blocks(
                shape.depth_per_group,
                target,
                pixels=nest.tiles,
                steps=shape.channels_per_group,
                kind=kinds.left,
                form=kinds.form,
                fetched=shape.channels_per_group,
            )
            nests = [replace(nest, block=block) for block in widths[:blocks]]
            candidates += [winograd_candidate(nest, target, threads) for nest in nests]
    if strassen and _is_large_product(shape, target):
        product = MatMulShape(1, shape.batch * prod(shape.output), shape.channels, shape.depth)
        candidates += _strassen_candidates(product, kind, target, blocks, threads)
    if not is_packed:
        candidates = [_with_packing(way, shape, kind, target, threads) for way in candidates]
    return tuple(sorted(candidates, key=lambda way: way.cycles * _least_gain(way, shape)))


def _is_large_product(shape: ConvolutionShape, target: Target) -> bool:
    """Return whether a convolution multiplies each pixel by itself, with many channels."""
    return (
        set(shape.kernel) == set(shape.stride) == {1}
        and not any(shape.pads)
        and shape.group == 1
        and min(shape.channels, shape.depth) >= target.machine.strassen_min_channels
    )


def _dense_block(depth: int, block: int, kinds: ProductKinds, target: Target) -> int:
    """Return the columns of the narrowest panels in place of those of *block*, if read as fast.

    Panels that are narrower than a vector are read as fast only with masks of bytes.
    """
    lanes = lanes_of(kinds.total, target)
    narrow = narrowest_block(depth, block, lanes)
    return narrow if narrow >= lanes or target.has_byte_masks else block


def widths_to_try(widths: tuple[int, ...], form: DotForm, count: int) -> tuple[int, ...]:
    """Return the first *count* of the *widths* of panels, all that suit *form* if it is paired.

    Which of these take few steps, the weights tell.
    """
    if not form.is_paired:
        return widths[:count]
    fewest, most = PAIRED_COLUMNS
    return tuple(width for width in widths if fewest <= width <= most) or widths[:1]


def _least_gain(way: Candidate, shape: ConvolutionShape) -> float:
    """Return how many times as fast as others *way* must seem to be preferred."""
    if way.tile is None:
        return STRASSEN_GAIN if way.is_strassen else 1.0
    sizes = zip(way.tile, shape.kernel, shape.stride, strict=True)
    return prod(LEAST_GAIN.get(inputs_of(*axis), 1.0) for axis in sizes if axis[0] > 1)


def _with_packing(
    way: Candidate, shape: ConvolutionShape, kind: ElementKind, target: Target, threads: int
) -> Candidate:
    """Return *way* with the time to pad the filter to whole panels, lay it out and transform it."""
    panels = -(-shape.depth_per_group // way.block)
    size = shape.group * panels * way.block * shape.steps * kind.size_bytes
    copies = 1 if shape.depth_per_group % way.block == 0 else 2
    cycles = target.machine.laid_out_byte_cycles * copies * size
    if way.tile is not None:
        sizes = (
            inputs_of(*axis) for axis in zip(way.tile, shape.kernel, shape.stride, strict=True)
        )
        cycles += (
            target.machine.winograd_transform_byte_cycles * size * prod(sizes) / prod(shape.kernel)
        )
    return replace(way, cycles=way.cycles + cycles / threads)


def _tiles(shape: ConvolutionShape) -> list[tuple[int, ...]]:
    """Return the tiles to try: none that is long in one dimension and short in another."""
    tiles: list[tuple[int, ...]] = [()]
    for axis, (taps, stride) in enumerate(zip(shape.kernel, shape.stride, strict=True)):
        sizes = (1,) if taps == 1 else TRIED_TILES.get(stride, {}).get(taps, ())
        if axis == 0 and shape.rank == VOLUME and taps > 1:
            sizes = (1, *sizes)
        tiles = [(*tile, size) for tile in tiles for size in sizes]
    return [tile for tile in tiles if max(tile) <= 4 or 2 not in tile]


@lru_cache(MOST_REMEMBERED)
def product_candidates(
    shape: MatMulShape,
    kind: ElementKind,
    target: Target,
    *,
    form: DotForm = SINGLE,
    strassen: bool = False,
    blocks: int = 1,
    threads: int = 1,
    is_laid_out: bool = True,
) -> tuple[Candidate, ...]:
    """Return the ways to compute a matrix product, that with the least estimated time first.

    They are remembered, as those of convolutions.

    Args:
        shape: Sizes of the product.
        kind: Element kind of the left matrix.
        target: The processor.
        form: How its elements are multiplied.
        strassen: Whether Strassen's algorithm may be used.
        blocks: How many widths of panels to try.
        threads: Cores that share a product by Strassen's algorithm; direct sums are ranked alike
            for any number.
        is_laid_out: The right matrix comes in panels at no cost. Otherwise it is copied at run
            time, but for a single panel as wide as the matrix, which is tried as well.
    """
    widths = rank_blocks(
        shape.depth,
        target,
        pixels=shape.rows,
        steps=shape.inner,
        kind=kind,
        form=form,
        fetched=shape.inner,
    )
    tried = widths_to_try(widths, form, blocks)
    if not is_laid_out and shape.depth in widths[blocks:]:
        tried = (*tried, shape.depth)
    candidates: list[Candidate] = []
    for block in tried:
        way = product_candidate(shape, kind, target, form, block)
        if not is_laid_out and block != shape.depth:
            weight_bytes = shape.batch * shape.inner * shape.depth * kind.size_bytes
            way = replace(
                way, cycles=way.cycles + target.machine.laid_out_byte_cycles * weight_bytes
            )
        candidates.append(way)
    if strassen:
        found = _strassen_candidates(shape, kind, target, blocks, threads)
        candidates += [replace(way, cycles=threads * way.cycles) for way in found]
    return tuple(
        sorted(candidates, key=lambda way: way.cycles * (STRASSEN_GAIN if way.is_strassen else 1))
    )


def _strassen_candidates(
    shape: MatMulShape, kind: ElementKind, target: Target, blocks: int, threads: int
) -> list[Candidate]:
    """Return the ways to compute a product by Strassen's algorithm, none if it does not suit it."""
    sizes = (shape.rows, shape.inner, shape.depth)
    if shape.batch > 1 or not suits_strassen(*sizes, kind, target):
        return []
    nest = StrassenNest(*sizes, kind, target.lanes)
    inner, depth = nest.block_sizes
    widths = rank_blocks(depth, target, pixels=nest.tiles, steps=inner, kind=kind, fetched=inner)
    nests = [replace(nest, block=block) for block in widths[:blocks]]
    return [strassen_candidate(nest, target, threads) for nest in nests]


def product_candidate(
    shape: MatMulShape, kind: ElementKind, target: Target, form: DotForm, block: int
) -> Candidate:
    """Return a matrix product whose right matrices lie in panels of *block* columns."""
    columns = Columns(shape.depth, block, lanes_of(kind, target), form.factors > 1)
    cycles = product_cycles(columns, shape.rows, shape.inner, target, form)
    row_bytes = block * form.factors * kind.size_bytes
    longest = longest_dot(row_bytes, target, is_exact=not kind.is_float)
    inner_blocks = -(-shape.inner // (form.factors * longest))
    cycles += waiting_cycles(columns, shape.rows, inner_blocks, target)
    cycles += shape.rows * columns.panels * fetch_cycles(shape.inner, kind, target)
    weight_bytes = shape.batch * shape.inner * shape.depth * kind.size_bytes
    cycles = (
        target.machine.direct_factor * shape.batch * cycles
        + target.machine.weight_byte_cycles * weight_bytes
    )
    cycles = max(cycles, weight_fetch_cycles(weight_bytes, target))
    return Candidate(None, block, cycles, form.factors, form.is_paired)


def direct_candidate(
    shape: ConvolutionShape, kinds: ProductKinds, target: Target, block: int, threads: int
) -> Candidate:
    """Return a convolution that sums up its products with a filter in panels of *block* columns."""
    simple, kind, form = shape.simplified(), kinds.left, kinds.form
    nest = ProductNest.packed(simple, kinds, block, run=run_of(shape, form.factors))
    loops = plan_loops(nest, target)
    lines = simple.batch * simple.group * prod(simple.output[:-1])
    pixels = simple.output[-1]
    cycles = lines * product_cycles(loops.columns, pixels, simple.steps, target, form)
    cycles += lines * waiting_cycles(loops.columns, pixels, loops.sum.blocks, target)
    cycles += lines * pixels * loops.columns.panels * fetch_cycles(simple.new_inputs, kind, target)
    blocks = simple.batch * -(-units_of(simple, loops.cut) // max(1, loops.block_units))
    staged = blocks * staged_elements(nest, loops) * kinds.staged.size_bytes
    cycles = target.machine.direct_factor * cycles + target.machine.staged_byte_cycles * staged
    units = simple.batch * units_of(simple, loops.cut)
    unit_part, panel_part = largest_share(
        units, loops.columns.panels * simple.group, threads, panels_first=loops.panels_first
    )
    weight_bytes = shape.steps * shape.depth * kind.size_bytes
    cycles = (
        unit_part * panel_part * cycles
        + target.machine.weight_byte_cycles * panel_part * weight_bytes
    )
    cycles = max(cycles, filter_cycles(weight_bytes, panel_part, target))
    return Candidate(None, block, cycles, form.factors, form.is_paired)
