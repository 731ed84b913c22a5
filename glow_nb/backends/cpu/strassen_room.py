"""How many levels of Strassen's algorithm there is memory for."""

from __future__ import annotations

from collections.abc import Mapping

from glow_nb.hlir.graph import Value
from glow_nb.strassen import blocks_in, products_of

MOST_MORE_BYTES = 2**30
"""What the weights of a network in Strassen's form may take beside what they take otherwise: 3/4 of
their own size with one level, and 33/16 with two. A network of 500 MB of such weights has two
levels everywhere, one of 1.4 GB has one; of a larger one, those that come first have one, so that
it still finds room in the memory of the machine. It is so for each set of sizes that a network with
open sizes is compiled for."""


def levels_with_room(wanted: Mapping[Value, int]) -> dict[Value, int]:
    """Return how many of the levels that are *wanted* for each matrix there is room for.

    All matrices have one level before some have two: the first one saves more time for less memory.
    """
    found = dict.fromkeys(wanted, 0)
    left = MOST_MORE_BYTES
    for level in range(1, max(wanted.values(), default=0) + 1):
        for matrix, most in wanted.items():
            more = _more_bytes(matrix, level) - _more_bytes(matrix, level - 1)
            if most >= level and found[matrix] == level - 1 and more <= left:
                found[matrix] = level
                left -= more
    return found


def _more_bytes(matrix: Value, levels: int) -> int:
    """Return what the sums of blocks of *matrix* take beside its own size."""
    blocks = blocks_in(levels)
    return matrix.type.size_bytes * (products_of(levels) - blocks) // blocks
