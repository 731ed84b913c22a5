"""Drop arithmetic that changes nothing, and write the rest with the cheapest operators."""

from __future__ import annotations

import numpy as np

from glow_nb.base.types import Array
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.known import array_of, uniform
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
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rewriting import (
    Rewrite,
    Rules,
    any_of,
    keeps_type,
    named,
    number,
    rewrite_once,
    rule,
    wildcards,
)

MAX_DIVISORS = 4096
"""Constants of more elements are not looked through for powers of two."""

x, y, condition, bound, divisors, whole = wildcards("x y condition bound divisors whole")


@register_pass
def simplify_arithmetic(function: Function) -> Function:
    """Apply the identities of arithmetic that hold for every number, NaN and infinities included.

    ``x + 0``, ``x - 0``, ``x * 1``, ``x / 1`` and ``x ** 1`` are ``x`` (a negative zero may keep
    its sign); ``x * 0`` is 0 for integers only, since a float may be NaN. A bound that no number
    exceeds, a double negation and a choice between equal values are removed. Powers with a whole
    exponent become products, those with 1/2 square roots where no operand can be negative, and a
    division by powers of two a product. Matrices of floats whose sums have one term are multiplied
    element by element (a zero may have the other sign).

    ::

        %a = add(%x, %zero)       ->
        %b = pow(%a, %two)            %b = mul(%x, %x)
    """
    return rewrite_once(function, _RULES)


def _is_float(node: Node, x: Value) -> bool:
    return node.type.kind.is_float and keeps_type(node, x)


def _is_signed(node: Node, x: Value) -> bool:
    return node.type.kind in Neg.kinds and keeps_type(node, x)


def _is_positive(node: Node, x: Value) -> bool:
    return _is_float(node, x) and range_of(x)[0] >= 0


def _is_no_bound(node: Maximum | Minimum, x: Value, bound: Value) -> bool:
    """Return whether no number of the kind exceeds *bound*."""
    least, greatest = bounds_of(node.type.kind)
    known: object = uniform(bound)
    return keeps_type(node, x) and known == (least if isinstance(node, Maximum) else greatest)


@rule(Mul(x, number(0)), when=lambda node: not node.type.kind.is_float)
def _zero(node: Mul, rewriter: Rewriter) -> Value:
    return Broadcast(splat(rewriter, node.type, 0, f"{node.name}_zero"), node.type.shape)


@rule(Div(x, divisors), when=lambda node: node.type.kind.is_float)
def _multiplied(x: Value, divisors: Value, rewriter: Rewriter) -> Value | None:
    numbers = None if isinstance(x, Constant) else array_of(divisors)
    if numbers is None or not _are_powers_of_two(numbers):
        return None
    assert isinstance(divisors, Constant)
    factors = (1 / numbers.astype(np.float64)).astype(numbers.dtype)
    name = f"{divisors.name}_reciprocal"
    return Mul(x, rewriter.constant(name, factors, is_weight=divisors.is_weight))


def _are_powers_of_two(numbers: Array) -> bool:
    """Return whether all are, and moderate: to divide by one is to multiply by its inverse."""
    if not 0 < numbers.size <= MAX_DIVISORS:
        return False
    mantissas, exponents = np.frexp(np.abs(numbers.astype(np.float64)))
    return bool(np.all(mantissas == 0.5) and np.all(np.abs(exponents) <= 12))


@rule(Select(condition, x, y))
def _chosen(node: Select, condition: Value, x: Value, y: Value) -> Value | None:
    known = uniform(condition)
    taken = x if known else y
    return taken if known is not None and keeps_type(node, taken) else None


@rule(any_of(MatMul))
def _outer_product(node: MatMul) -> Value | None:
    lhs, rhs = node.factors
    are_alike = lhs.type.kind is rhs.type.kind is node.type.kind
    if lhs.type.shape[-1] != 1 or not (are_alike and node.type.kind.is_float):
        return None
    ones = (1,) * (lhs.type.rank - rhs.type.rank)
    return Mul(lhs, Reshape(rhs, (*ones, *rhs.type.shape)))


_ROUNDED = named("whole", any_of(Ceil, Floor, Round))
_RULES = Rules(
    "simplify_arithmetic",
    Rewrite(Add(x, number(0)), x, when=keeps_type),
    Rewrite(Add(x, Neg(y)), Sub(x, y)),
    Rewrite(Sub(x, number(0)), x, when=keeps_type),
    Rewrite(Sub(x, Neg(y)), Add(x, y)),
    Rewrite(Mul(x, number(1)), x, when=keeps_type),
    Rewrite(Mul(x, number(-1)), Neg(x), when=_is_signed),
    _zero,
    Rewrite(Div(x, number(1)), x, when=keeps_type),
    Rewrite(Div(number(1), x), Reciprocal(x), when=_is_float),
    _multiplied,
    Rewrite(Pow(x, number(0.5)), Sqrt(x), when=_is_positive),
    Rewrite(any_of(Pow), whole_power),
    Rewrite(any_of(Maximum, Minimum, And, Or, lhs=x, rhs=x), x),
    Rewrite(any_of(Maximum, Minimum, lhs=x, rhs=bound), x, when=_is_no_bound),
    Rewrite(And(x, number(1)), x, when=keeps_type),
    Rewrite(Or(x, number(0)), x, when=keeps_type),
    Rewrite(any_of(Ceil, Floor, Round, input=_ROUNDED), whole),
    Rewrite(Neg(Neg(x)), x),
    Rewrite(Not(Not(x)), x),
    Rewrite(Abs(Neg(x)), Abs(x)),
    Rewrite(Abs(named("whole", Abs(x))), whole),
    Rewrite(Abs(x), x, when=_is_positive),
    Rewrite(Select(condition, x, x), x, when=keeps_type),
    Rewrite(Select(Not(condition), x, y), Select(condition, y, x)),
    _chosen,
    _outer_product,
)
