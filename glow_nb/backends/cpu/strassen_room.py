"""For which matrices there is memory to multiply them by Strassen's algorithm."""

from __future__ import annotations

from collections.abc import Iterable

from glow_nb.hlir.graph import Value
from glow_nb.strassen import BLOCKS, PRODUCTS

MOST_MORE_BYTES = 2**30
"""What the weights of a network in Strassen's form may take beside what they take otherwise: 3/4 of
their own size. Of more than 1.4 GB of such weights, those that come first have the form, so that
the network still finds room in the memory of the machine. It is so for each set of sizes that a
network with open sizes is compiled for."""


def matrices_with_room(wanted: Iterable[Value]) -> set[Value]:
    """Return those of the matrices that are *wanted* whose sums of blocks there is room for."""
    found: set[Value] = set()
    left = MOST_MORE_BYTES
    for matrix in dict.fromkeys(wanted):
        more = matrix.type.size_bytes * (PRODUCTS - BLOCKS) // BLOCKS
        if more <= left:
            found.add(matrix)
            left -= more
    return found
