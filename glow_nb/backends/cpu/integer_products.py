"""How products of integers of 8 and 16 bits are brought into a form that the kernels multiply fast.

Weights are laid out in groups of neighbouring factors where the processor multiplies such groups
(:mod:`glow_nb.base.dot_instruction`). Where it multiplies unsigned bytes by signed ones only,
signed left bytes are raised by 128, and the sums lowered by as much, which constant weights tell.
"""

from __future__ import annotations

from math import prod

import numpy as np

from glow_nb.backends.cpu.products import Product, shape_of
from glow_nb.base.dot_instruction import INT8, SINGLE, UINT8, DotInstruction
from glow_nb.base.size import hinted, symbols_of
from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops import (
    Add,
    ConvertTo,
    Convolution,
    MatMul,
    Mul,
    ReduceSum,
    Sub,
    Transpose,
)
from glow_nb.hlir.ops.families import SHORT_INTEGERS
from glow_nb.hlir.ops.quantization import BYTE_SHIFT
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.dot_choice import dots_for, matrix_dot_for
from glow_nb.kernels.products.matrix_rows import row_groups
from glow_nb.kernels.products.product_nest import run_of
from glow_nb.kernels.target import Target


def factor_kinds(node: Product, target: Target) -> tuple[ElementKind, DotInstruction]:
    """Return the kind that the left elements of *node* are multiplied as, and in which form."""
    left, right = (factor.type.kind for factor in node.factors)
    single = left if node.wide else node.type.kind
    if not _pays_to_group(node, target):
        return single, SINGLE

    def best(kind: ElementKind) -> DotInstruction:
        found = dots_for(kind, right, target)
        return next(dot for dot in found if dot.fits(_run_of(node, dot)))

    dot = best(left)
    if left is INT8 and dot.group > 1 and has_known_sums(node):
        unsigned = best(UINT8)
        left, dot = (UINT8, unsigned) if unsigned.group > dot.group else (left, dot)
    return (single if dot.group == 1 else left), dot


def matrix_dot_of(node: Product, target: Target) -> DotInstruction | None:
    """Return what multiplies the factors of *node* in matrix registers, None if nothing does."""
    left, right = (factor.type.kind for factor in node.factors)
    dot = matrix_dot_for(left, right, target)
    if dot is None or not _pays_to_group(node, target):
        return None
    if isinstance(node, Convolution):
        shape = shape_of(node).simplified()
    else:
        rows, inner = node.factors[0].type.shape[-2:]
        shape = ConvolutionShape.of((1, rows, inner), 1, (1,), (0, 0))
    return None if row_groups(shape, dot.group) is None else dot


def _run_of(node: Product, dot: DotInstruction) -> int:
    """Return the neighbours of a sum of *node* that groups of *dot* are made of."""
    if isinstance(node, Convolution):
        return run_of(shape_of(node), dot.group)
    return node.factors[0].type.shape[-1]


def _pays_to_group(node: Product, target: Target) -> bool:
    """Return whether what *node* saves is more than to lay its weights out takes, if a run does."""
    left, right = node.factors
    if isinstance(node, Convolution) or isinstance(right, Constant):
        return True
    if symbols_of(*right.type.shape[-2:]):
        return False  # there are no panels of a number that only the run knows
    outer = left.type.shape[:-1] if right.type.rank == 2 else left.type.shape[-2:-1]
    return hinted(prod(outer)) >= target.machine.integer_min_rows


def has_known_sums(node: Product) -> bool:
    """Return whether one bias for all rows can hold the sums of constant weights."""
    weights = node.factors[1]
    is_shared = isinstance(node, Convolution) or weights.type.rank == 2
    return is_shared and isinstance(weights, Constant)


def widened(node: Product, rewriter: Rewriter) -> Product:
    """Return *node* with its left operand, of a convolution with both, widened to the sums' kind.

    A kernel takes the left elements one by one, and each with all columns of a panel: to widen them
    there takes as many operations as half of the products. Right elements are widened once for each
    tile of rows, which is faster for products of few rows; convolutions have many pixels.
    """
    factors = node.factors if isinstance(node, Convolution) else node.factors[:1]
    wide = {
        value: _converted(value, node.type.kind, rewriter)
        for value in factors
        if value.type.kind in SHORT_INTEGERS
    }
    return node.map_operands(lambda value: wide.get(value, value))


def _converted(value: Value, kind: ElementKind, rewriter: Rewriter) -> Value:
    """Return *value* as *kind*; what is transposed is converted before, to be read as it lies."""
    match value:
        case Transpose(input=source, permutation=order, predicate=None):
            return rewriter.emit(Transpose(rewriter.emit(ConvertTo(source, kind)), order))
    return rewriter.emit(ConvertTo(value, kind))


def with_unsigned_left(
    node: Product, dot: DotInstruction, rewriter: Rewriter
) -> tuple[Value, Value | None, int]:
    """Return the left operand of *node* as *dot* can multiply it, its bias, and a shift.

    The shift is what was added to the elements: 128 to signed bytes that must be unsigned. The bias
    makes up for that; None stands for zeros.
    """
    left, weights = node.factors
    bias = None if isinstance(node, MatMul) else node.bias
    if left.type.kind is not INT8 or not dot.left or INT8 in dot.left:
        return left, bias, 0
    axes = tuple(range(1, weights.type.rank)) if isinstance(node, Convolution) else (0,)
    return _raised(left, rewriter), _lowered(bias, weights, axes, rewriter), BYTE_SHIFT


def _raised(value: Value, rewriter: Rewriter) -> Value:
    """Emit signed bytes plus 128 as unsigned bytes."""
    unsigned = rewriter.emit(ConvertTo(value, UINT8))  # the same bits
    shift = np.full((1,) * value.type.rank, BYTE_SHIFT, np.uint8)
    return rewriter.emit(Add(unsigned, rewriter.constant("shift", shift)))


def _lowered(
    bias: Value | None, weights: Value, axes: tuple[int, ...], rewriter: Rewriter
) -> Value:
    """Emit *bias*, or zeros, less 128 times the sums of *weights* over *axes*."""
    wide = rewriter.emit(ConvertTo(weights, ElementKind.INT32))
    sums = rewriter.emit(ReduceSum(wide, axes=axes, keep_dims=False))
    shift = rewriter.constant("shift", np.full(1, BYTE_SHIFT, np.int32))
    lift: Value = rewriter.emit(Mul(sums, shift))
    if bias is None:
        bias = rewriter.constant("zeros", np.zeros(lift.type.shape, np.int32))
    return rewriter.emit(Sub(bias, lift))
