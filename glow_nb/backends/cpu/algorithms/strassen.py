"""Strassen's algorithm: products of sums of blocks, fewer than blocks by themselves take."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from glow_nb.backends.cpu.algorithms.algorithm import Algorithm, register_algorithm
from glow_nb.backends.cpu.algorithms.problem import Problem, pixels_of
from glow_nb.backends.cpu.algorithms.weights import LIMIT, numbers_of
from glow_nb.backends.cpu.products import Product
from glow_nb.base.dot_instruction import SINGLE
from glow_nb.base.plan import Plan
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops import Convolution, MatMul, Reshape, Transpose
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.kernels.operators import StrassenMatMul, StrassenScales, StrassenWeights
from glow_nb.kernels.operators.panels import pack_bias
from glow_nb.kernels.operators.strassen_weights import column_sizes
from glow_nb.kernels.products.blocking import rank_blocks
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.strassen.cost import LEAST_GAIN, strassen_cycles, suits_strassen
from glow_nb.kernels.strassen.matmul import STRASSEN
from glow_nb.kernels.strassen.nest import StrassenNest
from glow_nb.kernels.target import Target
from glow_nb.numerics.strassen import LARGEST_COLUMN_SCALE, SIDE, scales


@register_algorithm
class Strassen(Algorithm):
    """Multiply by a constant matrix, or convolve pointwise, with sums of blocks of the weights."""

    name = STRASSEN
    # Not for open sizes: few rows would read its weights as well, seven quarters of a matrix.

    @override
    def plans(self, problem: Problem, target: Target) -> Sequence[Plan]:
        product = _product_of(problem, target)
        if not problem.is_constant or product is None or product.batch > 1:
            return []
        sizes, kind = (product.rows, product.inner, product.depth), problem.left
        if not suits_strassen(*sizes, kind, target):
            return []
        nest = StrassenNest(*sizes, kind, target.lanes)
        inner, depth = nest.block_sizes
        widths = rank_blocks(
            depth, target, pixels=nest.tiles, steps=inner, kind=kind, fetched=inner
        )
        blocks = widths[: problem.widths]
        return [Plan.of(STRASSEN, dot=SINGLE.name, block=block) for block in blocks]

    @override
    def cycles(self, plan: Plan, problem: Problem, target: Target) -> float:
        product = _product_of(problem, target)
        assert product is not None, "it has plans for products alone"
        sizes = (product.rows, product.inner, product.depth)
        nest = StrassenNest(*sizes, problem.left, plan.number("block"))
        cycles = strassen_cycles(nest, target, problem.threads)
        # the work of all threads is compared with that of a direct product
        return cycles if problem.product is None else problem.threads * cycles

    @override
    def min_speedup(self, plan: Plan, problem: Problem) -> float:
        return LEAST_GAIN

    @override
    def is_valid(self, plan: Plan, node: Product) -> bool:
        """Return whether the columns of the right matrix of *node* are of like size.

        The algorithm lets some of them meet in sums. Those of a matrix that is not supplied are
        alike.
        """
        weights = numbers_of(node.factors[1])
        if weights is None:
            return True
        if isinstance(node, Convolution):  # a pointwise filter has a row for each channel
            weights = weights.reshape(len(weights), -1).T
        sizes = column_sizes(weights)
        scale, _ = scales(sizes.reshape(SIDE, -1))
        return bool((scale < LARGEST_COLUMN_SCALE).all() and (sizes < LIMIT).all())

    @override
    def more_bytes(self, plan: Plan, node: Product) -> int:
        lhs, matrix = (value.type for value in node.factors)
        inner, depth = lhs.shape[-1], node.type.shape[-1]
        nest = StrassenNest(SIDE, inner, depth, lhs.kind, plan.number("block"))
        return max(0, nest.filter_bytes - matrix.size_bytes)

    @override
    def emit(self, plan: Plan, node: Product, rewriter: Rewriter) -> Value:
        block = plan.number("block")
        bias = None if isinstance(node, MatMul) else node.bias
        lhs, matrix = node.factors
        if isinstance(node, Convolution):
            depth, *_, channels = matrix.type.shape
            rows = rewriter.emit(Reshape(matrix, (depth, channels)))
            matrix = rewriter.emit(Transpose(rows, (1, 0)))
        return rewriter.emit(
            StrassenMatMul(
                lhs,
                rewriter.emit(StrassenWeights(matrix, block)),
                rewriter.emit(StrassenScales(matrix, block)),
                None if bias is None else pack_bias(rewriter, bias, SIDE, block),
                depth=matrix.type.shape[-1],
                block=block,
                predicate=node.predicate,
                plan=plan,
            )
        )


def _product_of(problem: Problem, target: Target) -> MatMulShape | None:
    """Return the product of *problem*; None if the algorithm does not suit it."""
    if problem.product is not None:
        return problem.product
    shape = problem.shape
    fewest = target.machine.strassen_min_channels
    if not _is_pointwise(shape) or min(shape.channels, shape.depth) < fewest:
        return None
    return MatMulShape(1, pixels_of(problem), shape.channels, shape.depth)


def _is_pointwise(shape: ConvolutionShape) -> bool:
    is_plain = set(shape.kernel) == set(shape.stride) == {1}
    return is_plain and not any(shape.pads) and shape.group == 1
