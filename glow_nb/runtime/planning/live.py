"""What must be in memory while each unit runs, in whatever order a part runs its units."""

from __future__ import annotations

from collections.abc import Iterator

from glow_nb.runtime.planning.units import Units, Value


def live_values(units: Units) -> list[list[Value]]:
    """Return the values that must be in memory while each of *units* runs.

    What has been copied may lie in the copy, and is not counted; nor is what may lie on others.
    """
    live: list[list[Value]] = [[] for _ in units.units]
    for value in units.values:
        if value.producer is not None and value.buffer not in units.aliased:
            for number in _numbers(_where_live(units, value, value.producer)):
                live[number].append(value)
    if units.is_merged:
        return live
    return [
        found
        if len(unit.instructions) == 1
        else [value for value in found if value.buffer in at_once]
        for unit, found, at_once in zip(units.units, live, units.at_once, strict=True)
    ]


def _where_live(units: Units, value: Value, producer: int) -> int:
    """Return while which units *value*, which *producer* makes, must be in memory, as bits."""
    above, below = units.above, units.below
    made = below[producer] | 1 << producer
    needed = 1 << producer
    for reader in value.readers:
        needed |= 1 << reader
        if _waits(units, reader, value):
            needed |= above[reader]
    copied = 0
    for copier in copiers_of(units, value):
        copied |= below[copier] | 1 << copier
    return made & needed & ~copied


def copiers_of(units: Units, value: Value) -> list[int]:
    """Return which of *units* copy *value*."""
    users = (*value.readers, *(() if value.producer is None else (value.producer,)))
    return [unit for unit in users if value.buffer in units.units[unit].copied]


def _waits(units: Units, reader: int, value: Value) -> bool:
    """Return whether *reader* keeps *value* in memory up to the last of what it reads.

    Of kernels that stay together, one may run before what others read is made. If it copies
    *value*, there is the copy.
    """
    unit = units.units[reader]
    is_one = len(unit.instructions) == 1 or units.is_merged
    return is_one or value.buffer in unit.copied


def _numbers(bits: int) -> Iterator[int]:
    """Yield the numbers of the *bits* that are set, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
