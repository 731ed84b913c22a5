"""Which forks run side by side, if so many bytes are free, and what becomes a part of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from glow_nb.runtime.planning.forks import Fork, steps_of
from glow_nb.runtime.planning.layouts import BEFORE, BEHIND, Layout
from glow_nb.runtime.planning.units import Units


@dataclass(frozen=True)
class Piece:
    """Units that stay together.

    Attributes:
        units: Their numbers.
        is_continued: Whether the next piece goes on with it, so that both may be in one part.
    """

    units: tuple[int, ...]
    is_continued: bool


def chosen_layouts(forks: Sequence[Fork], free_bytes: float) -> dict[int, Layout]:
    """Return layouts by the numbers of their forks: what saves most for a byte, while it fits."""
    chosen: dict[int, Layout] = {}
    full: set[int] = set()
    for step in steps_of(forks):
        if step.fork not in full and step.size_bytes <= free_bytes:
            chosen[step.fork] = step.layout
            free_bytes -= step.size_bytes
        else:
            full.add(step.fork)
    return chosen


def pieces_of(
    units: Units, forks: Sequence[Fork], layouts: Mapping[int, Layout], most: float
) -> list[Piece]:
    """Return all units as pieces, each behind those that it reads from.

    Args:
        units: All units.
        forks: Where their paths fork.
        layouts: How forks run, by their numbers; others are in one piece with their meetings.
        most: How many bytes of weights a piece may keep, if it has several units.
    """
    pieces: list[list[int]] = [[]]
    for number, fork in enumerate(forks):
        last = [] if fork.last is None else [fork.last]
        if number not in layouts:
            pieces[-1] += [*fork.between, *last]
            continue
        places = dict(zip(fork.between, layouts[number].places, strict=True))
        pieces[-1] += [unit for unit, place in places.items() if place == BEFORE]
        pieces += _side_by_side(units, {u: place for u, place in places.items() if place >= 0})
        pieces.append([unit for unit, place in places.items() if place == BEHIND] + last)
    kept = [0] * len(units.units)
    for buffer, users in units.kept.items():
        for user in users:
            kept[user] += buffer.type.size_bytes
    return [small for piece in pieces for small in _cut(piece, kept, most)]


def _side_by_side(units: Units, places: Mapping[int, int]) -> list[list[int]]:
    """Return the units on each device together, cut where devices wait for each other."""
    entering = {
        unit: [n for n in units.before[unit] if places.get(n, place) != place]
        for unit, place in places.items()
    }
    waited_for = {other for others in entering.values() for other in others}
    pieces: list[list[int]] = []
    last: dict[int, list[int]] = {}
    for unit, place in places.items():
        if entering[unit] or place not in last:
            last[place] = []
            pieces.append(last[place])
        last[place].append(unit)
        if unit in waited_for:
            del last[place]
    return pieces


def _cut(piece: Sequence[int], kept: Sequence[int], most: float) -> list[Piece]:
    """Return *piece* in pieces that keep at most so many bytes, or have one unit."""
    found: list[list[int]] = []
    total = 0
    for unit in piece:
        total += kept[unit]
        if not found or total > most:
            found.append([])
            total = kept[unit]
        found[-1].append(unit)
    return [Piece(tuple(units), units is not found[-1]) for units in found]
