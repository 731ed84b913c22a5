"""Convolutions whose channels are the lanes: each is convolved by itself, or with a few others."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from glow_nb.backends.cpu.algorithms.algorithm import Algorithm, register_algorithm
from glow_nb.backends.cpu.algorithms.problem import Problem
from glow_nb.backends.cpu.channel_wise_convolutions import emit_lanes, emit_steps
from glow_nb.backends.cpu.products import Product
from glow_nb.base.dot_instruction import dot_named_by
from glow_nb.base.plan import Plan
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops import Convolution
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.kernels.products.blocking import lanes_of
from glow_nb.kernels.products.channel_wise_plan import CHANNEL_WISE, suits_steps
from glow_nb.kernels.products.depthwise import DEPTHWISE, suits_lanes
from glow_nb.kernels.products.dot_choice import dots_for
from glow_nb.kernels.target import Target


@register_algorithm
class ChannelWise(Algorithm):
    """Convolve bytes of each channel in groups of neighbouring taps, which one step multiplies."""

    name = CHANNEL_WISE
    is_exclusive = True
    takes_open_sizes = True

    @override
    def plans(self, problem: Problem, target: Target) -> Sequence[Plan]:
        shape, most = problem.shape, problem.dot.group
        if problem.product is not None or shape.group == 1:
            return []
        tried = [
            dot
            for dot in dots_for(problem.left, problem.right, target)
            if 1 < dot.group <= most
            and not (dot.is_block or dot.is_float)
            and suits_steps(shape, problem.stored, dot.group, target)
        ]
        return [Plan.of(CHANNEL_WISE, dot=dot.name) for dot in tried[:1]]

    @override
    def cycles(self, plan: Plan, problem: Problem, target: Target) -> float:
        return _multiply_add_cycles(problem, target) / dot_named_by(plan).group

    @override
    def emit(self, plan: Plan, node: Product, rewriter: Rewriter) -> Value:
        assert isinstance(node, Convolution)
        return emit_steps(plan, node, rewriter)


@register_algorithm
class Depthwise(Algorithm):
    """Convolve each channel by itself, or small groups whose channels share a vector."""

    name = DEPTHWISE
    is_exclusive = True
    takes_open_sizes = True

    @override
    def plans(self, problem: Problem, target: Target) -> Sequence[Plan]:
        shape = problem.shape
        if problem.product is not None:
            return []
        is_depthwise = 1 < shape.group == shape.channels
        suits = is_depthwise or suits_lanes(shape, problem.total, target.lanes)
        return [Plan(DEPTHWISE)] if suits else []

    @override
    def cycles(self, plan: Plan, problem: Problem, target: Target) -> float:
        return _multiply_add_cycles(problem, target)

    @override
    def emit(self, plan: Plan, node: Product, rewriter: Rewriter) -> Value:
        assert isinstance(node, Convolution)
        return emit_lanes(plan, node, rewriter)


def _multiply_add_cycles(problem: Problem, target: Target) -> float:
    """Estimate the multiply-adds alone, which all threads share."""
    sums, lanes = problem.shape.multiply_adds, lanes_of(problem.total, target)
    return target.passes * sums / (target.machine.fma_per_cycle * lanes * problem.threads)
