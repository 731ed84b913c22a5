"""The cost of matrix registers: the tiles of AMX."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.kernels.machine.fact import fact

_DOTS = (
    "Emerald Rapids: four dots in a row of 16, 14, 8 and 7 rows take 27.1, 23.9, 16.2 and 15.0 ns "
    "at about 2.4 GHz."
)
_MOVES = (
    "Emerald Rapids at 2.4 to 3 GHz, eight tiles in turn: 3.3 ns a load, 21 ns if rows begin "
    "16 bytes after a line; 6.2 ns a store."
)


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Cycles of instructions on tiles; each one is explained by its fact."""

    matrix_tile_cycles: float = fact(
        16.0,
        "cycles",
        "A dot of full tiles: 16 rows of 64 bytes, and 16 columns. One of fewer rows takes as much "
        "less, down to 8 rows; of still fewer it takes little less.",
        _DOTS,
    )
    matrix_latency_cycles: float = fact(
        36.0, "cycles", "From one dot to the next that adds to the same sums.", _DOTS
    )
    matrix_load_cycles: float = fact(
        8.0,
        "cycles",
        "A tile that is loaded from the first-level cache, of rows that begin on cache lines. Of "
        "rows that meet two lines each it takes six times as long.",
        _MOVES,
    )
    matrix_store_cycles: float = fact(16.0, "cycles", "A tile that is stored.", _MOVES)
    matrix_far_load_cycles: float = fact(
        21.0,
        "cycles",
        "A tile that is loaded from the second-level cache, of rows that begin on cache lines.",
        "Emerald Rapids at 2.5 GHz: four loads take 34 to 36 ns from 64 KiB to 1 MiB, 16 ns up to "
        "44 KiB.",
    )
    matrix_l1_share: float = fact(
        0.67,
        "of L1",
        "The part of a panel in an inner block that takes no more of the first-level cache stays "
        "there: left rows pass through the rest.",
        "Emerald Rapids, 48 KiB: loads of a panel from the second-level cache take 1.3 times as "
        "long as the dots of 2 x 2 tiles.",
    )
    matrix_panel_share: float = fact(
        2.0,
        "of L1",
        "The part of a panel in an inner block takes at most so many times the first-level cache: "
        "more inner blocks have more sums that wait.",
        "Emerald Rapids, 48 KiB: 128 x 768 x 768 takes 1.08, 1.03 and 1 times as long with parts "
        "of 0.33, 0.5 and 1, 128 x 3,072 x 768 takes 1.07, 1.06, 1.03, 1 and 1.03 times as long "
        "with those of 0.67, 1, 1.33, 2 and 4.",
    )
    matrix_least_reads: int = fact(
        6,
        "reads",
        "Left rows that are read so often, by panels and taps, are copied to planes: rows of a "
        "plane follow one another, and load faster than those that lie apart.",
        "Emerald Rapids: dots of 128 rows of 1,536 bytes and 768 columns take 95 to 97 us, and 63 "
        "to 68 us of rows that follow one another. A copy is a read and a write.",
    )
    matrix_configure_cycles: float = fact(
        200.0,
        "cycles",
        "Tiles that get their sizes, and are released after use.",
        "Emerald Rapids at 2.4 to 3 GHz: 83 ns, with a tile of zeros between the two.",
    )
