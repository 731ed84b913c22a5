"""The caches of a processor, and which part of each a plan may count on."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.kernels.machine.fact import UNRECORDED, fact
from glow_nb.system.host_caches import KIBIBYTE

_SHARES = "Zen 5: twelve products by experiments/benchmarks/cache_shares.py."


@dataclass(frozen=True, kw_only=True)
class Caches:
    """Sizes of the data caches, and shares of them; each one is explained by its fact.

    Where the system says which caches the host has, its sizes are taken instead of these.
    """

    l1_bytes: int = fact(
        32 * KIBIBYTE, "bytes", "First-level data cache of one core.", "Manuals of the vendors."
    )
    l2_bytes: int = fact(
        256 * KIBIBYTE,
        "bytes",
        "Second-level cache of one core.",
        "The smallest of processors with such vectors.",
    )
    l3_bytes: int = fact(
        8192 * KIBIBYTE,
        "bytes",
        "Last-level cache, which cores share.",
        "Usual of processors with such vectors.",
    )
    l1_set_bytes: int = fact(
        4096,
        "bytes",
        "Lines so far apart fall into one set of the first-level cache: 64 sets of a line.",
        "Manuals of the vendors.",
    )
    l1_ways: int = fact(
        8,
        "lines",
        "Lines that a set of the first-level cache holds, as transposes count on.",
        "Zen 3 and Zen 4: manuals of the vendor.",
    )
    l1_share: float = fact(
        1.0,
        "of L1",
        "The part of a panel in an inner block takes at most so many times the first-level cache, "
        "and as much more where vectors take two passes through the units.",
        "Zen 5: twelve products with shares of 0.25, 0.5 and 2 had 0.94, 0.99 and 0.99 times the "
        "speed. Zen 4, 16 lanes: shares of 0.5, 1.5, 2 and 3 had 0.99, 1.007, 1.009 and 1.011.",
    )
    l1_written_share: float = fact(
        0.5,
        "",
        "Rows of a panel that is written to scratch over those of one that is only read: what is "
        "written must stay in the first-level cache until it is read.",
        "Zen 5: low-bit weights, 16 rows times 4,096 x 4,096, take 0.8 of the time.",
    )
    l1_scores_share: float = fact(
        0.5,
        "of L1",
        "The part that the scores of few rows of attention may fill: their keys and values are "
        "streams from DRAM, and the longer these are, the better.",
        UNRECORDED,
    )
    l1_panel_bytes: int = fact(
        16 * KIBIBYTE,
        "bytes",
        "A panel up to this size stays in the first-level cache from tile to tile.",
        "Zen 4: tiles of products, 32 KiB of first-level cache.",
    )
    l2_share: float = fact(
        0.5,
        "of L2",
        "The part for the left rows of a block and the sums of one panel, for a block of keys "
        "and a chunk of queries, for parts of a pool, or for running sums. The right operand, "
        "other queries or inputs pass through the rest.",
        f"{_SHARES} Shares of 0.25 and 0.75 had 0.99 times the speed each.",
    )
    l2_row_bytes: int = fact(
        128 * KIBIBYTE,
        "bytes",
        "The longest row of computed inputs that is kept from walk to walk: it should stay in the "
        "second-level cache.",
        "Half of the smallest second-level cache.",
    )
    l3_share: float = fact(
        0.25,
        "of L3",
        "The part, which other cores use too, for what a block of a bilinear algorithm keeps "
        "between its transforms, and for the rows of attention that wait in each thread.",
        UNRECORDED,
    )
