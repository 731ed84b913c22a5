"""Cut the keys of attention into parts where there are fewer heads than threads."""

from __future__ import annotations

from glow_nb.base.schema import attributes_of
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import Attention
from glow_nb.hlir.ops.attention import by_heads
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.kernels.operators import AttentionParts, MergeAttentionParts
from glow_nb.kernels.operators.attention import KINDS
from glow_nb.kernels.target import Target

WORTH = 0.9
"""Parts, and more of them, are made if the busiest thread then has less than this share of what it
would have without."""

STEP = 64
"""Parts have a multiple of so many keys, which are whole vectors of any width."""


@register_pass
def split_attention(
    function: Function, *, target: Target | None = None, threads: int = 1
) -> Function:
    """Cut the keys of few queries into parts, where *threads* do not share the heads well.

    It is done for *target*, by default this machine.

    ::

        %y = attention(%q : <1 x 8 x 1 x 64>, %k : <1 x 1 x 4096 x 64>, %v) {...}
        ->
        %parts = attention_parts(%q, %k, %v) {..., part_keys = 2048}      // for two threads
        %y = merge_attention_parts(%parts)
    """
    chosen = target or Target.host()

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        if type(node) is not Attention or node.type.kind not in KINDS:
            return None
        part_keys = part_keys_of(node, chosen, threads)
        if part_keys is None:
            return None
        operands = (node.query, node.key, node.value, node.mask)
        cut = AttentionParts(
            *operands, **attributes_of(node), part_keys=part_keys, predicate=node.predicate
        )
        parts, layout = rewriter.emit(cut), node.result_layout
        return rewriter.emit(
            MergeAttentionParts(parts, node.masked_rows, layout, predicate=node.predicate)
        )

    return rewrite(function, rule)


def part_keys_of(node: Attention, target: Target, threads: int) -> int | None:
    """Return how many keys a part should have, None if the node should stay as it is."""
    batch, heads, queries, _ = by_heads(node.query.type.shape, node.query_layout)
    _, groups, keys, _ = by_heads(node.key.type.shape, node.key_layout)
    units = batch * groups
    if not units or queries * (heads // groups) > target.machine.attention_max_parted_rows:
        return None

    def largest_share(parts: int) -> float:
        return -(-units * parts // threads) / parts

    counts = range(1, max(1, min(threads, keys // target.machine.attention_min_part_keys)) + 1)
    least = min(map(largest_share, counts))
    if least > WORTH * largest_share(1):
        return None
    enough = next(parts for parts in counts if WORTH * largest_share(parts) <= least)
    return -(-keys // enough // STEP) * STEP
