"""Powers with a constant exponent as products, reciprocals and square roots."""

from __future__ import annotations

import math
from collections.abc import Callable

from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.known import uniform
from glow_nb.hlir.ops import Abs, Broadcast, ConvertTo, Equal, Mul, Pow, Reciprocal, Select, Sqrt
from glow_nb.hlir.ops.families import splat
from glow_nb.hlir.optimize.ranges import range_of
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

MAX_EXPONENT = 8
"""Powers of floats with larger exponents stay: products round once for each factor."""
_MAX_WHOLE_EXPONENT = 64
"""Integers wrap, in whichever order they are multiplied: only the number of products counts."""
_NARROW = (ElementKind.FLOAT16, ElementKind.BFLOAT16)


@register_pass
def expand_powers(function: Function) -> Function:
    """Write powers with a constant multiple of 1/4, up to 8, as products and square roots.

    The root of a negative number is NaN, as its power is; but that of minus infinity is infinite,
    and that of -0.0 has no sign. Powers of 16-bit floats are computed in ``float32`` and rounded
    once. Derivatives of the products need not be finite where those of a power are, so this is for
    inference; ``simplify_arithmetic`` handles whole exponents.

    ::

        %y = pow(%x, %three_halves)    ->    %r = sqrt(%x)
                                             %y = mul(%x, %r)
    """

    def rule(node: Pow, rewriter: Rewriter) -> Replacement:
        exponent = _exponent_of(node)
        if exponent is None or not node.type.kind.is_float or node.predicate is not None:
            return None
        if exponent.is_integer() or not (exponent * 4).is_integer():
            return None
        return _in_kind(node, rewriter, lambda base: _power(node, base, exponent, rewriter))

    return rewrite(function, rule, Pow)


def whole_power(node: Pow, rewriter: Rewriter) -> Value | None:
    """Return the power *node* as products if its exponent is a whole number, else None.

    That of a float is at most 8, that of an integer at most 64 and not negative.
    """
    exponent = _exponent_of(node)
    if exponent is None or not exponent.is_integer():
        return None
    if exponent == 0:
        one = splat(rewriter, node.type, 1, f"{node.name}_one")
        return rewriter.emit(Broadcast(one, node.type.shape))
    if exponent == 1:
        return node.lhs
    if exponent < 0 and not node.type.kind.is_float:
        return None
    return _in_kind(node, rewriter, lambda base: _product(base, int(exponent), rewriter))


def _exponent_of(node: Pow) -> float | None:
    """Return the exponent of *node* if it is one constant, and small; a base is not repeated."""
    exponent = uniform(node.rhs)
    if exponent is None or node.lhs.type != node.type:
        return None
    limit = MAX_EXPONENT if node.type.kind.is_float else _MAX_WHOLE_EXPONENT
    return float(exponent) if abs(exponent) <= limit else None


def _in_kind(node: Pow, rewriter: Rewriter, compute: Callable[[Value], Value]) -> Value:
    """Return what *compute* makes of the base; 16-bit floats in float32, rounded once."""
    kind, base = node.type.kind, node.lhs
    if kind not in _NARROW:
        return compute(base)
    wide = rewriter.emit(ConvertTo(base, kind=ElementKind.FLOAT32))
    return rewriter.emit(ConvertTo(compute(wide), kind=kind))


def _product(base: Value, exponent: int, rewriter: Rewriter) -> Value:
    """Return ``base ** exponent`` by squaring.

    A negative power is that of the reciprocal: the reciprocal of a power could overflow, or be 0,
    where the power of the reciprocal is a small number.
    """
    square = rewriter.emit(Reciprocal(base)) if exponent < 0 else base
    left, result = abs(exponent), None
    while True:
        if left & 1:
            result = square if result is None else rewriter.emit(Mul(result, square))
        left >>= 1
        if not left:
            assert result is not None
            return result
        square = rewriter.emit(Mul(square, square))


def _power(node: Pow, base: Value, exponent: float, rewriter: Rewriter) -> Value:
    """Return ``base ** exponent`` for a multiple of 1/4 that is not whole."""
    is_positive = range_of(node.lhs)[0] >= 0
    if not is_positive:
        infinity = splat(rewriter, base.type, math.inf, f"{node.name}_infinity")
        minus = splat(rewriter, base.type, -math.inf, f"{node.name}_minus_infinity")
        base = rewriter.emit(Select(rewriter.emit(Equal(base, minus)), infinity, base))
    fraction, whole = math.modf(abs(exponent))
    result = _root(base, fraction, rewriter)
    if exponent < 0:
        result = rewriter.emit(Reciprocal(result))
    if whole:
        product = _product(base, int(math.copysign(whole, exponent)), rewriter)
        result = rewriter.emit(Mul(product, result))
    return result if is_positive else rewriter.emit(Abs(result))


def _root(base: Value, exponent: float, rewriter: Rewriter) -> Value:
    """Return ``base ** exponent`` for 1/4, 1/2 or 3/4."""
    root: Value = rewriter.emit(Sqrt(base))
    if exponent == 0.5:
        return root
    fourth_root: Value = rewriter.emit(Sqrt(root))
    return fourth_root if exponent == 0.25 else rewriter.emit(Mul(root, fourth_root))
