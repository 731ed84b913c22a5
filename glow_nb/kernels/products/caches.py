"""What the plans of products may count on: their parts of the caches, and what a byte costs."""

from __future__ import annotations

from glow_nb.kernels.target import Target

LEVEL_1_SHARE = 0.5
"""Part of the first-level cache for a panel's part of an inner block. The left rows of a tile and
the sums that wait pass through the rest."""

LEVEL_2_SHARE = 0.5
"""Part of the second-level cache for the left rows of a block of units and the sums of one panel,
or for a block of keys and a chunk of queries. The right operand, or the other queries, passes
through the rest, and what a neighbour on the core keeps there."""

LEVEL_3_SHARE = 0.25
"""Part of the last-level cache, which other cores use too, for what a block of a Winograd
convolution keeps between its transforms."""

LEVEL_2_CYCLES, LEVEL_3_CYCLES, MEMORY_CYCLES = 0.02, 0.05, 0.1
"""Of each byte that comes from this level, beside the arithmetic that hides most of it."""


def longest_dot(row_bytes: int, target: Target) -> int:
    """Return the most rows of *row_bytes* of a panel that an inner block of a sum may take."""
    return max(1, int(LEVEL_1_SHARE * target.l1_bytes) // row_bytes)


def level_2_bytes(target: Target) -> int:
    """Return the bytes of the second-level cache that a plan may count on."""
    return int(LEVEL_2_SHARE * target.l2_bytes)


def byte_cycles(size: int, target: Target) -> float:
    """Return what a byte takes from the nearest cache that holds *size* bytes."""
    if size <= level_2_bytes(target):
        return LEVEL_2_CYCLES
    return LEVEL_3_CYCLES if size <= target.l3_bytes else MEMORY_CYCLES
