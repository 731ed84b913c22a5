"""Choose the packed form of convolutions and matrix products (paper 5.3, Figure 6)."""

from __future__ import annotations

import math

from glow_nb.backends.cpu.algorithms import Candidate, Problem, algorithm_of
from glow_nb.backends.cpu.algorithms.candidates import (
    CostModel,
    all_valid,
    candidates_for,
)
from glow_nb.backends.cpu.algorithms.choice import allowed_algorithms
from glow_nb.backends.cpu.algorithms.selection import Selection, Tuner
from glow_nb.backends.cpu.options import Choice
from glow_nb.backends.cpu.products import PRODUCTS, Product
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.kernels.target import Target


@register_pass
def select_packed_operators(
    function: Function,
    *,
    target: Target | None = None,
    winograd: str = "auto",
    strassen: str = "auto",
    constant_growth: float = math.inf,
    tuner: Tuner | None = None,
    threads: int = 1,
    plan: Choice = None,
    is_whole: bool = True,
    cost_model: CostModel | None = None,
) -> Function:
    """Lay filters and right-hand sides out in panels as wide as the kernels' register tiles.

    A convolution is done by Winograd's algorithm where that is estimated to be faster for *threads*
    threads, unless *winograd* is "off"; if it is "guarded", constant filters alone are
    transformed, and what is not finite is summed up directly. A product with a constant matrix, and
    a pointwise convolution with many channels, is done by Strassen's algorithm where that is
    estimated to be faster, unless *strassen* is "off". With both, constants take
    at most *constant_growth* times the bytes of the weights. *target* is the processor, by default
    this one. *plan* forces or forbids algorithms for layers of *function*, or also of others unless
    it *is_whole*. *cost_model* estimates instead of the algorithms' own. With a
    *tuner*, measurements decide instead of estimates. Weights of 8 and 16 bits are laid out in
    groups of neighbours that the processor multiplies at once, if it can.
    Other integers of 8 and 16 bits are converted to int32 before, but for right matrices and
    convolutions of single channels. Constant 8-bit weights lie in pairs that do not saturate
    where that is faster, and enough of them can be pairs.

    ::

        %y = convolution(%x, %w : <64 x 3 x 3 x 32>, %b)
        ->
        %w_panels = ... pad, reshape and transpose of %w     // <1 x 4 x 3 x 3 x 32 x 16>
        %y = packed_convolution(%x, %w_panels, %b_panels) {block = 16, ...}
        or
        %u = winograd_filter(%w_panels) {tile = [4, 4], ...}      // <1 x 4 x 6 x 6 x 32 x 16>
        %y = winograd_convolution(%x, %u, %b_panels) {tile = [4, 4], block = 16, ...}

    Convolutions of bytes are done so where their constant weights tell that it is exact; their
    kernels transform the filter.

    A right run-time matrix is read as it lies where a copy would take longer::

        %t = transpose(%keys : <100 x 64>) {permutation = [1, 0]}
        %y = mat_mul(%rows : <2 x 64>, %t)
        ->
        %y = unpacked_mat_mul(%rows, %keys, none) {lhs_order = [0, 1], rhs_order = [1, 0]}
    """
    selection = Selection(
        function,
        target or Target.host(),
        winograd=winograd,
        strassen=strassen,
        growth=constant_growth,
        choice=plan,
        is_whole=is_whole,
        cost_model=cost_model,
        threads=threads,
        tuner=tuner,
    )

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        assert isinstance(node, PRODUCTS)
        made = selection.plan(node)
        return algorithm_of(made).emit(made, node, rewriter)

    return rewrite(function, rule, *PRODUCTS)


def candidates_of(
    node: Product,
    target: Target,
    winograd: str,
    blocks: int = 1,
    threads: int = 1,
    *,
    strassen: str = "auto",
) -> list[Candidate]:
    """Return the candidates for *node*, that with the least estimated time first.

    Args:
        node: A convolution or a matrix product.
        target: The processor.
        winograd: "auto", "guarded" or "off".
        blocks: The number of panel widths to try in each algorithm.
        threads: Cores that share a convolution, or a product by Strassen's algorithm; direct
            products are ranked alike for any number.
        strassen: "auto" or "off".
    """
    problem = Problem.of(node, target, threads=threads, widths=blocks)
    allowed = allowed_algorithms(node, winograd, strassen)
    return all_valid(node, candidates_for(problem, target, allowed))
