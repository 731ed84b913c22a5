"""The parts of the caches that the plans of products may use, and the cost of a byte."""

from __future__ import annotations

from collections import defaultdict

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.kernels.target import Target

LONGEST_CHAIN = 384
"""The most products that are added up one after the other, however large the first-level cache is.

Each addition rounds. ResNet50 without Winograd's algorithm is 4.2e-6 of its largest output from its
results in float64 with chains of 192 (root of the mean square), 4.3e-6 with 384, 4.7e-6 with 768,
each with one chain in its first layer (see IMAGE_CHAIN).
"""

MOST_ROWS = 32
"""No tile has more rows: so many are as good as any number."""


def rows_side_by_side(distance: int, target: Target) -> int:
    """Return of how many rows, *distance* bytes apart, the first-level cache holds a line each.

    Each place of the cache holds as many lines as the cache has ways: its size over
    ``l1_set_bytes``. More lines of one place drive each other out: tiles of too many rows take up
    to five times as long (docs/history.md).
    """
    machine = target.machine
    ways = max(1, machine.l1_bytes // machine.l1_set_bytes)
    lines: defaultdict[int, set[int]] = defaultdict(set)
    for row in range(MOST_ROWS):
        start = row * distance
        sharing = lines[start % machine.l1_set_bytes // CACHE_LINE_BYTES]
        sharing.add(start // CACHE_LINE_BYTES)
        if len(sharing) > ways:
            return row
    return MOST_ROWS


def longest_dot(row_bytes: int, target: Target, *, is_exact: bool = False) -> int:
    """Return the most rows of *row_bytes* of a panel that an inner block of a sum may take.

    Sums that are exact, those of integers, may be of any length.
    """
    fitting = level_1_bytes(target) // row_bytes
    return max(1, fitting if is_exact else min(LONGEST_CHAIN, fitting))


def level_1_bytes(target: Target) -> int:
    """Return the bytes that a panel's part of an inner block may take: the share of each pass."""
    return int(target.machine.l1_share * target.passes * target.machine.l1_bytes)


def level_2_bytes(target: Target) -> int:
    """Return the bytes of the second-level cache that a plan may count on."""
    return int(target.machine.l2_share * target.machine.l2_bytes)


def byte_cycles(size: int, target: Target) -> float:
    """Return what a byte takes from the nearest cache that holds *size* bytes."""
    machine = target.machine
    if size <= level_2_bytes(target):
        return machine.l2_byte_cycles
    return machine.l3_byte_cycles if size <= machine.l3_bytes else machine.dram_byte_cycles
