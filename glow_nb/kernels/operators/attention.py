"""Attention in parts of the keys, for threads that are more than heads (Dao and others 2023)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.schema import OneOf
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.attention import (
    AXES,
    HEADS,
    NAN,
    TOKENS,
    ZERO,
    ZERO_FOR_NAN,
    Attention,
    by_heads,
)
from glow_nb.hlir.ops.families import fitted, require_kind, wide

KINDS = frozenset({ElementKind.FLOAT32, ElementKind.FLOAT64})
PEAK_AND_TOTAL = 2
"""Numbers of a row beside its sums."""


@define_node("attention_parts")
class AttentionParts(Attention):
    """Attend to the keys of each part on their own; ``merge_attention_parts`` puts them together.

    The result is ``[parts, B, H, M, E + 2]``. Of the scores of a query and the keys of a part a row
    holds the sums of values with ``exp(score - peak)`` as weights, then the peak, the largest
    score, then the total of the weights. For a peak of -inf the weights are ``exp(score)``.

    Attributes:
        part_keys: Keys of a part; the last one has what is left.
    """

    part_keys: int = 1

    @property
    def parts(self) -> int:
        """Number of parts."""
        keys = by_heads(self.key.type.shape, self.key_layout)[2]
        return -(-keys // self.part_keys)

    @override
    def infer_type(self) -> TensorType:
        result = super().infer_type()
        require_kind(self, "query", result, KINDS)
        self.require(self.part_keys > 0, f"part_keys is {self.part_keys}, but must be positive")
        *sizes, width = by_heads(result.shape, self.result_layout)
        return result.with_shape((self.parts, *sizes, width + PEAK_AND_TOTAL))

    @override
    def evaluate(self, query: Array, key: Array, value: Array, mask: Array | None) -> Array:
        scores = self.scores(query, key, mask)
        values = self.for_queries(value, self.value_layout)
        result = np.empty(self.type.shape, self.type.kind.dtype)
        for part, row in enumerate(result):
            keys = slice(part * self.part_keys, (part + 1) * self.part_keys)
            of_part = scores[..., keys]
            peak = np.max(of_part, axis=-1, keepdims=True)
            with np.errstate(all="ignore"):
                weights = np.exp(of_part - np.where(peak == -np.inf, 0, peak))
                row[..., :-PEAK_AND_TOTAL] = weights @ values[:, :, keys]
            row[..., -2:-1] = peak
            row[..., -1] = weights.sum(axis=-1)
        return result


@define_node("merge_attention_parts")
class MergeAttentionParts(Node):
    """Put the parts of an attention together.

    With sums ``o``, peak ``m`` and total ``l`` of each part, and the largest peak ``M``::

        result = sum(o * exp(m - M)) / sum(l * exp(m - M))

    Attributes:
        masked_rows: What the result is where the totals are 0: ``nan`` or ``zero``; with
            ``zero_for_nan`` it is 0 also where a total is NaN.
        layout: ``heads`` for ``[B, H, M, E]``, ``tokens`` for ``[B, M, H, E]``.
    """

    parts: Value
    masked_rows: Annotated[str, OneOf(NAN, ZERO, ZERO_FOR_NAN)] = NAN
    layout: Annotated[str, OneOf(HEADS, TOKENS)] = HEADS

    @override
    def infer_type(self) -> TensorType:
        type = self.parts.type
        require_kind(self, "parts", type, KINDS)
        axes = ("parts", "batch", "heads", "queries", f"width + {PEAK_AND_TOTAL}")
        is_fit = type.rank == len(axes) and type.shape[-1] >= PEAK_AND_TOTAL
        self.require(is_fit, f"'parts' is {type}, but must be [{', '.join(axes)}]")
        _, *sizes, columns = type.shape
        return type.with_shape(by_heads((*sizes, columns - PEAK_AND_TOTAL), self.layout))

    @override
    def evaluate(self, parts: Array) -> Array:
        sums, peaks, totals = np.split(wide(parts), [-2, -1], axis=-1)
        with np.errstate(all="ignore"):
            peak = np.max(peaks, axis=0, initial=-np.inf)
            factors = np.exp(peaks - np.where(peak == -np.inf, 0, peak))
            total = np.sum(totals * factors, axis=0)
            result = np.sum(sums * factors, axis=0) / total
        if self.masked_rows != NAN:
            is_undefined = total == 0 if self.masked_rows == ZERO else ~(total > 0)
            result = np.where(is_undefined, 0, result)
        return fitted(result.transpose(AXES[self.layout]), self.type)

    @override
    def cost(self) -> Cost:
        return Cost(self.parts.type.size)
