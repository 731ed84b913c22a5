"""The arena of a program: what lies where, and for how long."""

from __future__ import annotations

from glow_nb.llir.lives import lives_of
from glow_nb.llir.program import Program
from glow_nb.report.data import Life

MOST_LIVES = 6000
"""Activations that a page shows; of more, the largest."""


def life_rows(program: Program) -> tuple[tuple[Life, ...], int]:
    """Return the activations of an allocated *program*, and how many small ones are left out."""
    if program.arena is None:
        return (), 0
    found = lives_of(program)
    kept = sorted(found, key=lambda life: -life.size_bytes)[:MOST_LIVES]
    rows = tuple(
        Life(
            name=each.buffer.name,
            type=str(each.buffer.type),
            kind=each.kind,
            begin=each.begin,
            end=each.end,
            offset=each.offset,
            size=each.size_bytes,
            writers=each.writers,
        )
        for each in kept
    )
    return rows, len(found) - len(rows)
