"""Recognize a Gaussian error linear unit that an exporter has written out."""

from __future__ import annotations

import math

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.known import is_about
from glow_nb.hlir.ops import Add, Div, Erf, Gelu, Mul, Tanh
from glow_nb.hlir.optimize.polynomials import factors_of, is_close, polynomial_of
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

ERF_INPUT = {1: math.sqrt(0.5)}
TANH_INPUT = {1: math.sqrt(2 / math.pi), 3: math.sqrt(2 / math.pi) * 0.044715}


@register_pass
def raise_gelu(function: Function) -> Function:
    """Make ``x / 2 * (1 + erf(x / sqrt(2)))``, factors in any order, a Gelu; with tanh the same.

    The input of the erf or tanh is compared as a polynomial of ``x``, so that it does not matter
    how it is written. Nothing but the product may read the factors.

    ::

        %e = erf(%scaled)             // %scaled = %x / 1.4142135
        %f = add(%e, %one)            ->
        %g = mul(%x, %f)
        %y = mul(%g, %half)               %y = gelu(%x) {approximate = "none"}
    """
    return rewrite(function, _rule, Mul, Div)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if not isinstance(node, Mul | Div) or not node.type.kind.is_float:
        return None
    scale, factors = factors_of(node, rewriter)
    if len(factors) != 2 or scale != 0.5:
        return None
    for x, weight in (factors, factors[::-1]):
        approximate = _approximation(weight, x, rewriter)
        if approximate is not None and x.type == node.type:
            return rewriter.emit(Gelu(x, approximate=approximate))
    return None


def _approximation(weight: Value, x: Value, rewriter: Rewriter) -> str | None:
    """Return the kind of Gelu whose weight of *x*, doubled, is *weight*; None if it is none."""
    match weight:
        case (
            Add(lhs=(Erf() | Tanh()) as bent, rhs=one, predicate=None)
            | Add(lhs=one, rhs=(Erf() | Tanh()) as bent, predicate=None)
        ) if is_about(one, 1.0) and bent.predicate is None:
            pass
        case _:
            return None
    if rewriter.use_count(weight) != 1 or rewriter.use_count(bent) != 1:
        return None
    polynomial, kind = polynomial_of(bent.input, x), x.type.kind
    if isinstance(bent, Erf):
        return "none" if is_close(polynomial, ERF_INPUT, kind) else None
    return "tanh" if is_close(polynomial, TANH_INPUT, kind) else None
