"""Products of bytes with constant weights in pairs that do not saturate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from typing_extensions import override

from glow_nb.backends.cpu.algorithms.algorithm import (
    Algorithm,
    Candidate,
    register_algorithm,
)
from glow_nb.backends.cpu.algorithms.problem import Problem
from glow_nb.backends.cpu.paired_weights import emit_paired, paired_weights, steps_over_fewest
from glow_nb.backends.cpu.products import Product
from glow_nb.base.dot_instruction import INT8, PAIRED_BYTES, UINT8
from glow_nb.base.plan import Plan
from glow_nb.hlir.graph import Value
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.kernels.operators.pairings import PairedWeights
from glow_nb.kernels.products.blocking import rank_blocks
from glow_nb.kernels.products.convolution_cost import direct_cycles
from glow_nb.kernels.products.paired_convolution import PAIRED
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.target import Target

COLUMNS = 16, 24
"""Columns of a panel whose weights lie in pairs. The fewer there are, the more can be pairs: panels
of 16 and of 24 columns of ResNet50's layers take 1.10 and 1.26 times the fewest steps for sums of
64, 1.03 and 1.12 for 128, 1.005 and 1.03 for 256, 1.002 and 1.006 for 512. With less, a step of
vectors of 8 lanes shuffles bytes for a single vector of weights."""


@register_algorithm
class Paired(Algorithm):
    """Multiply pairs of unsigned bytes by pairs of weights whose products fit 16 bits."""

    name = PAIRED
    counts_weights = True
    takes_open_sizes = True

    def __init__(self) -> None:
        """Remember the pairs of the last node: they are asked for once more when it is emitted."""
        self._made: WeakKeyDictionary[Product, dict[int, PairedWeights | None]]
        self._made = WeakKeyDictionary()

    @override
    def plans(self, problem: Problem, target: Target) -> Sequence[Plan]:
        if not problem.may_pair:
            return []
        simple = problem.shape.simplified()
        widths = rank_blocks(
            simple.depth_per_group,
            target,
            pixels=simple.output[-1],
            steps=simple.steps,
            kind=UINT8,
            dot=PAIRED_BYTES,
            fetched=simple.new_inputs,
        )
        # which of these take few steps, the weights tell
        fewest, most = COLUMNS
        tried = [width for width in widths if fewest <= width <= most] or widths[:1]
        return [Plan.of(PAIRED, dot=PAIRED_BYTES.name, block=block) for block in tried]

    @override
    def cycles(self, plan: Plan, problem: Problem, target: Target) -> float:
        kinds = ProductKinds.of(UINT8, INT8, PAIRED_BYTES)
        threads = problem.threads if problem.product is None else 1  # as others of a product
        return direct_cycles(problem.shape, kinds, target, plan.number("block"), threads)

    @override
    def for_weights(self, candidate: Candidate, node: Product) -> Candidate | None:
        block = candidate.plan.number("block")
        made = self._pairs(node, block)
        if made is None:
            return None
        return replace(candidate, cycles=candidate.cycles * steps_over_fewest(node, block, made))

    @override
    def emit(self, plan: Plan, node: Product, rewriter: Rewriter) -> Value:
        pairs = self._pairs(node, plan.number("block"))
        assert pairs is not None, "the plan was found valid for the weights"
        return emit_paired(node, rewriter, plan, pairs)

    def _pairs(self, node: Product, block: int) -> PairedWeights | None:
        known = self._made.get(node)
        if known is None:  # another thread may compile another network meanwhile
            known = {}
            self._made.clear()
            self._made[node] = known
        if block not in known:
            known[block] = paired_weights(node, block)
        return known[block]
