"""The direct algorithm: all products are summed up as they are, with weights in panels."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from glow_nb.backends.cpu.algorithms.algorithm import Algorithm, register_algorithm
from glow_nb.backends.cpu.algorithms.problem import Problem
from glow_nb.backends.cpu.integer_products import widened, with_unsigned_left
from glow_nb.backends.cpu.products import Product
from glow_nb.base.dot_instruction import dot_named_by, groups_at_once
from glow_nb.base.plan import Plan
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops import Convolution, FullyConnected, MatMul
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.kernels.operators import PackedConvolution, PackedMatMul
from glow_nb.kernels.operators.panels import joins_taps, pack_bias, pack_filter, pack_matrix
from glow_nb.kernels.products.blocking import lanes_of, narrowest_block, rank_blocks
from glow_nb.kernels.products.convolution_cost import (
    direct_cycles,
    packing_cycles,
    panel_copy_cycles,
    panel_product_cycles,
)
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.matrix_cost import MatrixSums, rank_matrix_blocks
from glow_nb.kernels.products.matrix_rows import row_groups
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.product_plan import DIRECT
from glow_nb.kernels.target import Target


@register_algorithm
class Direct(Algorithm):
    """Sum up all products with a filter, or a matrix, in panels of a few columns."""

    name = DIRECT
    takes_open_sizes = True

    @override
    def plans(self, problem: Problem, target: Target) -> Sequence[Plan]:
        dots = [problem.dot, *([problem.matrix] if problem.matrix else [])]
        return [
            Plan.of(DIRECT, dot=dot.name, block=block)
            for dot in dots
            for block in _blocks(problem.by(dot), target)
        ]

    @override
    def cycles(self, plan: Plan, problem: Problem, target: Target) -> float:
        block, dot = plan.number("block"), dot_named_by(plan)
        problem = problem.by(dot)
        kind = problem.left
        if problem.product is None:
            cycles = direct_cycles(problem.shape, problem.kinds, target, block, problem.threads)
            if problem.is_constant:
                return cycles
            packing = packing_cycles(problem.shape, kind, block, target)
            return cycles + packing / problem.threads
        cycles = panel_product_cycles(problem.product, kind, target, dot, block)
        if problem.is_laid_out or block == problem.product.depth:
            return cycles
        return cycles + panel_copy_cycles(problem.product, kind, target)

    @override
    def emit(self, plan: Plan, node: Product, rewriter: Rewriter) -> Value:
        if dot_named_by(plan).group == 1:
            node = widened(node, rewriter)
        if isinstance(node, Convolution):
            return _emit_convolution(plan, node, rewriter)
        return _emit_product(plan, node, rewriter)


def _blocks(problem: Problem, target: Target) -> Sequence[int]:
    """Return the columns of panels to try."""
    if problem.dot.is_matrix:
        return _blocks_of_registers(problem, target)
    if problem.product is None:
        return _blocks_of_convolution(problem, target)
    return _blocks_of_matrix(problem, problem.product, target)


def _blocks_of_registers(problem: Problem, target: Target) -> Sequence[int]:
    """Return the columns of panels for matrix registers, whole registers."""
    simple, group = problem.shape.simplified(), problem.dot.group
    widths = rank_matrix_blocks(
        simple.depth_per_group,
        simple.output[-1],
        MatrixSums(-(-simple.steps // group), groups_at_once(row_groups(simple, group) or 1)),
        target,
    )
    return widths[: problem.widths]


def _blocks_of_convolution(problem: Problem, target: Target) -> Sequence[int]:
    """Return the columns of panels to try, the best by its multiply-adds first."""
    simple, dot = problem.shape.simplified(), problem.dot
    widths = rank_blocks(
        simple.depth_per_group,
        target,
        pixels=simple.output[-1],
        steps=simple.steps,
        kind=problem.left,
        dot=dot,
        fetched=simple.new_inputs,
    )
    tried = widths[: problem.widths]
    if not dot.is_dense:
        return tried
    depth = simple.depth_per_group
    return [_dense_block(depth, block, problem.kinds, target) for block in tried]


def _dense_block(depth: int, block: int, kinds: ProductKinds, target: Target) -> int:
    """Return the columns of the narrowest panels instead of those of *block*, if read as fast.

    Panels that are narrower than a vector are read as fast only with masks of bytes.
    """
    lanes = lanes_of(kinds.total, target)
    narrow = narrowest_block(depth, block, lanes)
    return narrow if narrow >= lanes or target.has_byte_masks else block


def _blocks_of_matrix(problem: Problem, product: MatMulShape, target: Target) -> Sequence[int]:
    """Return the columns of panels to try.

    A single panel as wide as the matrix needs no copy, and is tried as well.
    """
    widths = rank_blocks(
        product.depth,
        target,
        pixels=product.rows,
        steps=product.inner,
        kind=problem.left,
        dot=problem.dot,
        fetched=product.inner,
    )
    tried = widths[: problem.widths]
    if not problem.is_laid_out and product.depth in widths[problem.widths :]:
        return (*tried, product.depth)
    return tried


def _emit_convolution(plan: Plan, node: Convolution, rewriter: Rewriter) -> Value:
    depth, block = node.filter.type.shape[0], plan.number("block")
    dot = dot_named_by(plan)
    input, bias, raised = with_unsigned_left(node, dot, rewriter)
    assert bias is not None  # convolutions have one
    joined = joins_taps(dot.group, node.group, node.dilation)
    return rewriter.emit(
        PackedConvolution(
            input,
            pack_filter(rewriter, node.filter, node.group, block, dot.group, joined=joined),
            pack_bias(rewriter, bias, node.group, block),
            depth=depth,
            **node.window.attributes,
            group=node.group,
            block=block,
            pad_value=node.pad_value + raised,
            wide=node.wide,
            predicate=node.predicate,
            plan=plan,
        )
    )


def _emit_product(plan: Plan, node: MatMul | FullyConnected, rewriter: Rewriter) -> Value:
    block, dot, (_, rhs) = plan.number("block"), dot_named_by(plan), node.factors
    lhs, bias, _ = with_unsigned_left(node, dot, rewriter)
    return rewriter.emit(
        PackedMatMul(
            lhs,
            pack_matrix(rewriter, rhs, block, dot.group),
            None if bias is None else pack_bias(rewriter, bias, 1, block),
            depth=rhs.type.shape[-1],
            block=block,
            wide=node.wide,
            predicate=node.predicate,
            plan=plan,
        )
    )
