"""Let attention read and write heads where they lie among the channels of tokens."""

from __future__ import annotations

import dataclasses
from typing import Any

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import Attention, Broadcast, Reshape, Transpose
from glow_nb.hlir.ops.attention import AXES, HEADS, TOKENS, by_heads
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.permutation import inverse
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def lay_out_attention(function: Function) -> Function:
    """Replace transposes before and after attention by its layouts, and broadcasts by those of its
    mask.

    Axes of size 1 do not count: a transpose that moves only these is a reshape.

    ::

        %h = transpose(%x) {permutation = [0, 2, 1, 3]}  ->
        %a = attention(%h, %k, %v, none)                     %y = attention(%x, %k, %v, none)
        %y = transpose(%a) {permutation = [0, 2, 1, 3]}          {query_layout = "tokens",
                                                                  result_layout = "tokens"}
    """
    return rewrite(function, _rule, Attention, Transpose)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    match node:
        case Attention(predicate=None):
            changes = _untransposed(node, rewriter)
            return rewriter.emit(dataclasses.replace(node, name="", **changes)) if changes else None
        case Transpose(input=Attention(predicate=None) as attention) if (
            rewriter.use_count(attention) == 1
        ):
            return _transposed(attention, node.permutation, rewriter)
    return None


def _untransposed(node: Attention, rewriter: Rewriter) -> dict[str, Any]:
    """Return the fields of *node* that make transposes of its operands its own."""
    changes: dict[str, Any] = {}
    for name in ("query", "key", "value"):
        field = f"{name}_layout"
        found = _source(getattr(node, name), getattr(node, field), rewriter)
        if found is not None:
            changes[name], changes[field] = found
    if isinstance(node.mask, Broadcast) and node.mask.predicate is None:
        changes["mask"] = node.mask.input
    return changes


def _source(value: Value, layout: str, rewriter: Rewriter) -> tuple[Value, str] | None:
    """Return what a transposed *value* of *layout* is read from, and its layout there."""
    moved = _moved(value)
    if moved is None:
        return None
    source, sizes, permutation = moved
    for wanted in (HEADS, TOKENS):
        axes = permutation if wanted == layout else by_heads(permutation, TOKENS)
        if _moves_nothing(axes, sizes):
            shape = tuple(sizes[axis] for axis in axes)
            return _shaped(source, shape, rewriter), wanted
    return None


def _moved(value: Value) -> tuple[Value, tuple[int, ...], tuple[int, ...]] | None:
    """Return what *value* is a transpose of, in which shape, and the permutation; None if of none.

    A reshape may follow that adds and drops axes of size 1, as for heads that were repeated.
    """
    match value:
        case Transpose(predicate=None):
            return value.input, value.input.type.shape, value.permutation
        case Reshape(predicate=None, input=Transpose(predicate=None) as inner):
            before = [axis for axis in inner.permutation if inner.input.type.shape[axis] != 1]
            after = [axis for axis, size in enumerate(value.shape) if size != 1]
            if [inner.input.type.shape[n] for n in before] != [value.shape[n] for n in after]:
                return None
            place = dict(zip(after, before, strict=True))  # where it is in memory, -1 for a 1
            order = sorted(range(len(value.shape)), key=lambda axis: place.get(axis, -1))
            sizes = tuple(value.shape[axis] for axis in order)
            return inner.input, sizes, inverse(tuple(order))
    return None


def _transposed(
    attention: Attention, permutation: tuple[int, ...], rewriter: Rewriter
) -> Replacement:
    """Return the transposed result of *attention*, computed like that."""
    other = TOKENS if attention.result_layout == HEADS else HEADS
    shape = by_heads(attention.type.shape, TOKENS)
    if not _moves_nothing(tuple(AXES[TOKENS][axis] for axis in permutation), shape):
        return None
    result = rewriter.emit(dataclasses.replace(attention, name="", result_layout=other))
    wanted = tuple(attention.type.shape[axis] for axis in permutation)
    return _shaped(result, wanted, rewriter)


def _moves_nothing(permutation: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether the axes of a tensor of *shape* stay in order, but for those of size 1."""
    kept = [axis for axis in permutation if shape[axis] != 1]
    return kept == sorted(kept)


def _shaped(value: Value, shape: tuple[int, ...], rewriter: Rewriter) -> Value:
    return value if value.type.shape == shape else rewriter.emit(Reshape(value, shape))
