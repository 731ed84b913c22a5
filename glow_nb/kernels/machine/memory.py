"""The cost of bytes from caches and DRAM: latencies, bandwidths, streams, the TLB."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.kernels.machine.fact import UNRECORDED, fact

_LAYERS = "Zen 4: layers of ResNet50, VGG19 and SqueezeNet."
_FEW_ROWS = "Zen 4, with 8 and with 16 lanes: 6 to 34 rows times transposed matrices."
_IN_PLACE = (
    "Zen 3, 8 lanes: 8 x 768 x 3,072 takes 670 us swept, 3,300 us in tiles of 96 bytes. Zen 4, 16 "
    "lanes: tiles of 384 bytes take 0.85 to 0.99 of the time of copies for 24 to 600 rows."
)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Numbers of transfers from DRAM to the registers; each one is explained by its fact."""

    l2_byte_cycles: float = fact(
        0.02,
        "cycles a byte",
        "A byte from the second-level cache, beside arithmetic that hides most of it.",
        UNRECORDED,
    )
    l3_byte_cycles: float = fact(
        0.05, "cycles a byte", "The same of a byte from the last-level cache.", UNRECORDED
    )
    dram_byte_cycles: float = fact(
        0.1, "cycles a byte", "The same of a byte from DRAM.", UNRECORDED
    )
    l2_vectors_per_cycle: float = fact(
        0.5,
        "vectors a cycle",
        "Weights that come from the second-level cache beside left rows from there.",
        "Zen 4, 8 lanes: alone they come at 0.8 vectors, 25 bytes, a cycle.",
    )
    l2_row_vectors_per_cycle: float = fact(
        0.7,
        "vectors a cycle",
        "Left rows that come from the second-level cache in order, for each tile of a product of "
        "rows with rows.",
        "Zen 4, with 8 and with 16 lanes: 22 bytes a cycle for 9 to 34 rows.",
    )
    l2_line_cycles: float = fact(
        2.0,
        "cycles a line",
        "A line of left rows that comes from the second-level cache, once for each panel. Wide "
        "panels win where no tap reads the same line again.",
        "Zen 5, 16 lanes: pointwise convolutions and products take 1.5 to 4.4.",
    )
    l3_stream_byte_cycles: float = fact(
        0.02,
        "cycles a byte",
        "A byte of filters or factors that comes again from the last-level cache, in order and "
        "ahead of use.",
        "Zen 3: with 0.052, picks of 11 layers of 40 x 40 to 80 x 80 took 1.05 times as long.",
    )
    dram_latency_cycles: int = fact(
        400,
        "cycles",
        "Latency of DRAM. The results of a tile that takes less are prefetched some tiles ahead.",
        "Zen 3: so, and in blocks of 32 rows, 2,969 x 1,740 x 16 takes 0.73 of the time, "
        "3,705 x 2,120 x 16 takes 0.66, 4,096 x 1,024 x 8 takes 0.74.",
    )
    dram_bytes_per_cycle: float = fact(
        7.0,
        "bytes a cycle",
        "DRAM to one core, when that is all there is to do.",
        "Zen 4: 10.5. With that, picks of 35 layers on Zen 3, which reads less, take 1.09 times as "
        "long as the best; with 7, 1.02.",
    )
    shared_dram_bytes_per_cycle: float = fact(
        11.0, "bytes a cycle", "DRAM to all cores together.", "Zen 4: 14. See dram_bytes_per_cycle."
    )
    dram_filter_penalty: float = fact(
        2.6,
        "",
        "How much longer a byte of a filter takes beyond our share of the last-level cache: it "
        "comes from DRAM in each run, whatever else the network does.",
        "Zen 3: 3 to 3.5 bytes a cycle.",
    )
    weight_byte_cycles: float = fact(
        0.01, "cycles a byte", "A byte of weights, most of which come in time.", _LAYERS
    )
    tlb_block_rows: int = fact(
        8,
        "rows",
        "Rows of a block that writes results to DRAM: each lies on a page of its own, and rows a "
        "power of two apart fall into one set of the first-level cache.",
        "Zen 3: 8 rows instead of 32 take 0.6 of the time for 4,096 x 4,096 x 4, 0.55 for "
        "3,949 x 2,048 x 2, 0.8 for 4,096 x 1,024 x 8, 0.75 for 2,500 x 3,333 x 7.",
    )
    tlb_copied_block_rows: int = fact(
        512,
        "rows",
        "The same where each block makes the panels of the right operand anew. The TLB knows two "
        "thousand pages at most.",
        "Zen 3: 512 rows instead of all of 3,705 x 2,120 x 16 take 0.70 of the time, of "
        "3,072 x 1,024 x 8 take 0.7.",
    )
    max_recopy_fraction: float = fact(
        0.25,
        "of results",
        "Bytes that such a block copies to scratch although the block before it has copied them, "
        "over those of its results, at most.",
        UNRECORDED,
    )
    min_prefetch_tiles: int = fact(
        2,
        "tiles",
        "How far ahead results are prefetched at least where blocks have so few rows: tiles that "
        "take longer gain nothing by that.",
        "Zen 3: 4,096 x 1,000 x 64 takes 1.07 of the time with blocks of 8 rows.",
    )
    max_prefetch_tiles: int = fact(
        16, "tiles", "How far ahead results are prefetched at most.", UNRECORDED
    )
    dram_result_byte_cycles: float = fact(
        0.1,
        "cycles a byte",
        "A byte of results from beyond the second-level cache. Where a tile takes less, blocks "
        "have few rows, too.",
        "Zen 3, 32-byte vectors: 1,338 x 1,024 x 4 takes 0.6 of the time, 1,000 x 2,048 x 3 "
        "takes 0.55, 400 x 4,096 x 5 takes 0.9, 1,500 x 1,000 x 5 as long.",
    )
    copied_dram_result_byte_cycles: float = fact(
        0.07,
        "cycles a byte",
        "A byte of such results where blocks copy the right matrix: they have more rows than are "
        "best then.",
        "Zen 3: transposed, 787 x 1,024 x 2 and 1,754 x 2,019 x 2 take 0.6 of the time if the "
        "matrix is copied before.",
    )
    packed_byte_cycles: float = fact(
        0.3,
        "cycles a byte",
        "A byte of left rows that is packed to scratch: no arithmetic hides that.",
        UNRECORDED,
    )
    staged_byte_cycles: float = fact(
        0.03, "cycles a byte", "A byte of a padded copy of the input.", _LAYERS
    )
    image_byte_cycles: float = fact(
        0.08,
        "cycles a byte",
        "A byte of columns that are added up in an image, or of the image.",
        "Zen 3: 36 to 48 GB/s of 0.4 to 1.3 MB.",
    )
    laid_out_byte_cycles: float = fact(
        0.16,
        "cycles a byte",
        "A byte of a right matrix, or a filter, that is laid out in panels at run time.",
        _LAYERS,
    )
    copied_byte_cycles: float = fact(
        0.1,
        "cycles a byte",
        "A byte of a panel that is copied to scratch as it lies.",
        f"{_FEW_ROWS} The picks take 1.02 times as long as the best with 16 lanes, 1.01 with 8.",
    )
    transposed_byte_cycles: float = fact(
        0.03,
        "cycles a byte",
        "A byte of a panel that is transposed to scratch, for each pass of a vector.",
        _FEW_ROWS,
    )
    waiting_vector_cycles: float = fact(
        2.0,
        "cycles a vector",
        "A vector of sums that waits from one inner block to the next: it is stored, and added to.",
        "Zen 4, 16 lanes: panels of 64 columns are up to 1.05 times as fast as those of 96.",
    )
    conflict_rows: int = fact(
        16,
        "rows",
        "Rows of a right matrix that are looked at: if the first-level cache holds a line of each, "
        "no row evicts another.",
        "Zen 3, 8 lanes: rows of 2 KiB are read in place as fast as others.",
    )
    conflict_byte_cycles: float = fact(
        0.06,
        "cycles a byte",
        "A byte of a right matrix whose rows evict each other from the first-level cache, for each "
        "tile of left rows.",
        "Zen 3, 8 lanes: 8 rows times 2,048 x 128 (columns x inner) take 1.9 times as long in "
        "place as 8 rows times 2,000 x 128.",
    )
    conflict_factor: float = fact(
        4 / 3,
        "",
        "How many times longer left rows take that evict each other from the first-level cache.",
        "Zen 4: 9 to 26 rows of 2,048 and 3,072 take 1.3 to 2.7 times longer than rows of other "
        "sizes.",
    )
    narrow_tile_bytes: int = fact(
        128,
        "bytes",
        "A narrower tile reads lines of a matrix that other tiles need as well, too far apart for "
        "the processor to fetch them ahead.",
        _IN_PLACE,
    )
    wide_tile_bytes: int = fact(
        256, "bytes", "A tile as wide reads whole lines of a matrix in order.", _IN_PLACE
    )
    l2_scattered_byte_cycles: float = fact(
        0.005,
        "cycles a byte",
        "A byte of a right matrix that tiles read in place, for each tile of left rows, beside "
        "what a byte of a copied panel takes, if the second-level cache holds the matrix.",
        _IN_PLACE,
    )
    far_scattered_byte_cycles: float = fact(
        0.02, "cycles a byte", "The same if the second-level cache does not hold it.", _IN_PLACE
    )
    narrow_scattered_byte_cycles: float = fact(
        0.05, "cycles a byte", "The same with narrow tiles.", _IN_PLACE
    )
    wide_scattered_byte_cycles: float = fact(
        0.0005, "cycles a byte", "The same with wide tiles, wherever the matrix lies.", _IN_PLACE
    )
