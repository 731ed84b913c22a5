"""Random nodes of attention."""

from __future__ import annotations

from typing import Any

from tests.property.onnx_draws.drawing import Drawing, recipe


@recipe("Attention")
def attention(g: Drawing, op: str) -> None:
    g.since(23)
    batch, groups, share, queries, keys, depth, width = (g.whole(1, 4) for _ in range(7))
    past, heads = g.whole(0, 2), groups * share
    kind, is_causal = g.kind(("float32", "float16")), g.chance()
    if past and is_causal:  # else ONNX Runtime counts from the last key, not from the first new one
        keys = queries

    def tokens(heads: int, count: int, size: int) -> str:
        shape = (batch, count, heads * size) if is_flat else (batch, heads, count, size)
        return g.tensor((kind,), shape=shape)

    is_flat = g.chance()
    operands = [
        tokens(heads, queries, depth),
        tokens(groups, keys, depth),
        tokens(groups, keys, width),
        _mask(g, kind, (batch, heads, queries, past + keys)) if g.chance() else "",
    ]
    if past:
        shapes = ((batch, groups, past, size) for size in (depth, width))
        operands += [g.tensor((kind,), shape=shape) for shape in shapes]
    attributes: dict[str, Any] = g.some(
        is_causal=int(is_causal), scale=g.number(0.1, 1), softcap=g.number(0.5, 3)
    )
    if is_flat:
        attributes |= {"q_num_heads": heads, "kv_num_heads": groups}
    g.add(op, operands, g.one_of(1, 3) if past == 0 else 3, **attributes)


def _mask(g: Drawing, kind: str, scores: tuple[int, ...]) -> str:
    """Return a mask that hides no key, or some, but not the first."""
    queries, keys = scores[2:]
    shape = g.one_of((queries, keys), scores, (scores[0], 1, queries, keys))
    if g.chance():
        return g.tensor((kind,), shape=shape)
    visible = g.array("bool", shape)
    visible[..., 0] = True
    return g.fresh(visible)
