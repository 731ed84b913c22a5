"""Attention over keys and values that past ones precede, or that padding follows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from glow_nb.base.types import Array, ElementKind
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.attention import (
    HEADS,
    TOKENS,
    ZERO,
    by_heads,
    emit_scores,
    zero_where_undefined,
)
from glow_nb.hlir.rounding import WIDE, is_narrow


@onnx_op("Attention", since=23)
def attention(ctx: Context, node: OnnxNode) -> tuple[Value | None, ...]:
    """The result; past keys and values with the new ones after them; scores of some stage.

    The softmax is computed in float32 or better, whatever ``softmax_precision`` is.
    """
    query = _tokens(ctx, node, 0, "q_num_heads")
    key = _behind_past(ctx, node, _tokens(ctx, node, 1, "kv_num_heads"), 4)
    value = _behind_past(ctx, node, _tokens(ctx, node, 2, "kv_num_heads"), 5)
    window = _window(ctx, node, query.count, key.count)
    depth, kind = query.value.type.shape[3], query.value.type.kind
    common = max(kind, value.value.type.kind, key=lambda kind: kind.bits)
    attended = ops.Attention(
        ctx.convert(query.value, common),
        ctx.convert(key.value, common),
        ctx.convert(value.value, common),
        _mask(ctx, node.optional(3), window, (*query.sizes, key.count), common),
        scale=node.number("scale", 1 / math.sqrt(depth) if depth else 1.0),
        causal=window.ahead is not None,
        offset=0 if window.ahead is None else window.ahead,
        softcap=node.number("softcap"),
        masked_rows=ZERO,
        query_layout=query.layout,
        key_layout=key.layout,
        value_layout=value.layout,
        result_layout=query.layout,
    )
    result = ctx.convert(ctx.emit(attended), kind)
    if node.operand(0).type.rank == 3:
        batch, queries, heads, width = result.type.shape
        result = ctx.reshape(result, (batch, queries, heads * width))
    return (
        result,
        key.by_heads(ctx) if node.wants(1) else None,
        value.by_heads(ctx) if node.wants(2) else None,
        ctx.convert(_scores(ctx, node, attended), kind) if node.wants(3) else None,
    )


@dataclass(frozen=True)
class _Tokens:
    """Queries, keys or values: a value of rank 4, and its layout."""

    value: Value
    layout: str

    @property
    def sizes(self) -> tuple[int, ...]:
        """Samples, heads and tokens."""
        return by_heads(self.value.type.shape, self.layout)[:3]

    @property
    def count(self) -> int:
        return self.sizes[2]

    def by_heads(self, ctx: Context) -> Value:
        return self.value if self.layout == HEADS else ctx.transpose(self.value, (0, 2, 1, 3))


def _tokens(ctx: Context, node: OnnxNode, index: int, attribute: str) -> _Tokens:
    """Return operand *index*, its heads apart; those of rank 3 are given by *attribute*."""
    value = node.operand(index)
    shape = value.type.shape
    if len(shape) == 4:
        return _Tokens(value, HEADS)
    if len(shape) != 3:
        raise ctx.wrong(
            f"operand {value} must be [batch, heads, tokens, depth] or [batch, tokens, width]"
        )
    heads = node.integer(attribute)
    if heads <= 0 or shape[2] % heads:
        raise ctx.wrong(
            f"operand {value} has the width {shape[2]!s}, which {attribute} must divide; "
            f"that is {heads}"
        )
    return _Tokens(ctx.reshape(value, (*shape[:2], heads, shape[2] // heads)), TOKENS)


def _behind_past(ctx: Context, node: OnnxNode, tokens: _Tokens, index: int) -> _Tokens:
    """Return operand *index* and *tokens* one after the other, if there is such an operand."""
    past = node.optional(index)
    if past is None:
        return tokens
    new = tokens.by_heads(ctx)
    batch, heads, *_, depth = new.type.shape
    count = past.type.shape[2] if past.type.rank == 4 else None
    if count is None or past.type != new.type.with_shape((batch, heads, count, depth)):
        name, before = ("past_key", "keys") if index == 4 else ("past_value", "values")
        raise ctx.wrong(
            f"{name} {past} does not fit the new {before}, {new.type} by heads: it must be "
            f"{new.type.kind.value}<{batch} x {heads} x tokens x {depth}>"
        )
    return _Tokens(ctx.emit(ops.Concat((past, new), axis=2)), HEADS)


@dataclass(frozen=True)
class _Window:
    """The keys that a query may see, apart from the mask.

    Attributes:
        ahead: Query ``i`` may see keys up to ``i + ahead``; all if None.
        mask: False where a query may not see a key, ``[batch or 1, 1, queries or 1, keys]``.
    """

    ahead: int | None
    mask: Value | None = None

    def within(self, ctx: Context, mask: Value) -> _Window:
        """Return the window of what *mask* shows, too."""
        both = mask if self.mask is None else ctx.emit(ops.And(self.mask, mask))
        return replace(self, mask=both)


def _window(ctx: Context, node: OnnxNode, queries: int, keys: int) -> _Window:
    """Return what ``is_causal``, padding after the keys, and windows around a query show."""
    past, real = node.optional(4), node.optional(6)
    if (past is None) != (node.optional(5) is None) or (past is not None and real is not None):
        raise ctx.wrong(
            "past_key and past_value must be given together, and without nonpad_kv_seqlen"
        )
    behind, ahead = (node.integer(f"{side}_window_size", -1) for side in ("left", "right"))
    if min(behind, ahead) < -1:
        raise ctx.wrong(f"windows {behind} and {ahead} must be -1 for none, or not negative")
    if node.flag("is_causal"):
        ahead = 0
    if real is not None:
        return _window_before_padding(ctx, real, queries, keys, behind, ahead)
    offset = 0 if past is None else past.type.shape[2]
    window = _Window(None if ahead < 0 else offset + ahead)
    if behind < 0:
        return window
    is_near = _distances(queries, keys) >= offset - behind
    return window if is_near.all() else window.within(ctx, ctx.constant(is_near))


def _distances(queries: int, keys: int) -> Array:
    """Return how far each key is after each query of the same number: ``j - i``."""
    return (np.arange(keys) - np.arange(queries)[:, None])[None, None]


def _window_before_padding(
    ctx: Context, real: Value, queries: int, keys: int, behind: int, ahead: int
) -> _Window:
    """Return the window where *real* keys of each sample count, and its last query ends them."""
    count = ctx.reshape(ctx.convert(real, ElementKind.INT64), (real.type.size, 1, 1, 1))
    places = ctx.constant(np.arange(keys).reshape(1, 1, 1, keys))
    window = _Window(None)
    if ahead != 0:  # else the padding is ahead of every query
        window = window.within(ctx, ctx.emit(ops.Less(places, count)))
    if max(ahead, behind) < 0:
        return window
    offset = ctx.emit(ops.Sub(count, ctx.number(count.type, queries)))
    distance = ctx.constant(_distances(queries, keys))
    if ahead >= 0:
        end = ctx.emit(ops.Add(offset, ctx.number(count.type, ahead)))
        window = window.within(ctx, ctx.emit(ops.LessEqual(distance, end)))
    if behind >= 0:
        begin = ctx.emit(ops.Sub(offset, ctx.number(count.type, behind)))
        window = window.within(ctx, ctx.emit(ops.GreaterEqual(distance, begin)))
    return window


def _mask(
    ctx: Context,
    mask: Value | None,
    window: _Window,
    scores: tuple[int, ...],
    kind: ElementKind,
) -> Value | None:
    """Return *mask* with rank 4, hiding keys that it lacks of *scores*, and what *window* hides.

    Numbers, which are added to the scores of *kind*, become float32 if that is a 16-bit float.
    """
    if mask is None:
        return window.mask
    if mask.type.rank > 4:
        raise ctx.wrong(
            f"mask {mask} has {mask.type.rank} dimensions, but must broadcast to the scores, "
            f"{list(scores)} (batch, heads, queries, keys)"
        )
    is_bool = mask.type.kind is ElementKind.BOOL
    if mask.type.kind not in (ElementKind.BOOL, kind):
        mask = ctx.convert(mask, WIDE if kind.bits < WIDE.bits else kind)
    missing = scores[3] - mask.type.shape[-1] if mask.type.rank else 0
    if missing > 0:
        pads = (0,) * (2 * mask.type.rank - 1) + (missing,)
        mask = ctx.emit(ops.Pad(mask, pads, value=0.0 if is_bool else -math.inf))
    mask = ctx.with_rank(mask, 4)
    if window.mask is None:
        return mask
    if is_bool:
        return ctx.emit(ops.And(mask, window.mask))
    return ctx.emit(ops.Select(window.mask, mask, ctx.number(mask.type, -math.inf)))


def _scores(ctx: Context, node: OnnxNode, attended: ops.Attention) -> Value:
    """Return the scores at the stage that ``qk_matmul_output_mode`` names."""
    kind = attended.type.kind
    wide = attended.map_operands(lambda v: ctx.convert(v, WIDE) if is_narrow(v.type) else v)
    stages = emit_scores(wide, ctx.builder)
    mode = node.integer("qk_matmul_output_mode")
    if not 0 <= mode <= 3:
        raise ctx.wrong(f"qk_matmul_output_mode {mode} must be 0, 1, 2 or 3")
    if mode < 3:
        return ctx.convert(stages[mode], kind)
    weights = ctx.builder.emit(ops.Softmax(stages[-1], axis=3))
    return ctx.convert(zero_where_undefined(ctx.builder, stages[-1], weights, ZERO), kind)
