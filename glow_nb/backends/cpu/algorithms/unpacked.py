"""Matrix products whose right matrix comes at run time and is not laid out in panels before."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from glow_nb.backends.cpu.algorithms.algorithm import Algorithm, register_algorithm
from glow_nb.backends.cpu.algorithms.problem import Problem
from glow_nb.backends.cpu.integer_products import widened
from glow_nb.backends.cpu.operand_layouts import operands_as_they_lie
from glow_nb.backends.cpu.products import Product
from glow_nb.base.plan import Plan
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops import Convolution, FullyConnected
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.kernels.operators import UnpackedMatMul
from glow_nb.kernels.products.operand_cost import in_place_cycles, suits_in_place
from glow_nb.kernels.target import Target

UNPACKED = "unpacked"
"""The algorithm that reads a matrix where it lies, sweeps it, or copies panels to scratch.

Which of these the kernel does depends on how operands lie in the end, and is planned then
(:mod:`glow_nb.kernels.products.unpacked_matmul`)."""


@register_algorithm
class Unpacked(Algorithm):
    """Multiply by a run-time matrix as it came."""

    name = UNPACKED
    is_exclusive = True
    takes_open_sizes = True

    @override
    def plans(self, problem: Problem, target: Target) -> Sequence[Plan]:
        product, kinds = problem.in_place, problem.in_place_kinds
        if product is None or kinds is None:
            return []
        # there are no panels of a number that only the run knows
        if not problem.matrix_is_open and not suits_in_place(product, kinds, target):
            return []
        return [Plan(UNPACKED)]

    @override
    def cycles(self, plan: Plan, problem: Problem, target: Target) -> float:
        assert problem.in_place is not None, "it has plans for matrices alone"
        assert problem.in_place_kinds is not None
        return in_place_cycles(problem.in_place, problem.in_place_kinds, target)

    @override
    def emit(self, plan: Plan, node: Product, rewriter: Rewriter) -> Value:
        wide = widened(node, rewriter)
        assert not isinstance(wide, Convolution)
        bias = wide.bias if isinstance(wide, FullyConnected) else None
        (lhs, lhs_order), (rhs, rhs_order) = operands_as_they_lie(wide)
        return rewriter.emit(
            UnpackedMatMul(
                lhs,
                rhs,
                bias,
                lhs_order=lhs_order,
                rhs_order=rhs_order,
                wide=node.wide,
                predicate=wide.predicate,
                plan=plan if plan.settings else None,
            )
        )
