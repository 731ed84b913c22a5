"""Attention: every query's weighted sum of values, by how well it agrees with their keys."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.schema import OneOf, Unsaid
from glow_nb.base.size import symbols_of
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.activation import Tanh
from glow_nb.hlir.ops.arithmetic import Add, Div, Mul, Or
from glow_nb.hlir.ops.comparison import Select
from glow_nb.hlir.ops.counting import triangle
from glow_nb.hlir.ops.elementwise import ConvertTo, IsInf, IsNaN
from glow_nb.hlir.ops.families import (
    FLOATS,
    Wide,
    fits,
    fitted,
    product_kind,
    require_kind,
    splat,
    wide,
)
from glow_nb.hlir.ops.matrix import MatMul
from glow_nb.hlir.ops.normalization import Softmax
from glow_nb.hlir.ops.reduction import ReduceMax
from glow_nb.hlir.ops.shape import Reshape, Transpose
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers

HEADS, TOKENS = "heads", "tokens"
"""Layouts: ``[batch, heads, tokens, depth]`` and ``[batch, tokens, heads, depth]``."""

NAN, ZERO, ZERO_FOR_NAN = "nan", "zero", "zero_for_nan"
"""What the result holds for a query without weights."""

AXES = {HEADS: (0, 1, 2, 3), TOKENS: (0, 2, 1, 3)}
"""The permutation between each layout and ``heads``, in both directions."""

Layout = Annotated[str, OneOf(HEADS, TOKENS)]
Sizes = tuple[int, ...]


def by_heads(shape: tuple[int, ...], layout: str) -> Sizes:
    """Return (batch, heads, tokens, depth) of a *shape* in *layout*, or the shape of such sizes."""
    return tuple(shape[axis] for axis in AXES[layout])


@define_node("attention")
class Attention(Node):
    """Weigh values by the softmax of scores, ``scale`` times products of queries and keys.

    For each sample and head, with ``M`` queries and ``N`` keys::

        scores = scale * query @ transpose(key)             # [M, N]
        scores = softcap * tanh(scores / softcap)           # if softcap is not 0
        scores = scores + mask                              # or fill where a bool mask is false
        scores[i, j] = -inf where j > i + offset            # if causal
        result = softmax(scores) @ value                    # [M, E]

    ``query`` is ``[B, H, M, D]``, ``key`` ``[B, G, N, D]``, ``value`` ``[B, G, N, E]``, and the
    result ``[B, H, M, E]``, or each of them with the two axes in the middle exchanged. ``G``
    divides ``H``: head ``h`` of the queries reads head ``h // (H / G)`` of keys and values.
    ``mask`` has rank 4 and broadcasts to ``[B, H, M, N]``. It is bool, or of the kind of the query,
    or float32.

    Everything between is computed at least in float32 and rounded once; only the weights that
    values are multiplied by may be rounded, if *rounds_weights*. NaN and infinities
    spread as the formula says; those in keys and values that ``causal`` hides need not spread,
    since a kernel need not read them.

    Attributes:
        scale: Factor of the products.
        causal: Whether query ``i`` may see no key beyond ``i + offset``.
        offset: Number of keys before that of the first query; it counts only if *causal*.
        softcap: Bound of the scores before the mask, 0 for none.
        fill: The score of what a bool mask hides; less than infinity.
        masked_rows: What the result is where all scores of a query are -inf: ``nan``, as the
            formula has it; ``zero``, as ONNX's operator has it; ``zero_for_nan``, as PyTorch
            exports it, also if a score is NaN or +inf.
        query_layout: ``heads`` for ``[B, H, M, D]``, ``tokens`` for ``[B, M, H, D]``.
        key_layout: The same for ``key``.
        value_layout: The same for ``value``.
        result_layout: The same for the result.
        wide: The result is float32, for operands of 16-bit floats, and is not rounded to these.
        rounds_weights: Exponentials of 16-bit operands may be rounded to their kind before they are
            multiplied by values, as instructions that multiply such pairs want them. Each weight is
            then off by half a unit of the last place at most: by 2^-8 of itself for bfloat16.
    """

    query: Value
    key: Value
    value: Value
    mask: Value | None
    scale: float
    causal: bool = False
    offset: int = 0
    softcap: float = 0.0
    fill: float = -math.inf
    masked_rows: Annotated[str, OneOf(NAN, ZERO, ZERO_FOR_NAN)] = NAN
    query_layout: Layout = HEADS
    key_layout: Layout = HEADS
    value_layout: Layout = HEADS
    result_layout: Layout = HEADS
    wide: Wide = False
    rounds_weights: Annotated[bool, Unsaid()] = False

    @override
    def infer_type(self) -> TensorType:
        require_kind(self, "query", self.query.type, FLOATS)
        for name in ("query", "key", "value"):
            self._check_rank(name)
        batch, heads, queries, depth = by_heads(self.query.type.shape, self.query_layout)
        _, groups, keys, _ = by_heads(self.key.type.shape, self.key_layout)
        *_, width = by_heads(self.value.type.shape, self.value_layout)
        self._check_operand_like_query("key", (batch, groups, keys, depth), self.key_layout)
        self._check_operand_like_query("value", (batch, groups, keys, width), self.value_layout)
        self.require(
            heads % groups == 0 if groups else heads == 0,
            f"'query' is {self.query.type} with {heads} heads, 'key' {self.key.type} with "
            f"{groups}; those of the key must divide those of the query",
        )
        self._check_mask((batch, heads, queries, keys))
        self._check_numbers()
        kind = product_kind(self, self.query.type, self.key.type, wide=self.wide)
        return TensorType(kind, by_heads((batch, heads, queries, width), self.result_layout))

    def _check_rank(self, name: str) -> None:
        type, layout = getattr(self, name).type, getattr(self, f"{name}_layout")
        axes = ", ".join(("batch", *((HEADS, TOKENS) if layout == HEADS else (TOKENS, HEADS))))
        self.require(type.rank == 4, f"'{name}' is {type}, but must be [{axes}, depth]")

    def _check_operand_like_query(self, name: str, sizes: Sizes, layout: str) -> None:
        type, wanted = getattr(self, name).type, self.query.type.with_shape(by_heads(sizes, layout))
        needing = "'query' needs" if name == "key" else "'query' and 'key' need"
        self.require(
            fits(type, wanted), f"'{name}' is {type}, but {needing} {wanted}: {self._operand_types}"
        )

    @property
    def _operand_types(self) -> str:
        return f"'query' is {self.query.type}, 'key' {self.key.type}, 'value' {self.value.type}"

    def _check_mask(self, scores: Sizes) -> None:
        if self.mask is None:
            return
        type = self.mask.type
        kinds = frozenset({ElementKind.BOOL, ElementKind.FLOAT32, self.query.type.kind})
        require_kind(self, "mask", type, kinds)
        fits = type.rank == 4 and type == type.with_shape(
            tuple(1 if n == 1 else m for n, m in zip(type.shape, scores, strict=True))
        )
        self.require(
            fits,
            f"'mask' is {type}, but the scores are {list(scores)} (batch, heads, queries, keys); "
            "it must have four sizes, each equal to that of the scores or 1",
        )

    def _check_numbers(self) -> None:
        self.require(math.isfinite(self.scale), f"scale is {self.scale}, but must be finite")
        self.require(
            0 <= self.softcap < math.inf,
            f"softcap is {self.softcap}, but must be finite and positive, or 0 for none",
        )
        self.require(self.fill < math.inf, f"fill is {self.fill}, but must be less than infinity")

    @override
    def evaluate(self, query: Array, key: Array, value: Array, mask: Array | None) -> Array:
        scores = self.scores(query, key, mask)
        with np.errstate(all="ignore"):
            largest = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
            powers = np.exp(scores - largest)
            total = np.sum(powers, axis=-1, keepdims=True)
            result = (powers / total) @ self.for_queries(value, self.value_layout)
        if self.masked_rows != NAN:
            is_empty = largest == -np.inf
            is_undefined = is_empty if self.masked_rows == ZERO else is_empty | np.isnan(total)
            result = np.where(is_undefined, 0, result)
        return fitted(result.transpose(AXES[self.result_layout]), self.type)

    def scores(self, query: Array, key: Array, mask: Array | None) -> Array:
        """Return the scores as softmax gets them, ``[B, H, M, N]``."""
        q, k = (
            wide(query).transpose(AXES[self.query_layout]),
            self.for_queries(key, self.key_layout),
        )
        with np.errstate(all="ignore"):
            scores = self.scale * (q @ k.swapaxes(2, 3))
            return np.asarray(self._hidden(self._capped(scores), mask))

    def for_queries(self, array: Array, layout: str) -> Array:
        """Return *array*, keys or values, as ``[B, H, N, depth]``; heads that share have copies."""
        heads = by_heads(self.query.type.shape, self.query_layout)[1]
        by_head = wide(array).transpose(AXES[layout])
        groups = by_head.shape[1]
        return np.repeat(by_head, heads // groups if groups else 1, axis=1)

    def _capped(self, scores: Any) -> Any:
        return self.softcap * np.tanh(scores / self.softcap) if self.softcap else scores

    def _hidden(self, scores: Any, mask: Array | None) -> Any:
        """Return *scores* with what a query may not see made -inf."""
        if mask is not None and mask.dtype == np.bool_:
            scores = np.where(mask, scores, self.fill)
        elif mask is not None:
            scores = scores + wide(mask)
        if self.causal:
            scores = np.where(self.visible(*scores.shape[2:]), scores, -np.inf)
        return scores

    def visible(self, queries: int, keys: int) -> Array:
        """Return for each query and key whether ``causal`` lets the query see the key."""
        return np.arange(keys) <= np.arange(queries)[:, None] + self.offset

    @override
    def cost(self) -> Cost:
        """Count two products and, for a score, five operations of the softmax and the scaling.

        Scores that ``causal`` hides do not count.
        """
        batch, heads, queries, depth = by_heads(self.query.type.shape, self.query_layout)
        keys = by_heads(self.key.type.shape, self.key_layout)[2]
        width = self.value.type.shape[3]
        seen = queries * keys
        if self.causal:
            seen = sum(min(max(i + self.offset + 1, 0), keys) for i in range(queries))
        return Cost(batch * heads * seen * (depth + width), 6 * batch * heads * seen)


@lowers(Attention)
def lower_attention(node: Attention, rewriter: Rewriter) -> Value:
    """Express it as two products with the softmax of scores between them."""
    emit, scores = rewriter.emit, emit_scores(node, rewriter)[-1]
    batch, heads, queries, keys = scores.type.shape
    undefined = None if node.masked_rows == NAN else _undefined(rewriter, scores, node.masked_rows)
    if undefined is not None:  # their weights are numbers, and so is what is made of gradients
        scores = _zero_where(rewriter, undefined, scores)
    weights: Value = emit(Softmax(scores, axis=3))
    value = _ordered(rewriter, node.value, AXES[node.value_layout])
    groups, width = value.type.shape[1], value.type.shape[3]
    rows = heads // groups * queries if groups else queries
    weights = _shaped(rewriter, weights, (batch, groups, rows, keys))
    is_wide = node.wide and node.rounds_weights
    if is_wide:
        weights = emit(ConvertTo(weights, value.type.kind))
    elif node.wide:
        value = emit(ConvertTo(value, weights.type.kind))
    product: Value = emit(MatMul(weights, value, wide=is_wide))
    product = _shaped(rewriter, product, (batch, heads, queries, width))
    if undefined is not None:
        product = _zero_where(rewriter, undefined, product)
    return _ordered(rewriter, product, AXES[node.result_layout])


def emit_scores(node: Attention, builder: Builder) -> tuple[Value, Value, Value]:
    """Emit the scores, ``[B, H, M, N]``: scaled, then also capped, then also masked."""
    query = _ordered(builder, node.query, AXES[node.query_layout])
    first, second, third, last = AXES[node.key_layout]
    key = _ordered(builder, node.key, (first, second, last, third))
    batch, heads, queries, depth = query.type.shape
    groups, keys = key.type.shape[1], key.type.shape[3]
    # The heads of a group read one key: their rows are those of one product.
    rows = heads // groups * queries if groups else queries
    by_group = _shaped(builder, query, (batch, groups, rows, depth))
    product = builder.emit(MatMul(by_group, key, wide=node.wide))
    scores = _shaped(builder, product, (batch, heads, queries, keys))
    if node.scale != 1:
        scores = builder.emit(
            Mul(scores, splat(builder, scores.type, node.scale, "attention_scale"))
        )
    capped = scores
    if node.softcap:
        bound = splat(builder, scores.type, node.softcap, "attention_softcap")
        bounded = builder.emit(Tanh(builder.emit(Div(scores, bound))))
        capped = builder.emit(Mul(bounded, bound))
    return scores, capped, _masked(node, capped, builder)


def _masked(node: Attention, scores: Value, builder: Builder) -> Value:
    mask = node.mask
    if mask is not None and mask.type.kind is ElementKind.BOOL:
        fill = splat(builder, scores.type, node.fill, "attention_fill")
        scores = builder.emit(Select(mask, scores, fill))
    elif mask is not None:
        if mask.type.kind is not scores.type.kind:
            mask = builder.emit(ConvertTo(mask, scores.type.kind))
        scores = builder.emit(Add(scores, mask))
    if not node.causal:
        return scores
    queries, keys = scores.type.shape[2:]
    if symbols_of(queries, keys, node.offset):
        matrix = triangle(builder, queries, keys, node.offset)
        seen: Value = builder.emit(Reshape(matrix, (1, 1, queries, keys)))
    else:
        visible = node.visible(queries, keys)
        if visible.all():
            return scores
        seen = builder.constant("attention_visible", visible[None, None])
    hidden = splat(builder, scores.type, -np.inf, "attention_hidden")
    return builder.emit(Select(seen, scores, hidden))


def zero_where_undefined(builder: Builder, scores: Value, rows: Value, masked_rows: str) -> Value:
    """Emit *rows*, ``[B, H, M, any]``, with zeros where *masked_rows* wants them for *scores*."""
    return _zero_where(builder, _undefined(builder, scores, masked_rows), rows)


def _undefined(builder: Builder, scores: Value, masked_rows: str) -> Value:
    """Emit which rows of *scores* give no weights in the sense of *masked_rows*."""
    largest = builder.emit(ReduceMax(scores, (3,)))
    is_lenient = masked_rows == ZERO_FOR_NAN
    undefined: Value = builder.emit(IsInf(largest, positive=is_lenient))
    if is_lenient:
        undefined = builder.emit(Or(undefined, builder.emit(IsNaN(largest))))
    return undefined


def _zero_where(builder: Builder, condition: Value, rows: Value) -> Value:
    return builder.emit(Select(condition, splat(builder, rows.type, 0, "attention_zero"), rows))


def _ordered(builder: Builder, value: Value, permutation: tuple[int, ...]) -> Value:
    if permutation == (0, 1, 2, 3):
        return value
    return builder.emit(Transpose(value, permutation))


def _shaped(builder: Builder, value: Value, shape: tuple[int, ...]) -> Value:
    return value if value.type.shape == shape else builder.emit(Reshape(value, shape))
