"""The masks of attention that is written out, and the one mask that does the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, prod

import numpy as np

from glow_nb.base.size import surely
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Value
from glow_nb.hlir.known import array_of, uniform
from glow_nb.hlir.ops import Add, And, Broadcast, Not, Reshape, Select
from glow_nb.hlir.ops.families import splat, wide
from glow_nb.hlir.optimize.open_triangles import triangle_of
from glow_nb.hlir.rewrite import Rewriter

NEVER_SEEN = -1e4
"""A score that stands for those of keys that a constant hides weighs nothing, if it is not above.

Its exponential is 0 beside one that is larger by 104, and a query that sees a key has such a score.
"""

NEVER_REACHED = -1e30
"""A number that hides what it is added to, however large that is."""


@dataclass(frozen=True)
class Masking:
    """One thing that hides scores.

    Attributes:
        value: A tensor that is added to scores; or, if it is bool, that selects between a score and
            *fill*.
        batch: Sizes of the scores before queries and keys; *value* broadcasts to these.
        fill: The score of what is not chosen, or the greatest number that is added and hides.
        is_shown: True if true chooses the score.
        visible: Which scores are seen, if that is known and all that *value* says.
        diagonal: How many keys beyond its own number each query sees, if sizes are open, and that
            is all that *value* says.
    """

    value: Value
    batch: tuple[int, ...]
    fill: float = -inf
    is_shown: bool = True
    visible: Array | None = None
    diagonal: int | None = None


@dataclass(frozen=True)
class Mask:
    """The operand and the attributes of an attention that do what several maskings did."""

    value: Value | None = None
    fill: float = -inf
    offset: int | None = None


def added(mask: Value, scores: TensorType) -> Masking:
    """Return what adding *mask* does to *scores*."""
    array, batch = array_of(mask), scores.shape[:-2]
    if array is None:
        choice = _choice_of_addends(mask)
        if choice is None or choice[1] > NEVER_REACHED:
            return Masking(mask, batch)
        condition, fill, is_shown = choice
        diagonal = _diagonal(condition, scores, is_shown=is_shown)
        return Masking(mask, batch, -inf if diagonal is None else fill, diagonal=diagonal)
    seen, numbers = array == 0, wide(array)
    greatest = float(numbers.max(initial=-inf, where=~seen))
    visible = _known(seen, greatest) if greatest <= NEVER_REACHED else None
    return Masking(mask, batch, greatest if visible is not None else -inf, visible=visible)


def chosen(condition: Value, other: Value, scores: TensorType, *, is_shown: bool) -> Masking | None:
    """Return what a choice between *scores* and *other* does; None if that is not one number."""
    fill = uniform(other)
    if fill is None or fill == inf:
        return None
    array, visible, diagonal = array_of(condition), None, None
    if array is not None:
        visible = _known(array if is_shown else ~array, fill)
    elif fill <= NEVER_SEEN:
        diagonal = _diagonal(condition, scores, is_shown=is_shown)
    return Masking(condition, scores.shape[:-2], fill, is_shown, visible, diagonal)


def _diagonal(condition: Value, scores: TensorType, *, is_shown: bool) -> int | None:
    """Return how many keys beyond its own number each query sees, at least its own, by *condition*.

    None if it is not known of all *scores*, whatever their sizes are.
    """
    if condition.type.shape[-2:] != scores.shape[-2:]:
        return None
    found = triangle_of(condition)
    if found is None or found.is_lower is not is_shown or not surely(found.offset, ">=", 0):
        return None
    return found.offset


def _choice_of_addends(mask: Value) -> tuple[Value, float, bool] | None:
    """Return what *mask* chooses by between 0 and a number that hides, and that number.

    Last comes whether true chooses 0.
    """
    match mask:
        case Broadcast(input=Select() as inner, predicate=None) | (Select() as inner):
            lhs, rhs = _repeated(inner.lhs), _repeated(inner.rhs)
            for zero, fill, is_shown in ((lhs, rhs, True), (rhs, lhs, False)):
                if inner.predicate is None and zero == 0 and fill is not None:
                    return inner.condition, float(fill), is_shown
    return None


def _repeated(value: Value) -> float | None:
    """Return the number that *value* repeats."""
    while isinstance(value, Broadcast) and value.predicate is None:
        value = value.input
    number = uniform(value)
    return None if number is None else float(number)


def _known(seen: Array, fill: float) -> Array | None:
    """Return *seen* if what it hides weighs nothing with a score of *fill*."""
    weighs_nothing = fill == -inf or (fill <= NEVER_SEEN and seen.any(axis=-1).all())
    return seen if weighs_nothing and seen.size else None


def joined(maskings: Sequence[Masking], scores: TensorType, rewriter: Rewriter) -> Mask | None:
    """Return one mask of all *maskings* for *scores*, [batch, heads, queries, keys].

    None if no mask does the same, or none that is not larger than each of them.
    """
    mask, kinds = Mask(), (ElementKind.BOOL, ElementKind.FLOAT32, scores.kind)
    maskings = [m for m in maskings if m.visible is None or not m.visible.all()]
    for masking in maskings:
        is_bool = masking.value.type.kind is ElementKind.BOOL
        if len(maskings) > 1 and masking.fill != -inf:  # what one hides, another one changes
            if is_bool:
                return None
            masking = replace(masking, fill=-inf, visible=None, diagonal=None)
        offset = masking.diagonal
        if masking.visible is not None:
            rows = (*masking.visible.shape[:-2], *scores.shape[2:])
            offset = diagonal_of(np.broadcast_to(masking.visible, rows))
        if offset is not None and mask.offset is None:
            mask = replace(mask, offset=offset)
            continue
        if masking.value.type.kind not in kinds:
            return None
        value = _by_heads(_written(masking, rewriter), masking.batch, scores.shape[:2], rewriter)
        if value is not None and mask.value is not None:
            value = _both(mask.value, value, rewriter)
        if value is None:
            return None
        mask = replace(mask, value=value, fill=masking.fill if is_bool else -inf)
    return mask


def diagonal_of(visible: Array) -> int | None:
    """Return how many keys beyond its own number each query sees, None if it is not that.

    *visible* is ``[..., queries, keys]`` and hides something.
    """
    triangle = visible.reshape(-1, *visible.shape[-2:])
    queries, keys = triangle.shape[1:]
    counts = triangle[0].sum(axis=1)
    for query, count in enumerate(counts.tolist()):
        if 0 < count < keys:
            offset = count - 1 - query
            wanted = np.tri(queries, keys, offset, dtype=np.bool_)
            return offset if (triangle == wanted).all() else None
    return None


def _written(masking: Masking, rewriter: Rewriter) -> Value:
    """Return the mask that *masking* is alone: bool, or added."""
    is_hidden = masking.value.type.kind is ElementKind.BOOL and not masking.is_shown
    return rewriter.emit(Not(masking.value)) if is_hidden else masking.value


def _by_heads(
    value: Value, batch: tuple[int, ...], wanted: tuple[int, ...], rewriter: Rewriter
) -> Value | None:
    """Return a mask for scores of sizes *batch* as one for *wanted* samples and heads."""
    if batch == wanted:
        return value
    own, rows = value.type.shape[:-2], value.type.shape[-2:]
    if prod(own) == 1 or own == batch:
        whole = (1, 1) if prod(own) == 1 else wanted
        return rewriter.emit(Reshape(value, (*whole, *rows)))
    cuts = range(len(batch) + 1)
    cut = next((i for i in cuts if (prod(batch[:i]), prod(batch[i:])) == wanted), None)
    if cut is None:
        return None
    samples, heads = (
        part if prod(part) == 1 else whole
        for part, whole in ((own[:cut], batch[:cut]), (own[cut:], batch[cut:]))
    )
    if (*samples, *heads) != own:
        value = rewriter.emit(Broadcast(value, (*samples, *heads, *rows)))
    return rewriter.emit(Reshape(value, (prod(samples), prod(heads), *rows)))


def _both(first: Value, second: Value, rewriter: Rewriter) -> Value | None:
    """Return the mask that hides what either does, None if it is larger than both."""
    shapes = first.type.shape, second.type.shape
    if tuple(m if n == 1 else n for n, m in zip(*shapes, strict=True)) not in shapes:
        return None
    bools = [v for v in (first, second) if v.type.kind is ElementKind.BOOL]
    addends = [v for v in (first, second) if v.type.kind is not ElementKind.BOOL]
    if not addends:
        return rewriter.emit(And(first, second))
    if not bools:
        return rewriter.emit(Add(first, second)) if first.type.kind is second.type.kind else None
    (seen,), (addend,) = bools, addends
    return rewriter.emit(Select(seen, addend, splat(rewriter, addend.type, -inf, "hidden")))
