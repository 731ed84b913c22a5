"""What must be in memory while each unit runs, in whatever order a part runs its units."""

from __future__ import annotations

from collections.abc import Iterator

from glow_nb.runtime.planning.units import Edge, Units


def live_edges(units: Units) -> list[list[Edge]]:
    """Return the edges that must be in memory while each of *units* runs.

    What has been copied may lie in the copy, and is not counted; nor is what may lie on others.
    """
    live: list[list[Edge]] = [[] for _ in units.units]
    for edge in units.edges:
        if edge.producer is not None and edge.buffer not in units.aliased:
            for number in _numbers(_where_live(units, edge, edge.producer)):
                live[number].append(edge)
    if units.is_merged:
        return live
    return [
        found if len(unit.instructions) == 1 else [edge for edge in found if edge.buffer in at_once]
        for unit, found, at_once in zip(units.units, live, units.at_once, strict=True)
    ]


def _where_live(units: Units, edge: Edge, producer: int) -> int:
    """Return while which units *edge*, which *producer* makes, must be in memory, as bits."""
    above, below = units.above, units.below
    made = below[producer] | 1 << producer
    needed = 1 << producer
    for reader in edge.readers:
        needed |= 1 << reader
        if _waits(units, reader, edge):
            needed |= above[reader]
    copied = 0
    for copier in copiers_of(units, edge):
        copied |= below[copier] | 1 << copier
    return made & needed & ~copied


def copiers_of(units: Units, edge: Edge) -> list[int]:
    """Return which of *units* copy *edge*."""
    users = (*edge.readers, *(() if edge.producer is None else (edge.producer,)))
    return [unit for unit in users if edge.buffer in units.units[unit].copied]


def _waits(units: Units, reader: int, edge: Edge) -> bool:
    """Return whether *reader* keeps *edge* in memory up to the last of what it reads.

    Of kernels that stay together, one may run before what others read is made. If it copies
    *edge*, there is the copy.
    """
    unit = units.units[reader]
    is_one = len(unit.instructions) == 1 or units.is_merged
    return is_one or edge.buffer in unit.copied


def _numbers(bits: int) -> Iterator[int]:
    """Yield the numbers of the *bits* that are set, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
