"""Drop arithmetic that changes nothing, and write the rest with the cheapest operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glow_nb.base.types import Array
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.known import array_of, is_uniform, uniform
from glow_nb.hlir.ops import (
    Abs,
    Add,
    And,
    Broadcast,
    Ceil,
    Div,
    Floor,
    MatMul,
    Maximum,
    Minimum,
    Mul,
    Neg,
    Not,
    Or,
    Pow,
    Reciprocal,
    Reshape,
    Round,
    Select,
    Sqrt,
    Sub,
)
from glow_nb.hlir.ops.families import bounds_of, splat
from glow_nb.hlir.optimize.expand_powers import whole_power
from glow_nb.hlir.optimize.ranges import range_of
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

MAX_DIVISORS = 4096
"""Constants of more elements are not looked through for powers of two."""


@register_pass
def simplify_arithmetic(function: Function) -> Function:
    """Apply the identities of arithmetic that hold for every number, NaN and infinities included.

    ``x + 0``, ``x - 0``, ``x * 1``, ``x / 1`` and ``x ** 1`` are ``x`` (a negative zero may keep
    its sign); ``x * 0`` is 0 for integers only, since a float may be NaN. A bound that no number
    exceeds, a double negation and a choice between equals go. Powers with a whole exponent become
    products, those with 1/2 square roots where no operand can be negative, and a division by
    powers of two a product. Matrices of floats whose sums have one term are multiplied element by
    element (a zero may have the other sign).

    ::

        %a = add(%x, %zero)       ->
        %b = pow(%a, %two)            %b = mul(%x, %x)
    """
    return rewrite(function, _rule, *_RULES)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    simplify = _RULES.get(type(node))
    if simplify is None or node.predicate is not None:
        return None
    return simplify(node, rewriter)


def _kept(node: Node, value: Value) -> Value | None:
    """Return *value* if it can stand for *node*: if nothing was broadcast."""
    return value if value.type == node.type else None


def _add(node: Add, rewriter: Rewriter) -> Replacement:
    if is_uniform(node.rhs, 0):
        return _kept(node, node.lhs)
    if is_uniform(node.lhs, 0):
        return _kept(node, node.rhs)
    match node:
        case (
            Add(lhs=value, rhs=Neg(input=other, predicate=None))
            | Add(lhs=Neg(input=other, predicate=None), rhs=value)
        ):
            return rewriter.emit(Sub(value, other))
    return None


def _sub(node: Sub, rewriter: Rewriter) -> Replacement:
    if is_uniform(node.rhs, 0):
        return _kept(node, node.lhs)
    match node:
        case Sub(lhs=value, rhs=Neg(input=other, predicate=None)):
            return rewriter.emit(Add(value, other))
    return None


def _mul(node: Mul, rewriter: Rewriter) -> Replacement:
    for constant, value in ((node.rhs, node.lhs), (node.lhs, node.rhs)):
        number = uniform(constant)
        if number is None:
            continue
        if number == 1:
            return _kept(node, value)
        if number == 0 and not node.type.kind.is_float:
            zero = splat(rewriter, node.type, 0, f"{node.name}_zero")
            return rewriter.emit(Broadcast(zero, node.type.shape))
        if number == -1 and value.type == node.type and value.type.kind in Neg.kinds:
            return rewriter.emit(Neg(value))
    return None


def _div(node: Div, rewriter: Rewriter) -> Replacement:
    if is_uniform(node.rhs, 1):
        return _kept(node, node.lhs)
    if not node.type.kind.is_float:
        return None
    if is_uniform(node.lhs, 1) and node.rhs.type == node.type:
        return rewriter.emit(Reciprocal(node.rhs))
    if isinstance(node.lhs, Constant):
        return None
    divisors = array_of(node.rhs)
    if divisors is None or not _are_powers_of_two(divisors):
        return None
    factors = (1 / divisors.astype(np.float64)).astype(divisors.dtype)
    return rewriter.emit(Mul(node.lhs, rewriter.constant(f"{node.rhs.name}_reciprocal", factors)))


def _are_powers_of_two(numbers: Array) -> bool:
    """Return whether all are, and moderate: to divide by one is to multiply by its inverse."""
    if not 0 < numbers.size <= MAX_DIVISORS:
        return False
    mantissas, exponents = np.frexp(np.abs(numbers.astype(np.float64)))
    return bool(np.all(mantissas == 0.5) and np.all(np.abs(exponents) <= 12))


def _pow(node: Pow, rewriter: Rewriter) -> Replacement:
    if is_uniform(node.rhs, 0.5) and node.lhs.type == node.type and node.type.kind.is_float:
        return rewriter.emit(Sqrt(node.lhs)) if range_of(node.lhs)[0] >= 0 else None
    return whole_power(node, rewriter)


def _maximum(node: Maximum, rewriter: Rewriter) -> Replacement:
    return _without_bound(node, bounds_of(node.type.kind)[0])


def _minimum(node: Minimum, rewriter: Rewriter) -> Replacement:
    return _without_bound(node, bounds_of(node.type.kind)[1])


def _without_bound(node: Maximum | Minimum, bound: Any) -> Replacement:
    if node.lhs is node.rhs or uniform(node.rhs) == bound:
        return _kept(node, node.lhs)
    return _kept(node, node.rhs) if uniform(node.lhs) == bound else None


def _logic(node: And | Or, rewriter: Rewriter) -> Replacement:
    """``x and true`` and ``x or false`` are ``x``, as is ``x`` with itself."""
    if node.lhs is node.rhs:
        return node.lhs
    neutral = isinstance(node, And)
    for constant, value in ((node.rhs, node.lhs), (node.lhs, node.rhs)):
        if uniform(constant) is neutral:
            return _kept(node, value)
    return None


def _whole_numbers(node: Ceil | Floor | Round, rewriter: Rewriter) -> Replacement:
    """What is rounded already stays."""
    match node.input:
        case Ceil(predicate=None) | Floor(predicate=None) | Round(predicate=None):
            return node.input
    return None


def _neg(node: Neg, rewriter: Rewriter) -> Replacement:
    match node.input:
        case Neg(input=value, predicate=None):
            return value
    return None


def _not(node: Not, rewriter: Rewriter) -> Replacement:
    match node.input:
        case Not(input=value, predicate=None):
            return value
    return None


def _abs(node: Abs, rewriter: Rewriter) -> Replacement:
    match node.input:
        case Neg(input=value, predicate=None):
            return rewriter.emit(Abs(value))
        case Abs(predicate=None) as value:
            return value
    is_positive = node.type.kind.is_float and range_of(node.input)[0] >= 0
    return node.input if is_positive else None


def _select(node: Select, rewriter: Rewriter) -> Replacement:
    if node.lhs is node.rhs:
        return _kept(node, node.lhs)
    match node.condition:
        case Not(input=opposite, predicate=None):
            return rewriter.emit(Select(opposite, node.rhs, node.lhs))
    condition = uniform(node.condition)
    if condition is None:
        return None
    return _kept(node, node.lhs if condition else node.rhs)


def _mat_mul(node: MatMul, rewriter: Rewriter) -> Replacement:
    lhs, rhs = node.factors
    are_alike = lhs.type.kind is rhs.type.kind is node.type.kind
    if lhs.type.shape[-1] != 1 or not (are_alike and node.type.kind.is_float):
        return None
    ones = (1,) * (lhs.type.rank - rhs.type.rank)
    return rewriter.emit(Mul(lhs, rewriter.emit(Reshape(rhs, (*ones, *rhs.type.shape)))))


_RULES: dict[type[Node], Callable[[Any, Rewriter], Replacement]] = {
    Abs: _abs,
    Add: _add,
    And: _logic,
    Ceil: _whole_numbers,
    Div: _div,
    Floor: _whole_numbers,
    MatMul: _mat_mul,
    Maximum: _maximum,
    Minimum: _minimum,
    Mul: _mul,
    Neg: _neg,
    Not: _not,
    Or: _logic,
    Pow: _pow,
    Round: _whole_numbers,
    Select: _select,
    Sub: _sub,
}
