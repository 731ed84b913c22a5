"""Compute products with few columns as few rows times the rows of the left matrix.

A product with panels of columns computes a whole vector of columns, of which few are used.
"""

from __future__ import annotations

from math import prod

from glow_nb.backends.cpu.products import PRODUCTS, Product
from glow_nb.base.size import symbols_of
from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import Add, Convolution, FullyConnected, MatMul, Reshape, Transpose
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.kernels.products.blocking import lanes_of
from glow_nb.kernels.products.convolution_cost import best_product_cycles
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.operand_cost import row_product_cycles
from glow_nb.kernels.target import Target

FLOATS = frozenset({ElementKind.FLOAT32, ElementKind.FLOAT64})


@register_pass
def columns_to_rows(
    function: Function, *, target: Target | None = None, threads: int = 1
) -> Function:
    """Multiply few rows by a transposed matrix instead of the matrix by few columns.

    That is done where it is estimated to be faster for *threads* threads of *target*, by default
    this processor::

        %y = mat_mul(%x : <4096 x 256>, %w : <256 x 2>)
        ->
        %rows = transpose(%w) {permutation = [1, 0]}         // <2 x 256>
        %t = transpose(%x) {permutation = [1, 0]}            // read as it lies
        %z = mat_mul(%rows, %t)                              // <2 x 4096>
        %y = transpose(%z) {permutation = [1, 0]}            // <4096 x 2>

    A matrix that was transposed for the product is read as it was before. Dense layers with few
    results, and pointwise convolutions to few channels, are such products, to which a bias
    is added then.
    """
    chosen = target or Target.host()

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        if not isinstance(node, PRODUCTS) or not _is_plain(node):
            return None
        if symbols_of(*node.factors[0].type.shape, *node.type.shape):
            return None  # as columns, they would be cut into panels
        input, columns = node.factors
        batch = columns.type.shape[:-2] if isinstance(node, MatMul) else ()
        *outer, inner = input.type.shape
        rows = prod(outer[len(batch) :])
        shape = MatMulShape(prod(batch), rows, inner, node.type.shape[-1])
        transposed = _already_transposed(input, len(batch))
        machine = chosen.machine
        if transposed is None:
            before, after = _cycles_along_rows(shape, node.type.kind, chosen)
            part = machine.narrow_min_gain
        else:
            saved = input.type.size_bytes if rewriter.use_count(input) == 1 else 0
            before, after = _cycles_across_rows(shape, node.type.kind, chosen, saved)
            part = machine.narrow_min_gain_transposed
        if before - after < max(machine.narrow_min_cycles * threads, part * before):
            return None
        if transposed is None:
            transposed = _transposed(rewriter.emit(Reshape(input, (*batch, rows, inner))), rewriter)
        product = rewriter.emit(MatMul(_rows(node, rewriter), transposed))
        result = rewriter.emit(Reshape(_transposed(product, rewriter), node.type.shape))
        return result if isinstance(node, MatMul) else _with_bias(node, result, rewriter)

    return rewrite(function, rule)


def _is_plain(node: Product) -> bool:
    """Return whether *node* multiplies rows of floats as they lie by a matrix."""
    matrix, columns = node.factors
    if node.type.kind not in FLOATS or columns.type.kind is not node.type.kind:
        return False
    batch = columns.type.rank - 2 if isinstance(node, MatMul) else 0
    if isinstance(matrix, Transpose) and _already_transposed(matrix, batch) is None:
        return False
    if node.predicate is not None:
        return False
    if not isinstance(node, Convolution):
        return True
    return {*node.kernel, *node.stride, node.group} == {1} and not node.is_padded


def _already_transposed(matrix: Value, batch: int) -> Value | None:
    """Return the value whose last two axes were swapped to make *matrix*, if there is one.

    Before these, it has as many axes as *batch* says.
    """
    rank = matrix.type.rank
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    if not isinstance(matrix, Transpose) or matrix.predicate is not None or rank != batch + 2:
        return None
    return matrix.input if matrix.permutation == swapped else None


def _cycles_along_rows(
    shape: MatMulShape, kind: ElementKind, target: Target
) -> tuple[float, float]:
    """Estimate a product of *shape* as it is and transposed: alike if it cannot be."""
    most = target.machine.narrow_part_of_vector * lanes_of(kind, target)
    if _is_empty(shape) or shape.depth > most:
        return 0.0, 0.0
    over = MatMulShape(shape.batch, shape.depth, shape.inner, shape.rows)
    before = best_product_cycles(shape, kind, target)
    return before, row_product_cycles(over, kind, target) + _turning_cycles(shape, target)


def _cycles_across_rows(
    shape: MatMulShape, kind: ElementKind, target: Target, saved_bytes: int
) -> tuple[float, float]:
    """Estimate a product of *shape* as it is and transposed, of a matrix that was transposed.

    Transposed, it needs no transposition, which saves a copy of *saved_bytes*.
    """
    if _is_empty(shape) or shape.depth > target.machine.narrow_columns:
        return 0.0, 0.0
    over = MatMulShape(shape.batch, shape.depth, shape.inner, shape.rows)
    before, after = (best_product_cycles(each, kind, target) for each in (shape, over))
    return (
        before + target.machine.narrow_transposed_byte_cycles * saved_bytes,
        after + _turning_cycles(shape, target),
    )


def _is_empty(shape: MatMulShape) -> bool:
    return 0 in (shape.batch, shape.rows, shape.inner, shape.depth)


def _turning_cycles(shape: MatMulShape, target: Target) -> float:
    """Estimate the transposition of the results."""
    results = shape.batch * shape.rows * shape.depth
    return target.machine.narrow_result_cycles * results if shape.depth > 1 else 0.0


def _rows(node: Product, rewriter: Rewriter) -> Value:
    """Return the columns of *node* as rows; the filter of a convolution has such rows."""
    _, columns = node.factors
    if isinstance(node, Convolution):
        return rewriter.emit(Reshape(columns, (columns.type.shape[0], columns.type.shape[-1])))
    return _transposed(columns, rewriter)


def _transposed(matrix: Value, rewriter: Rewriter) -> Value:
    """Return *matrix*, or each of several, transposed."""
    *batch, rows, columns = range(matrix.type.rank)
    return rewriter.emit(Transpose(matrix, (*batch, columns, rows)))


def _with_bias(node: FullyConnected | Convolution, product: Value, rewriter: Rewriter) -> Value:
    """Add the bias of *node* to each row of *product*."""
    ones = (1,) * (product.type.rank - 1)
    bias = rewriter.emit(Reshape(node.bias, (*ones, *node.bias.type.shape)))
    return rewriter.emit(Add(product, bias))
