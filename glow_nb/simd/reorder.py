"""Vectors whose lanes change places, or a few of which do: even and odd, the first, backwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from glow_nb.simd.lanes import I32, Lanes
from glow_nb.simd.memory import are_literal, literal
from glow_nb.simd.types import Vec


def _reordered(order: Callable[[int], range], meaning: str) -> Any:
    """Make an intrinsic of one vector whose result has the lanes of *order*, given their count."""

    @intrinsic
    def reordered(typing: Any, vector: Any) -> Any:
        if not isinstance(vector, Vec):
            return None
        lanes = order(vector.lanes)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return Lanes(builder, arguments[0], vector.kind, vector.lanes).shuffle(lanes).value

        return Vec(vector.kind, len(lanes))(vector), codegen

    reordered.__doc__ = meaning
    return reordered


even = _reordered(lambda n: range(0, n, 2), "``even(v)``: the lanes 0, 2, 4, ...")
odd = _reordered(lambda n: range(1, n, 2), "``odd(v)``: the lanes 1, 3, 5, ...")
reverse = _reordered(lambda n: range(n - 1, -1, -1), "``reverse(v)``: the last lane first.")


@intrinsic(prefer_literal=True)
def low_lanes(typing: Any, vector: Any, lanes: Any) -> Any:
    """``low_lanes(v, lanes)``: the first lanes of a vector."""
    if not (isinstance(vector, Vec) and are_literal(lanes)):
        return None
    count = literal(lanes)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = Lanes(builder, arguments[0], vector.kind, vector.lanes)
        return whole.shuffle(range(count)).value

    return Vec(vector.kind, count)(vector, lanes), codegen


@intrinsic
def with_low_lanes(typing: Any, vector: Any, first: Any) -> Any:
    """``with_low_lanes(v, w)``: the vector v with the lanes of w, a narrower one, as its first."""
    if not (isinstance(vector, Vec) and isinstance(first, Vec) and vector.kind is first.kind):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        low = Lanes(builder, arguments[1], vector.kind, first.lanes)
        last = first.lanes - 1
        wide = low.shuffle([min(lane, last) for lane in range(vector.lanes)])
        lanes = [lane + vector.lanes * (lane < first.lanes) for lane in range(vector.lanes)]
        order = ir.Constant(ir.VectorType(I32, vector.lanes), lanes)
        return builder.shuffle_vector(arguments[0], wide.value, order)

    return vector(vector, first), codegen
