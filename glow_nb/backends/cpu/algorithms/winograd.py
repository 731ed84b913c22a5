"""Winograd's algorithm: tiles of a convolution are transformed, so that fewer products are left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod, sqrt

from typing_extensions import override

from glow_nb.backends.cpu.algorithms.algorithm import Algorithm, register_algorithm
from glow_nb.backends.cpu.algorithms.problem import Problem, pixels_of
from glow_nb.backends.cpu.algorithms.weights import LIMIT, largest_of, numbers_of
from glow_nb.backends.cpu.products import Product, shape_of
from glow_nb.base.dot_instruction import dot_named_by
from glow_nb.base.plan import Plan
from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops import Convolution
from glow_nb.hlir.ops.quantization import BYTES
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.kernels.operators import WinogradConvolution, WinogradFilter
from glow_nb.kernels.operators.panels import pack_bias, pack_filter
from glow_nb.kernels.operators.winograd import WHOLE_FACTORS
from glow_nb.kernels.products.blocking import rank_blocks
from glow_nb.kernels.products.convolution_cost import packing_cycles
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.target import Target
from glow_nb.kernels.winograd.convolution import WINOGRAD
from glow_nb.kernels.winograd.cost import winograd_cycles
from glow_nb.kernels.winograd.exactness import exact_tiles
from glow_nb.kernels.winograd.nest import VOLUME, WinogradNest, suits_winograd
from glow_nb.numerics.cook_toom import inputs_of

TRIED_TILES = {1: {3: (2, 4, 6), 5: (2, 4), 7: (2,)}, 2: {3: (2, 3, 4), 5: (2, 4)}}
"""Outputs of a tile that are tried for a stride and this number of taps: what is larger costs too
much accuracy."""

MIN_SPEEDUP = {8: sqrt(1.05)}
"""Minimum estimated speedup to choose such a tile, for each dimension in which they have this
number of inputs: 1.05 for tiles of 8 x 8 inputs. Their rounding errors are four times those of 6 x
6 inputs, and their filters take more memory. With 1.04, ResNet50 has them in three more layers,
takes as long, and comes farther from float64 than the policy allows (docs/accuracy.md). What tiles
gain is in docs/history.md."""


@register_algorithm
class Winograd(Algorithm):
    """Multiply transformed tiles of the input by transformed filters."""

    name = WINOGRAD
    takes_open_sizes = True

    @override
    def plans(self, problem: Problem, target: Target) -> Sequence[Plan]:
        shape, kind = problem.shape, problem.left
        is_whole = kind in BYTES and problem.dot.group > 1
        can_transform = kind is ElementKind.FLOAT32 or is_whole
        if problem.product is not None or not can_transform or not pixels_of(problem):
            return []
        made: list[Plan] = []
        for tile in _tiles(shape):
            if not suits_winograd(shape, tile, whole=is_whole):
                continue
            nest = WinogradNest(shape, tile, kind, target.lanes)
            dot = nest.dot(target)
            widths = rank_blocks(
                shape.depth_per_group,
                target,
                pixels=nest.tiles,
                steps=shape.channels_per_group,
                kind=nest.kinds_with(dot).left,
                dot=dot,
                fetched=shape.channels_per_group,
            )
            made += [
                Plan.of(WINOGRAD, dot=dot.name, tile=tile, block=block)
                for block in widths[: problem.widths]
            ]
        return made

    @override
    def cycles(self, plan: Plan, problem: Problem, target: Target) -> float:
        shape, kind = problem.shape, problem.left
        tile, block = plan.sizes("tile"), plan.number("block")
        nest = WinogradNest(shape, tile, kind, target.lanes)
        cycles = winograd_cycles(replace(nest, block=block), target, problem.threads)
        if problem.is_constant:
            return cycles
        packing = packing_cycles(shape, kind, block, target, tile=tile)
        return cycles + packing / problem.threads

    @override
    def min_speedup(self, plan: Plan, problem: Problem) -> float:
        shape = problem.shape
        sizes = zip(plan.sizes("tile"), shape.kernel, shape.stride, strict=True)
        return prod(MIN_SPEEDUP.get(inputs_of(*axis), 1.0) for axis in sizes if axis[0] > 1)

    @override
    def is_valid(self, plan: Plan, node: Product) -> bool:
        """Return whether the filter may be transformed.

        Sums of weights spread one that is NaN or infinite over others, and may overflow. Integers
        must be known, so that results are known to be exact.
        """
        assert isinstance(node, Convolution)
        if node.type.kind.is_float:
            return largest_of(node.filter) < LIMIT
        if node.filter.type.kind not in BYTES | {WHOLE_FACTORS}:
            return False
        weights = numbers_of(node.filter)
        if weights is None:  # not supplied: what is selected is only looked at
            return isinstance(node.filter, Constant)
        shape, tile = shape_of(node), plan.sizes("tile")
        taps = weights.reshape(shape.depth, *shape.kernel, shape.channels_per_group)
        return tile in exact_tiles(taps, node.input.type.kind, {tile})

    @override
    def more_bytes(self, plan: Plan, node: Product) -> int:
        assert isinstance(node, Convolution)
        kind = node.type.kind
        if not kind.is_float:  # kernels transform filters of integers
            return 0
        nest = WinogradNest(shape_of(node), plan.sizes("tile"), kind, plan.number("block"))
        return max(0, nest.filter_bytes - node.filter.type.size_bytes)

    @override
    def emit(self, plan: Plan, node: Product, rewriter: Rewriter) -> Value:
        assert isinstance(node, Convolution)
        block, tile, is_float = plan.number("block"), plan.sizes("tile"), node.type.kind.is_float
        filter = pack_filter(
            rewriter,
            node.filter,
            node.group,
            block,
            dot_named_by(plan).group,
            taps_inside=not is_float,
        )
        return rewriter.emit(
            WinogradConvolution(
                node.input,
                rewriter.emit(WinogradFilter(filter, tile, node.stride)) if is_float else filter,
                pack_bias(rewriter, node.bias, node.group, block),
                depth=node.type.shape[-1],
                kernel=node.kernel,
                tile=tile,
                stride=node.stride,
                pads=node.pads,
                dilation=node.dilation,
                group=node.group,
                block=block,
                guarded=plan.is_set("guarded") and is_float,
                pad_value=node.pad_value,
                predicate=node.predicate,
                plan=plan,
            )
        )


def _tiles(shape: ConvolutionShape) -> list[tuple[int, ...]]:
    """Return the tiles to try: none that is long in one dimension and short in another."""
    tiles: list[tuple[int, ...]] = [()]
    for axis, (taps, stride) in enumerate(zip(shape.kernel, shape.stride, strict=True)):
        sizes = (1,) if taps == 1 else TRIED_TILES.get(stride, {}).get(taps, ())
        if axis == 0 and shape.rank == VOLUME and taps > 1:
            sizes = (1, *sizes)
        tiles = [(*tile, size) for tile in tiles for size in sizes]
    return [tile for tile in tiles if max(tile) <= 4 or 2 not in tile]
