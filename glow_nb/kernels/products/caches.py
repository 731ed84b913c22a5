"""What the plans of products may count on: their parts of the caches, and what a byte costs."""

from __future__ import annotations

from collections import defaultdict

from glow_nb.alignment import CACHE_LINE_BYTES
from glow_nb.kernels.target import Target

LEVEL_1_SHARE = 1.0
"""A panel's part of an inner block takes at most so many times the first-level cache.

With 1 a part of it comes from the second-level cache again for each tile, in order, so that the
processor fetches it in time; with less, sums wait more often. Twelve products on one Zen 5 core:
shares of 0.25, 0.5 and 2 gave 0.94, 0.99 and 0.99 times the speed (experiments/cache_shares.py).
Where vectors take two passes through the units, there is twice the time to fetch, and
:func:`level_1_bytes` doubles the share: on one Zen 4 core with 16 lanes, shares of 0.5, 1.5, 2 and
3 gave 0.99, 1.007, 1.009 and 1.011 times the speed that 1 did.
"""

LONGEST_CHAIN = 384
"""The most products that are added up one after the other, however large the first-level cache is.

Each addition rounds. ResNet50 without Winograd's algorithm is 4.2e-6 of its largest output from its
results in float64 with chains of 192 (root of the mean square), 4.3e-6 with 384, 4.7e-6 with 768,
each with one chain in its first layer (see IMAGE_CHAIN).
"""

LEVEL_2_SHARE = 0.5
"""Part of the second-level cache for the left rows of a block of units and the sums of one panel,
or for a block of keys and a chunk of queries. The right operand, or the other queries, passes
through the rest, and what a neighbour on the core keeps there. The same products with shares of
0.25 and 0.75: 0.99 times the speed each.

Results that take more, and what is added to them, are fetched ahead: on a Zen 4 core, a convolution
of 64 to 256 channels of bytes with a residual sum then takes 0.8 of the time."""

LEVEL_3_SHARE = 0.25
"""Part of the last-level cache, which other cores use too, for what a block of a bilinear algorithm
keeps between its transforms. Rows of attention that wait while the keys pass take as much at most,
those of each thread by themselves."""

LEVEL_2_CYCLES, LEVEL_3_CYCLES, MEMORY_CYCLES = 0.02, 0.05, 0.1
"""Of each byte that comes from this level, beside the arithmetic that hides most of it."""

FAR_CYCLES = 400
"""About so long a core waits for main memory. The results of a tile that takes less are asked for
some tiles ahead, if all results take more than our share of the last-level cache; otherwise
nothing is gained. Together with blocks of 32 rows, 2,969 x 1,740 x 16 (rows x columns x inner)
takes 0.73 of the time on one Zen 3 core, 3,705 x 2,120 x 16 takes 0.66, 4,096 x 1,024 x 8 takes
0.74."""

NEAR_ROWS, COPIED_NEAR_ROWS = 8, 512
"""Rows of a block of such tiles, and up to a tile more; the second if each block makes the panels
of the right operand anew. The rows of a large result lie in as many pages of memory, and a
processor knows the places of two thousand of them at most. Blocks of 512 rows in place of all of
3,705 x 2,120 x 16 with a copied matrix, on that core: 0.70 of the time; of 3,072 x 1,024 x 8: 0.7.
Rows that are a power of two apart have the same place in the first-level cache, which holds eight
of them: blocks of 8 rows in place of 32 take 0.6 of the time for 4,096 x 4,096 x 4, 0.55 for
3,949 x 2,048 x 2, 0.8 for 4,096 x 1,024 x 8, 0.75 for 2,500 x 3,333 x 7 and 0.9 to 1 for sums of 16
to 30 products."""

FEWEST_AHEAD = 2
"""Tiles by which results are asked for ahead where blocks have so few rows: tiles that take longer
gain nothing by that. 4,096 x 1,000 x 64 takes 1.07 of the time on that core with 8 rows."""

COPIED_AGAIN = 0.25
"""The part of its results that the bytes take at most that such a block copies to scratch, although
the block before it has copied them, as taps that are far apart need the same pixels."""

WRITTEN_CYCLES = 0.1
"""Of each byte of results from beyond the second-level cache. Where a tile takes less, as with sums
of up to six products in vectors of 32 bytes, blocks have as few rows, too: 1,338 x 1,024 x 4 takes
0.6 of the time on that core, 1,000 x 2,048 x 3 takes 0.55, 400 x 4,096 x 5 takes 0.9,
1,500 x 1,000 x 5 as long."""

MOST_AHEAD = 16
"""Tiles by which results are asked for ahead at most."""

PACKING_CYCLES = 0.3
"""Of each byte of the left operand that is copied to scratch: no arithmetic hides that."""


WRITTEN_SHARE = 0.5
"""Rows of a panel that is written to scratch, beside those of one that is only read: what is
written must stay in the first-level cache until it is read, while other data pass. Weights of few
bits that become floats so, sixteen rows times 4096 x 4096: 0.8 of the time on one Zen 5 core."""

COPIED_CYCLES, TURNED_CYCLES = 0.1, 0.03
"""Of each byte of a panel that is copied to scratch, as it lies or transposed; the second for each
pass of a vector through the units. So the ways that are picked for 6 to 34 rows times transposed
matrices of 0.3 to 9 MB take 1.02 times as long as the best with 16 lanes on a Zen 4 core, and 1.01
times with 8."""

SAME_PLACE_BYTES = 4096
"""Lines of the memory so far apart have the same place in first-level caches of 64 sets."""

MOST_ROWS = 32
"""No tile has more rows: so many are as good as any number."""


def rows_side_by_side(distance: int, target: Target) -> int:
    """Return of how many rows, *distance* bytes apart, the first-level cache holds a line each.

    Each place of the cache holds as many lines as the cache has ways: its size over
    :data:`SAME_PLACE_BYTES`. More lines of one place drive each other out. One Zen 4 core
    multiplies 1,024 rows of 1,024 by 16 columns in 0.29 ms in tiles of 5 to 9 rows, in 0.50 ms in
    tiles of 14 and in 1.5 ms in tiles of 30; rows of 512 take 0.15 ms in tiles of up to 20 rows,
    and 0.29 ms in tiles of 30.
    """
    ways = max(1, target.l1_bytes // SAME_PLACE_BYTES)
    lines: defaultdict[int, set[int]] = defaultdict(set)
    for row in range(MOST_ROWS):
        start = row * distance
        sharing = lines[start % SAME_PLACE_BYTES // CACHE_LINE_BYTES]
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
    return int(LEVEL_1_SHARE * target.passes * target.l1_bytes)


def level_2_bytes(target: Target) -> int:
    """Return the bytes of the second-level cache that a plan may count on."""
    return int(LEVEL_2_SHARE * target.l2_bytes)


def byte_cycles(size: int, target: Target) -> float:
    """Return what a byte takes from the nearest cache that holds *size* bytes."""
    if size <= level_2_bytes(target):
        return LEVEL_2_CYCLES
    return LEVEL_3_CYCLES if size <= target.l3_bytes else MEMORY_CYCLES
