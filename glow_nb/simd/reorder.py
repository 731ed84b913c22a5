"""Vectors whose lanes change places, or a few of which do: even and odd, the first, backwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.extending import intrinsic

from glow_nb.simd.lanes import Lanes
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
