"""Choose the packed form of convolutions and matrix products (paper 5.3, Figure 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol, TypeGuard

from glow_nb.backends.cpu.channel_wise_convolutions import (
    emit_channel_wise,
    is_channel_wise,
)
from glow_nb.backends.cpu.emit_candidates import emit_candidate
from glow_nb.backends.cpu.integer_products import (
    factor_kinds,
    widened,
)
from glow_nb.backends.cpu.paired_weights import (
    Pairing,
    may_pair,
    paired_weights,
    with_its_steps,
)
from glow_nb.backends.cpu.products import PRODUCTS, Product, shape_of
from glow_nb.backends.cpu.right_ways import is_right
from glow_nb.backends.cpu.strassen_room import matrices_with_room
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.ops import Convolution, FullyConnected, MatMul, Transpose
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.kernels.operators import UnpackedMatMul
from glow_nb.kernels.products.convolution_cost import (
    convolution_candidates,
    product_candidates,
)
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.dot_form import PAIRED_BYTES, UINT8
from glow_nb.kernels.products.matmul import MatMulShape
from glow_nb.kernels.products.matrix_layout import MatrixLayout
from glow_nb.kernels.products.operand_cost import suits_in_place
from glow_nb.kernels.products.product_cost import Candidate
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.target import Target
from glow_nb.llir.strides import contiguous_strides
from glow_nb.schema import attributes_of, operands_of


class Tuner(Protocol):
    """Somebody who knows which way to compute a product is the fastest."""

    def choose(
        self, nodes: Sequence[Product], winograd: str, strassen: str
    ) -> Mapping[str, Candidate]:
        """Return the choice for *nodes* by their :func:`product_key`; it may leave some out."""
        ...


WIDTHS_TO_TRY = 3
"""Widths of panels to estimate: those of the fewest multiply-adds may not divide well among
threads, may be padded at run time, or may cut sums into more inner blocks."""


@register_pass
def select_packed_operators(
    function: Function,
    *,
    target: Target | None = None,
    winograd: str = "auto",
    strassen: str = "auto",
    tuner: Tuner | None = None,
    threads: int = 1,
) -> Function:
    """Lay filters and right-hand sides out in panels as wide as the kernels' register tiles.

    A convolution is done by Winograd's algorithm where that is estimated to be faster for so many
    *threads*, unless *winograd* is "off"; if it is "guarded", constant filters alone are
    transformed, and what is not finite is summed up directly. A product with a constant matrix, and
    a convolution of single pixels with many channels, is done by Strassen's algorithm where that is
    estimated to be faster, unless *strassen* is "off". *target* is the processor, by default this
    one. With a *tuner*, measurements decide in place of estimates. Weights of 8 and 16 bits are
    laid out in groups of neighbours that the processor multiplies at once, if it can. Other
    integers of 8 and 16 bits are converted to int32 before, but for right matrices and convolutions
    of single channels. Constant weights of 8 bits lie in pairs that do not saturate where that is
    faster, and enough of them can be pairs.

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

    A right matrix that comes at run time is read as it lies where a copy would take longer::

        %t = transpose(%keys : <100 x 64>) {permutation = [1, 0]}
        %y = mat_mul(%rows : <2 x 64>, %t)
        ->
        %y = unpacked_mat_mul(%rows, %keys, none) {lhs_order = [0, 1], rhs_order = [1, 0]}
    """
    chosen = target or Target.host()
    products = [node for node in function if isinstance(node, PRODUCTS)]
    packed = [
        node
        for node in products
        if not is_channel_wise(node, chosen) and not is_read_in_place(node, chosen)
    ]
    picks = tuner.choose(packed, winograd, strassen) if tuner else {}
    pairing = lru_cache(maxsize=4)(paired_weights)  # asked for to choose a width, and to emit it

    def estimated(node: Product) -> Sequence[Candidate]:
        return _estimated_ways(node, chosen, winograd, strassen, WIDTHS_TO_TRY, threads)

    wanted = [
        node.factors[1]
        for node in packed
        if isinstance(node.factors[1], Constant)
        and (picks.get(product_key(node)) or estimated(node)[0]).is_strassen
    ]
    has_room = matrices_with_room(wanted)

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        assert isinstance(node, PRODUCTS)
        if is_channel_wise(node, chosen):
            return emit_channel_wise(node, rewriter, chosen)
        if is_read_in_place(node, chosen):
            wide = widened(node, rewriter)
            assert not isinstance(wide, Convolution)
            return _emit_unpacked(wide, rewriter)
        pick = picks.get(product_key(node))
        may_grow = node.factors[1] in has_room
        is_too_large = pick is not None and pick.is_strassen and not may_grow
        if pick is None or is_too_large or _for_weights(node, pick, pairing) is None:
            ways = [way for way in estimated(node) if may_grow or not way.is_strassen]
            pick = _first_right(node, ways, pairing)
        return emit_candidate(node, rewriter, pick, guarded=winograd == "guarded", pairing=pairing)

    return rewrite(function, rule, *PRODUCTS)


def is_read_in_place(node: Product, target: Target) -> TypeGuard[MatMul | FullyConnected]:
    """Return whether *node* is a product whose right matrix is not laid out in panels before.

    It comes at run time, and the kernel reads it where it lies, or copies it on the way.
    """
    if isinstance(node, Convolution) or factor_kinds(node, target)[1].factors > 1:
        return False
    (lhs, lhs_order), (rhs, rhs_order) = _as_they_lie(node)
    if isinstance(rhs, Constant):
        return False
    product = UnpackedProduct.of_types(lhs.type, rhs.type, lhs_order, rhs_order)
    return suits_in_place(product, ProductKinds.of(lhs.type.kind, rhs.type.kind), target)


def candidates_of(
    node: Product,
    target: Target,
    winograd: str,
    blocks: int = 1,
    threads: int = 1,
    *,
    strassen: str = "auto",
) -> list[Candidate]:
    """Return the ways to compute *node*, that with the least estimated time first.

    Args:
        node: A convolution that is not channel-wise, or a matrix product.
        target: The processor.
        winograd: "auto", "guarded" or "off".
        blocks: How many widths of panels to try in each way.
        threads: Cores that share a convolution, or a product by Strassen's algorithm; direct
            products are ranked alike for any number.
        strassen: "auto" or "off".
    """
    ways = _estimated_ways(node, target, winograd, strassen, blocks, threads)
    seen = (_for_weights(node, way, paired_weights) for way in ways)
    right = [way for way in seen if way is not None]
    if any(way.is_paired for way in right):
        right.sort(key=lambda way: way.cycles)
    return right


def _estimated_ways(
    node: Product,
    target: Target,
    winograd: str,
    strassen: str,
    blocks: int,
    threads: int,
) -> Sequence[Candidate]:
    """Return the ways to compute *node*, whatever its weights are."""
    kind, form = factor_kinds(node, target)
    if isinstance(node, Convolution):
        shape, is_constant = shape_of(node), isinstance(node.filter, Constant)
        ways = convolution_candidates(
            shape,
            kind,
            target,
            form=form,
            winograd=winograd == "auto" or (winograd == "guarded" and is_constant),
            strassen=strassen == "auto" and is_constant,
            blocks=blocks,
            threads=threads,
            is_packed=is_constant,
        )
    else:
        _, matrix = node.factors
        # a transpose writes panels instead; groups of factors are laid out in any case
        is_laid_out = isinstance(matrix, (Constant, Transpose)) or form.factors > 1
        product = _product_shape(node)
        ways = product_candidates(
            product,
            kind,
            target,
            form=form,
            strassen=strassen == "auto" and isinstance(matrix, Constant),
            blocks=blocks,
            threads=threads,
            is_laid_out=is_laid_out,
        )
        rows = (1, product.batch * product.rows, product.inner)
        shape = ConvolutionShape.of(rows, product.depth, (1,), (0, 0))
        threads = 1  # as those ways are estimated
    if not may_pair(node, target):
        return ways
    more = convolution_candidates(
        shape, UINT8, target, form=PAIRED_BYTES, winograd=False, threads=threads
    )
    return sorted((*ways, *more), key=lambda way: way.cycles)


def _first_right(node: Product, ways: Sequence[Candidate], pairing: Pairing) -> Candidate:
    """Return the first of *ways* that is right for the weights of *node*.

    Of ways in pairs it is the fastest, as they come in the order of the fewest steps.
    """
    first: Candidate | None = None
    for way in ways:
        if first is not None and way.cycles >= first.cycles:
            break
        seen = _for_weights(node, way, pairing)
        if seen is not None and (first is None or seen.cycles < first.cycles):
            first = seen
            if not way.is_paired:
                break
    assert first is not None, f"there is no way to compute {node!r}"
    return first


def _for_weights(node: Product, way: Candidate, pairing: Pairing) -> Candidate | None:
    """Return *way* as it is for the weights of *node*, which *pairing* may pair.

    None if it is not right for them.
    """
    if way.is_paired:
        return with_its_steps(node, way, pairing)
    return way if is_right(node, way) else None


def product_key(node: Product) -> str:
    """Return text that is the same for nodes whose kernels have the same choice."""
    operands = [value for value in operands_of(node) if isinstance(value, Value)]
    types = [f"{value.type}{' constant' * isinstance(value, Constant)}" for value in operands]
    return f"{node.opcode}({', '.join(types)}) {attributes_of(node)}"


def _product_shape(node: MatMul | FullyConnected) -> MatMulShape:
    lhs, rhs = node.factors
    return MatMulShape.of(lhs.type.shape, rhs.type.shape[-1], is_batched=rhs.type.rank > 2)


Operand = tuple[Value, tuple[int, ...]]
"""A value, and the order in which a kernel takes its axes."""


def _as_it_lies(matrix: Value, *, evenly: bool = True) -> Operand:
    """Return the value and the order of its axes that a kernel reads as *matrix*.

    The value is what is transposed, if its last axis becomes that of rows or columns, and *matrix*
    itself otherwise. If *evenly*, matrices whose rows are contiguous must lie at equal distances.
    """
    rank = matrix.type.rank
    if isinstance(matrix, Transpose) and matrix.predicate is None:
        shape, order = matrix.input.type.shape, matrix.permutation
        layout = MatrixLayout.of(shape, contiguous_strides(shape), order)
        fits = layout.is_even or not evenly
        if order[-2] == rank - 1 or (order[-1] == rank - 1 and fits):
            return matrix.input, order
    return matrix, tuple(range(rank))


def _as_they_lie(node: MatMul | FullyConnected) -> tuple[Operand, Operand]:
    """Return the operands of *node* that a kernel reads, with the orders of their axes."""
    left, right = node.factors
    rhs, rhs_order = _as_it_lies(right)
    lhs, lhs_order = _as_it_lies(left, evenly=rhs_order[-1] == rhs.type.rank - 1)
    if lhs_order[-1] != left.type.rank - 1:  # the sums do not run along the last axis
        lhs, lhs_order = left, tuple(range(left.type.rank))
    return (lhs, lhs_order), (rhs, rhs_order)


def _emit_unpacked(node: MatMul | FullyConnected, rewriter: Rewriter) -> Value:
    bias = node.bias if isinstance(node, FullyConnected) else None
    (lhs, lhs_order), (rhs, rhs_order) = _as_they_lie(node)
    return rewriter.emit(
        UnpackedMatMul(
            lhs, rhs, bias, lhs_order=lhs_order, rhs_order=rhs_order, predicate=node.predicate
        )
    )
