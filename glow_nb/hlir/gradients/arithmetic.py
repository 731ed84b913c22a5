"""Gradients of arithmetic; where an operand is repeated, its gradient sums over the copies."""

from __future__ import annotations

from glow_nb.hlir.backward import Backward
from glow_nb.hlir.gradients.broadcasting import sum_to, summed
from glow_nb.hlir.gradients.roots import vanishes_with_gradient
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.arithmetic import (
    Add,
    And,
    BitShift,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    Div,
    Maximum,
    Minimum,
    Modulo,
    Mul,
    Or,
    Pow,
    Sub,
    Xor,
)
from glow_nb.hlir.ops.elementwise import Log, Neg, Round
from glow_nb.hlir.ops.formulas.terms import Term, where
from glow_nb.hlir.rules import OperandGradients, gradient, no_gradient


@gradient(Add)
def add_gradient(node: Add, upstream: Value, builder: Backward) -> OperandGradients:
    """``d(x + y) = dx + dy``."""
    return summed(node, builder, lhs=lambda: upstream, rhs=lambda: upstream)


@gradient(Sub)
def sub_gradient(node: Sub, upstream: Value, builder: Backward) -> OperandGradients:
    """``d(x - y) = dx - dy``; the sum over copies is negated, which is smaller."""
    return summed(
        node,
        builder,
        lhs=lambda: upstream,
        rhs=lambda: builder.emit(Neg(sum_to(builder, upstream, node.rhs.type))),
    )


@gradient(Mul)
def mul_gradient(node: Mul, upstream: Value, builder: Backward) -> OperandGradients:
    """``d(x * y) = y dx + x dy``."""
    up, x, y = builder.terms(upstream, node.lhs, node.rhs)
    return summed(node, builder, lhs=lambda: up * y, rhs=lambda: up * x)


@gradient(Div)
def div_gradient(node: Div, upstream: Value, builder: Backward) -> OperandGradients:
    """``d(x / y) = dx / y - (x / y) / y dy``; ``y * y`` might overflow."""
    up, y, quotient = builder.terms(upstream, node.rhs, node)
    return summed(node, builder, lhs=lambda: up / y, rhs=lambda: -(up * (quotient / y)))


@gradient(Pow)
def pow_gradient(node: Pow, upstream: Value, builder: Backward) -> OperandGradients:
    """``d(x ** y) = y * x ** (y - 1) dx + x ** y * log(x) dy``.

    As in PyTorch, the first is 0 where y is 0, also for ``x = 0``; the second is 0 where x is 0
    and y is not negative, and NaN where x is negative. For y between 0 and 1, the first is infinite
    where x is 0; it is 0 instead if x is a sum of powers, of which this is the norm.
    """
    up, x, y, power = builder.terms(upstream, node.lhs, node.rhs, node)

    def base() -> Term:
        if not vanishes_with_gradient(node.lhs):
            lower = builder.term(builder.emit(Pow(node.lhs, (y - 1).value)))
            return where(y.equals(0), 0, up * (y * lower))
        is_root = x.equals(0) & (y > 0) & (y < 1)
        nonzero = where(is_root, 1, x)  # the next derivative is finite, too
        lower = builder.term(builder.emit(Pow(nonzero.value, (y - 1).value)))
        return where(is_root, 0, where(y.equals(0), 0, up * (y * lower)))

    def exponent() -> Term:
        return up * where(x.equals(0) & (y >= 0), 0, power * x.apply(Log))

    return summed(node, builder, lhs=base, rhs=exponent)


@gradient(Maximum, Minimum)
def extreme_gradient(
    node: Maximum | Minimum, upstream: Value, builder: Backward
) -> OperandGradients:
    """All goes to the operand that is chosen; as in PyTorch, half to each where they are equal."""
    up, x, y = builder.terms(upstream, node.lhs, node.rhs)
    shared = where(x.equals(y), up * 0.5, up)
    first, second = (x, y) if isinstance(node, Maximum) else (y, x)
    return summed(
        node,
        builder,
        lhs=lambda: where(first < second, 0, shared),
        rhs=lambda: where(first > second, 0, shared),
    )


@gradient(Modulo)
def modulo_gradient(node: Modulo, upstream: Value, builder: Backward) -> OperandGradients:
    """``d(x mod y) = dx - n dy`` with the whole number ``n = (x - x mod y) / y``."""
    up, x, y, rest = builder.terms(upstream, node.lhs, node.rhs, node)
    return summed(
        node, builder, lhs=lambda: upstream, rhs=lambda: -(up * ((x - rest) / y).apply(Round))
    )


no_gradient(
    "its results are whole numbers or truth values",
    And,
    BitShift,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    Or,
    Xor,
)
