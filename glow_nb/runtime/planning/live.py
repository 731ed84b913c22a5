"""What must be in memory while each unit runs, in whatever order a part runs its units."""

from __future__ import annotations

from glow_nb.runtime.planning.units import Units, Value


def live_values(units: Units) -> list[list[Value]]:
    """Return the values that must be in memory while each of *units* runs.

    What has been copied may lie in the copy, and is not counted; nor is what may lie on others.
    """
    above, below = units.above, units.below
    live: list[list[Value]] = [[] for _ in units.units]
    for value in units.values:
        if value.producer is None or value.buffer in units.aliased:
            continue
        readers = _bits(value.readers)
        waiting = _bits([n for n in value.readers if _waits(units, n, value)])
        copiers = _bits(copiers_of(units, value))
        for number, found in enumerate(live):
            is_made = (above[number] | 1 << number) >> value.producer & 1
            is_copied = copiers & (above[number] | 1 << number)
            if not is_made or is_copied:
                continue
            if number == value.producer or readers >> number & 1 or below[number] & waiting:
                found.append(value)
    if units.is_merged:
        return live
    return [
        found
        if len(unit.instructions) == 1
        else [value for value in found if value.buffer in at_once]
        for unit, found, at_once in zip(units.units, live, units.at_once, strict=True)
    ]


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


def _bits(numbers: list[int] | tuple[int, ...]) -> int:
    return sum(1 << number for number in numbers)
