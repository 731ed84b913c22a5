"""Estimated time of the ways to compute a convolution."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from glow_nb.kernels.blocking import (
    Columns,
    Cut,
    lanes_of,
    line_cycles,
    rank_blocks,
    registers_of,
    row_limit,
)
from glow_nb.kernels.convolution_shape import ConvolutionShape
from glow_nb.kernels.matmul import MatMulShape
from glow_nb.kernels.target import Target
from glow_nb.kernels.winograd_plan import WinogradNest, plan_winograd, suits_winograd
from glow_nb.types import ElementKind

LARGEST_TILES = {3: (2, 4), 5: (2,), 7: (2,)}
"""Outputs of a tile that are tried for so many taps: what is larger costs too much accuracy."""

TILE_CYCLES = 30.0
"""Of a register tile beside its products: clearing and storing it, and the loops around it."""

INPUT_CYCLES, OUTPUT_CYCLES = 2.6, 3.0
"""Of a transform, for each of the n x n elements of a tile and each vector of channels."""

MEMORY_BYTES_PER_CYCLE = 7.0
"""Main memory to core, for weights that no cache holds from one run to the next."""


@dataclass(frozen=True)
class Candidate:
    """A way to compute a convolution.

    Attributes:
        tile: Outputs of a Winograd tile in each dimension; None for the direct sum.
        block: Output channels of one panel of the filter.
        cycles: Estimated time of one run on one core.
    """

    tile: tuple[int, ...] | None
    block: int
    cycles: float


def convolution_candidates(
    shape: ConvolutionShape,
    kind: ElementKind,
    target: Target,
    *,
    winograd: bool = True,
    blocks: int = 1,
) -> list[Candidate]:
    """Return the ways to compute a convolution, that with the least estimated time first.

    Args:
        shape: Sizes of the convolution.
        kind: Element kind of the operands.
        target: The processor.
        winograd: Whether filters may be transformed.
        blocks: How many widths of panels to try in each way.
    """
    simple = shape.simplified()
    widths = rank_blocks(
        simple.depth_per_group,
        target.lanes,
        pixels=simple.output[-1],
        steps=simple.steps,
        kind=kind,
    )
    candidates = [_direct(shape, kind, target, block) for block in widths[:blocks]]
    if winograd and kind is ElementKind.FLOAT32 and prod(shape.output) * shape.batch > 0:
        tiles = [tile for tile in _tiles(shape) if suits_winograd(shape, tile)]
        for tile in tiles:
            rows = WinogradNest(shape, tile, kind, target.lanes).tiles
            widths = rank_blocks(
                shape.depth_per_group,
                target.lanes,
                pixels=rows,
                steps=shape.channels_per_group,
                kind=kind,
            )
            candidates += [_winograd(shape, tile, kind, target, block) for block in widths[:blocks]]
    return sorted(candidates, key=lambda candidate: candidate.cycles)


def _tiles(shape: ConvolutionShape) -> list[tuple[int, ...]]:
    """Return the tiles to try."""
    tiles: list[tuple[int, ...]] = [()]
    for taps in shape.kernel:
        sizes = (1,) if taps == 1 else LARGEST_TILES.get(taps, ())
        tiles = [(*tile, size) for tile in tiles for size in sizes]
    return tiles


def product_candidates(
    shape: MatMulShape, kind: ElementKind, target: Target, *, blocks: int = 1
) -> list[Candidate]:
    """Return the ways to compute a matrix product, that with the least estimated time first."""
    widths = rank_blocks(shape.depth, target.lanes, pixels=shape.rows, steps=shape.inner, kind=kind)
    candidates: list[Candidate] = []
    for block in widths[:blocks]:
        columns = Columns(shape.depth, block, lanes_of(kind, target))
        cycles = shape.batch * _product_cycles(columns, shape.rows, shape.inner, kind, target)
        streamed = shape.batch * shape.inner * shape.depth * kind.size_bytes
        cycles = max(cycles, streamed / MEMORY_BYTES_PER_CYCLE)
        candidates.append(Candidate(None, block, cycles))
    return candidates


def _direct(shape: ConvolutionShape, kind: ElementKind, target: Target, block: int) -> Candidate:
    simple = shape.simplified()
    columns = Columns(simple.depth_per_group, block, lanes_of(kind, target))
    lines = simple.batch * simple.group * prod(simple.output[:-1])
    pixels = simple.output[-1]
    cycles = lines * _product_cycles(columns, pixels, simple.steps, kind, target)
    streamed = shape.steps * shape.depth * kind.size_bytes / MEMORY_BYTES_PER_CYCLE
    return Candidate(None, block, max(cycles, streamed))


def _winograd(
    shape: ConvolutionShape, tile: tuple[int, ...], kind: ElementKind, target: Target, block: int
) -> Candidate:
    inner = shape.channels_per_group
    pixels = WinogradNest(shape, tile, kind, target.lanes).tiles
    nest = WinogradNest(shape, tile, kind, block)
    plan = plan_winograd(nest, target)
    lanes = lanes_of(kind, target)
    matrices = nest.elements * shape.group
    cycles = matrices * _product_cycles(plan.columns, pixels, inner, kind, target)
    cycles += nest.elements * nest.panels * plan.cut.tiles * TILE_CYCLES
    vectors = INPUT_CYCLES * -(-shape.channels // lanes) + OUTPUT_CYCLES * -(-shape.depth // lanes)
    transforms = nest.tiles * nest.elements * vectors
    filter_bytes = nest.elements * inner * nest.panels * block * kind.size_bytes
    streamed = filter_bytes / MEMORY_BYTES_PER_CYCLE
    return Candidate(tile, block, max(cycles, streamed) + transforms)


def _product_cycles(
    columns: Columns, pixels: int, steps: int, kind: ElementKind, target: Target
) -> float:
    """Estimate a product of *pixels* rows and *steps* products each."""
    vector_bytes = target.lanes * ElementKind.FLOAT32.size_bytes
    limit = row_limit(columns.vectors, registers_of(target))
    cut = Cut.balanced(max(1, pixels), limit)
    panel_bytes = columns.vectors * vector_bytes * steps
    cycles = columns.full * line_cycles(cut, columns.vectors, vector_bytes, panel_bytes)
    if columns.tail:
        cycles += line_cycles(cut, columns.tail_vectors, vector_bytes, panel_bytes)
    return steps * cycles
