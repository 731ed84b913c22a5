"""Recognize a layer normalization that an exporter has written out."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.known import uniform
from glow_nb.hlir.ops import (
    Add,
    Div,
    LayerNormalization,
    Mul,
    Pow,
    ReduceMean,
    Reshape,
    Sqrt,
    Sub,
)
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rewriting import (
    Rewrite,
    Rules,
    any_of,
    named,
    number,
    rewrite_once,
    used_here,
    wildcard,
    wildcards,
)

x, axes, others, operand = wildcards("x axes others operand")
epsilon = wildcard("epsilon", lambda value: uniform(value) is not None)


@register_pass
def raise_layer_normalization(function: Function) -> Function:
    """Replace a difference from the mean, divided by the root of its mean square, by a
    normalization.

    The means must be over the last axes. A product and a sum that follow become its scale and bias
    if they have the normalized axes' shape. The form that the lowering emits, a product with the
    reciprocal of the root, is not replaced.

    ::

        %d = sub(%x, %mean)               // reduce_mean(%x) {axes = [2], keep_dims = true}
        %v = add(%variance, %epsilon)     // reduce_mean(%d * %d) {axes = [2], keep_dims = true}
        %n = div(%d, %root)               // sqrt(%v)
        %m = mul(%n, %scale)              ->
        %y = add(%m, %bias)                   %y = layer_normalization(%x, %scale, %bias) {...}
    """
    return rewrite_once(function, _RULES)


def _normalization(
    node: Node,
    x: Value,
    axes: tuple[int, ...],
    others: tuple[int, ...],
    epsilon: Value,
    variance: Value,
    root: Sqrt,
    rewriter: Rewriter,
) -> Node | None:
    first, rank = x.type.rank - len(axes), x.type.rank
    if not axes or not sorted(axes) == sorted(others) == [*range(first, rank)]:
        return None
    if node.type != x.type or root.type != variance.type:
        return None
    scale = np.ones(x.type.shape[first:], x.type.kind.dtype)
    ones = rewriter.constant(f"{node.name}_scale", scale, is_weight=False)
    return LayerNormalization(x, ones, None, axis=first, epsilon=float(uniform(epsilon)))


def _absorb(node: Mul | Add, inner: LayerNormalization, operand: Value) -> Node | None:
    shape = inner.scale.type.shape
    if node.type != inner.type or operand.type.shape != (1,) * inner.axis + shape:
        return None
    field = "scale" if isinstance(node, Mul) else "bias"
    changes: dict[str, Any] = {field: Reshape(operand, shape)}
    return dataclasses.replace(inner, name=node.name, **changes)


_CENTRED = used_here(Sub(x, ReduceMean(x, axes=axes, keep_dims=True)))
_BARE = used_here(named("inner", any_of(LayerNormalization, bias=None)))
_UNSCALED = used_here(named("inner", any_of(LayerNormalization, scale=number(1), bias=None)))
_RULES = Rules(
    "raise_layer_normalization",
    *(
        Rewrite(
            Div(
                _CENTRED,
                named(
                    "root",
                    Sqrt(
                        Add(
                            named("variance", ReduceMean(square, axes=others, keep_dims=True)),
                            epsilon,
                        )
                    ),
                ),
            ),
            _normalization,
        )
        for square in (Mul(_CENTRED, _CENTRED), Pow(_CENTRED, number(2)))
    ),
    Rewrite(Mul(_UNSCALED, operand), _absorb),
    Rewrite(Add(_BARE, operand), _absorb),
)
