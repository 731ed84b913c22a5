"""Read what lies at known, evenly spaced places as a slice."""

from __future__ import annotations

import numpy as np

from glow_nb.hlir.graph import Function
from glow_nb.hlir.known import array_of
from glow_nb.hlir.ops import Gather, Reshape
from glow_nb.hlir.ops.gather import clamped
from glow_nb.hlir.ops.shape import slice_axis
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def gathers_to_slices(function: Function) -> Function:
    """Replace a gather by constant indices that make an arithmetic progression.

    Negative indices count from the end, as in a gather; a single index, or a scalar, is a
    progression, too.

    ::

        %g = gather(%x : <4 x 9>, %two) {axis = 1}      // the scalar 2
        ->
        %s = slice(%x) {starts = [0, 2], stops = [4, 3], steps = [1, 1]}
        %g = reshape(%s) {shape = [4]}
    """
    return rewrite(function, _rule, Gather)


def _rule(node: Gather, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None:
        return None
    indices = array_of(node.indices)
    if indices is None:
        return None
    size = node.input.type.shape[node.axis]
    taken = _progression([int(place) for place in np.ravel(clamped(indices, size))])
    if taken is None:
        return None
    result = slice_axis(rewriter, node.input, node.axis, taken)
    return result if result.type == node.type else rewriter.emit(Reshape(result, node.type.shape))


def _progression(places: list[int]) -> range | None:
    """Return *places* as a range, None if there are none or their distances differ."""
    if not places:
        return None
    step = places[1] - places[0] if len(places) > 1 else 1
    if step == 0:
        return None
    found = range(places[0], places[-1] + (1 if step > 0 else -1), step)
    return found if list(found) == places else None
