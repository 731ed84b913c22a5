"""Recognize attention that an exporter has written out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from glow_nb.hlir.graph import Constant, Function, Node, State, Value
from glow_nb.hlir.known import is_uniform
from glow_nb.hlir.ops import (
    Add,
    Attention,
    Broadcast,
    ConvertTo,
    IsNaN,
    MatMul,
    Reshape,
    Select,
    Softmax,
    Tanh,
    Transpose,
)
from glow_nb.hlir.ops.attention import NAN, ZERO_FOR_NAN
from glow_nb.hlir.optimize.attention_masks import Masking, added, chosen, joined
from glow_nb.hlir.optimize.sink_scales import scale_of, without_scale
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

MOST_MASKS = 4
"""Masks of one attention that are looked for; the search for more would have no end."""


@register_pass
def raise_attention(function: Function) -> Function:
    """Replace two products, with a softmax of the scores between them, by one attention.

    Factors of queries, keys or scores become its scale, numbers that are added and choices between
    a score and a very small number its mask, a mask that is a triangle of constants ``causal``, and
    heads of keys that are repeated for several heads of queries are read without a copy. Nothing
    else may read the scores. Products with constants stay, since constants are weights, which are
    packed.

    ::

        %s = mat_mul(%q, %t)              ->  %k = transpose(%t)
        %c = mul(%s, %eighth)
        %m = add(%c, %mask)
        %p = softmax(%m) {axis = 3}
        %y = mat_mul(%p, %v)                  %y = attention(%q, %k, %v, %mask) {scale = 0.125}
    """
    return rewrite(function, _rule, MatMul)


def _rule(node: MatMul, rewriter: Rewriter) -> Replacement:
    if not _is_of_data(node):
        return None
    weights, masked_rows = _unguarded(node.lhs, rewriter)
    if not isinstance(weights, Softmax) or weights.axis != weights.type.rank - 1:
        return None
    if not _is_sole(weights, rewriter, 2 if masked_rows == ZERO_FOR_NAN else 1):
        return None
    scores = _scores(weights.input, rewriter)
    if scores is None or not _are_alike(scores.product, node):
        return None
    mark = rewriter.mark()
    raised = _attention(node, scores, masked_rows, rewriter)
    if raised is None:
        rewriter.reset(mark)
    return raised


def _are_alike(first: MatMul, second: MatMul) -> bool:
    """Return whether two products have operands and results of the same kinds."""
    kinds = ((each.lhs.type.kind, each.type.kind) for each in (first, second))
    return len(set(kinds)) == 1


def _is_of_data(product: MatMul) -> bool:
    """True of a product with a right operand that is no weight: one that all samples share may be.

    Samples share what a batch of one sample has for all heads.
    """
    is_shared = product.rhs.type.rank < product.lhs.type.rank
    is_weight = isinstance(product.rhs, Constant | State if is_shared else Constant)
    return product.type.kind.is_float and product.predicate is None and not is_weight


def _is_sole(value: Value, rewriter: Rewriter, uses: int = 1) -> bool:
    """True of a node that is read *uses* times, and computed for every sample."""
    is_whole = isinstance(value, Node) and value.predicate is None
    return is_whole and rewriter.use_count(value) == uses


def _unguarded(value: Value, rewriter: Rewriter) -> tuple[Value, str]:
    """Return the softmax behind *value*, and the replacement of weights that are NaN."""
    value = _moved(value, rewriter)
    match value:
        case Select(condition=IsNaN(input=weights) as test, lhs=zero, rhs=same) if (
            weights is same and is_uniform(zero, 0) and _is_sole(value, rewriter)
        ):
            if _is_sole(test, rewriter):
                return weights, ZERO_FOR_NAN
    return value, NAN


def _moved(value: Value, rewriter: Rewriter) -> Value:
    """Return what *value* is before conversions between floats, and reshapes of the batch."""
    while _is_sole(value, rewriter):
        match value:
            case ConvertTo(input=inner) if value.type.kind.is_float and inner.type.kind.is_float:
                value = inner
            case Reshape(input=inner) if inner.type.shape[-2:] == value.type.shape[-2:]:
                value = inner
            case _:
                break
    return value


@dataclass(frozen=True)
class _Scores:
    """The operands of the scores, seen from the softmax.

    Attributes:
        product: The product of queries and keys.
        scale: Factor of the product.
        softcap: Bound of the scores, 0 for none.
        maskings: The masks, the last one first, each with the batch that it is for.
    """

    product: MatMul
    scale: float = 1.0
    softcap: float = 0.0
    maskings: tuple[Masking, ...] = ()


def _scores(value: Value, rewriter: Rewriter, most_masks: int = MOST_MASKS) -> _Scores | None:
    """Return what the scores *value* are, None if they are not those of an attention."""
    value = _moved(value, rewriter)
    if not _is_sole(value, rewriter):
        return None
    if not isinstance(value, Add | Select):
        return _capped(value, rewriter)
    for scores, masking in _masked(value) if most_masks else ():
        found = None if masking is None else _scores(scores, rewriter, most_masks - 1)
        if found is not None and masking is not None:
            return replace(found, maskings=(*found.maskings, masking))
    return None


def _masked(value: Add | Select) -> Iterator[tuple[Value, Masking | None]]:
    """Yield each operand of *value* that may be the scores, and what the others then do to them."""
    for scores, other, is_shown in ((value.lhs, value.rhs, True), (value.rhs, value.lhs, False)):
        if scores.type != value.type:
            continue
        if isinstance(value, Add):
            yield scores, added(other, value.type)
        else:
            yield scores, chosen(value.condition, other, value.type, is_shown=is_shown)


def _capped(value: Value, rewriter: Rewriter) -> _Scores | None:
    """Return the scores *value* that nothing masks: ``c * tanh(x)``, or just scaled."""
    factor = scale_of(value)
    if factor is None or not isinstance(factor[1], Tanh):
        return _scaled(value, rewriter)
    bound, bounded = factor
    if not _is_sole(bounded, rewriter) or bound <= 0:
        return None
    scores = _scaled(factor[1].input, rewriter)
    return scores and replace(scores, scale=scores.scale * bound, softcap=bound)


def _scaled(value: Value, rewriter: Rewriter) -> _Scores | None:
    """Return the scores *value* that are a product times numbers."""
    scale = 1.0
    while True:
        value = _moved(value, rewriter)
        if not _is_sole(value, rewriter):
            return None
        factor = scale_of(value)
        if factor is None:
            break
        scale, value = scale * factor[0], factor[1]
    if not isinstance(value, MatMul) or not _is_of_data(value):
        return None
    return _Scores(value, scale)


def _attention(node: MatMul, scores: _Scores, masked_rows: str, rewriter: Rewriter) -> Replacement:
    """Return the attention of *scores* over the values that *node* reads."""
    product = scores.product
    query, first = _unscaled(product.lhs, rewriter)
    key, second = _unscaled(product.rhs, rewriter)
    batches = [masking.batch for masking in scores.maskings]
    batches += [_origin(value).type.shape[:-2] for value in (node, query, node.rhs)]
    batch, heads = _batch_and_heads(batches)
    are_shared = _is_single(key) and _is_single(node.rhs)
    lead = (1, batch * heads) if are_shared else (batch, heads)
    four = product.type.with_shape((*lead, *product.type.shape[-2:]))
    mask = joined(scores.maskings, four, rewriter)
    query = _by_samples(query, lead, rewriter)
    pair = _keys_and_values(exchanged(key, rewriter), node.rhs, lead, rewriter)
    if mask is None or pair is None:
        return None
    attention = rewriter.emit(
        Attention(
            query,
            *pair,
            mask.value,
            scale=scores.scale * first * second,
            causal=mask.offset is not None,
            offset=0 if mask.offset is None else mask.offset,
            softcap=scores.softcap,
            fill=mask.fill,
            masked_rows=masked_rows,
            wide=node.wide,
            rounds_weights=node.wide,
        )
    )
    return _by_samples(attention, node.type.shape[:-2], rewriter)


def _keys_and_values(
    key: Value, value: Value, lead: tuple[int, int], rewriter: Rewriter
) -> tuple[Value, Value] | None:
    """Return what heads *lead* of queries read, each head once where several of them read it.

    None if one is shared by all of them and the other is not.
    """
    whole = [_by_samples(v, (1, 1) if _is_single(v) else lead, rewriter) for v in (key, value)]
    once = [unrepeated(v, rewriter) for v in whole]
    for keys, values in (once, whole):
        if (lead[0], keys.type.shape[1]) == keys.type.shape[:2] == values.type.shape[:2]:
            return keys, values
    return None


def _is_single(value: Value) -> bool:
    """True of one matrix, whatever the rank."""
    return prod(value.type.shape[:-2]) == 1


def _batch_and_heads(batches: Sequence[tuple[int, ...]]) -> tuple[int, int]:
    """Return samples and heads, as the shape distinguishes them."""
    best = min(batches, key=lambda sizes: abs(len(sizes) - 2))
    return (prod(best[:-1]), best[-1]) if len(best) > 1 else (prod(best), 1)


def _origin(value: Value) -> Value:
    """Return what *value* is before reshapes of samples and heads."""
    while isinstance(value, Reshape) and value.predicate is None:
        if value.input.type.shape[-2:] != value.type.shape[-2:]:
            break
        value = value.input
    return value


def _unscaled(value: Value, rewriter: Rewriter) -> tuple[Value, float]:
    """Return *value* without the numbers that scale it, and their product."""
    scale = 1.0
    while (found := without_scale(value, rewriter)) is not None:
        scale, value = scale * found[0], found[1]
    return value, scale


def _by_samples(value: Value, lead: tuple[int, ...], rewriter: Rewriter) -> Value:
    """Return matrices *value* with another shape of the batch."""
    shape, value = (*lead, *value.type.shape[-2:]), _origin(value)
    return value if value.type.shape == shape else rewriter.emit(Reshape(value, shape))


def exchanged(value: Value, rewriter: Rewriter) -> Value:
    """Return *value* with its last two axes exchanged, perhaps with another shape of the batch."""
    source = _origin(value)
    match source:
        case Broadcast(input=small, predicate=None) if (
            small.type.shape[-2:] == source.type.shape[-2:]
        ):
            lead, rows = small.type.shape[:-2], source.type.shape[-2:]
            single = _by_samples(exchanged(small, rewriter), lead, rewriter)
            return rewriter.emit(Broadcast(single, (*source.type.shape[:-2], *rows[::-1])))
    axes = tuple(range(source.type.rank))
    if isinstance(source, Transpose) and source.predicate is None:
        axes, source = source.permutation, source.input
    axes = (*axes[:-2], axes[-1], axes[-2])
    return source if axes == tuple(sorted(axes)) else rewriter.emit(Transpose(source, axes))


def unrepeated(value: Value, rewriter: Rewriter) -> Value:
    """Return the ``[B, G, N, D]`` whose heads *value*, ``[B, H, N, D]``, repeats one by one."""
    batch, heads, *rows = value.type.shape
    source = value
    while isinstance(source, Reshape) and source.predicate is None:
        source = source.input
    if not isinstance(source, Broadcast) or source.predicate is not None:
        return value
    sizes, wide = source.input.type.shape, source.type.shape
    grown = [axis for axis, (n, m) in enumerate(zip(sizes, wide, strict=True)) if n != m]
    if len(grown) != 1 or wide[grown[0]] == 0 or heads % wide[grown[0]] != 0:
        return value
    groups = heads // wide[grown[0]]
    if prod(wide[: grown[0]]) != batch * groups:
        return value
    return rewriter.emit(Reshape(source.input, (batch, groups, *rows)))
