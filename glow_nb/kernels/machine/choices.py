"""Measured sizes from which on another algorithm is faster: attention, rows, integers, parts."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.kernels.machine.fact import UNRECORDED, fact


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Sizes and gains that decide between algorithms; each one is explained by its fact."""

    attention_chunk_rows: int = fact(
        48,
        "rows",
        "Rows of queries that share each panel in the first-level cache, at least.",
        UNRECORDED,
    )
    attention_matrix_chunk_rows: int = fact(
        32,
        "rows",
        "The same in matrix registers, at most, but for a tile of more: a block has as many keys "
        "as the first-level cache holds scores of.",
        "Emerald Rapids, 8 heads of 1,500 x 64: 64 rows of 512 keys take 1.3 times as long as 32 "
        "of 384.",
    )
    attention_block_rows: int = fact(
        2048,
        "rows",
        "Rows that share a packed block of keys, at most: to pack it costs as much as 8 to 40 "
        "rows, by the cache that keys come from.",
        UNRECORDED,
    )
    attention_min_packed_rows: int = fact(
        4,
        "rows",
        "From so many rows on keys are transposed; dot products along the depth cost less before.",
        UNRECORDED,
    )
    narrow_part_of_vector: float = fact(
        0.5,
        "of a vector",
        "The part of a vector up to which few columns are computed as rows of the transposed "
        "product.",
        "Zen 4: 4,000 rows of 1,024 times eight columns take 0.70 of the time with 16 lanes, 1.24 "
        "with 8.",
    )
    narrow_columns: int = fact(
        32,
        "columns",
        "The same, in columns, where the right matrix was transposed for the product.",
        "Zen 3: 256 rows of 4,096 times 8 columns take 0.5 of the time, times 32 columns 0.8; "
        "2,000 rows of 300 times 48 columns 0.9.",
    )
    narrow_transposed_byte_cycles: float = fact(
        0.2,
        "cycles a byte",
        "A byte of such a matrix that is transposed before the product.",
        f"{UNRECORDED} 0.3 from the last-level cache, less from a nearer one.",
    )
    narrow_result_cycles: float = fact(
        1.0,
        "cycles a result",
        "A result that is brought to its place again, if there are several columns.",
        UNRECORDED,
    )
    narrow_min_cycles: int = fact(
        4000,
        "cycles",
        "What each thread saves at least: the time of one more kernel and of a barrier.",
        UNRECORDED,
    )
    narrow_min_gain: float = fact(
        0.35, "of the time", "The part of the time that is saved at least.", UNRECORDED
    )
    narrow_min_gain_transposed: float = fact(
        0.2,
        "of the time",
        "The same for a matrix that was transposed for the product.",
        UNRECORDED,
    )
    integer_min_rows: int = fact(
        8,
        "rows",
        "Left rows from which it pays to lay out a right matrix of integers at run time: it takes "
        "0.25 cycles a byte, and a row saves 0.03 to 0.04.",
        "Zen 5: 128 rows of 12 matrices of 64 x 128 bytes are 2.3 (pairs) to 4.4 times (fours) as "
        "fast.",
    )
    paired_min_rows: int = fact(
        24,
        "rows",
        "Left rows from which pairs of bytes pay: fewer wait for the weights, which take more "
        "memory.",
        "Zen 3: 4 to 16 rows take 1.01 to 1.05 times as long with 8 MB of weights, 24 to 196 rows "
        "0.87 to 0.95.",
    )
    gradient_part_byte_cycles: float = fact(
        0.2,
        "cycles a byte",
        "A byte of a thread's part of a filter gradient: writing it, and adding it to the others.",
        UNRECORDED,
    )
    separable_pool_gain: float = fact(
        1.5,
        "times",
        "A pool is computed one dimension after the other where that takes so many times fewer "
        "operations on vectors.",
        "Zen 3: windows of 5 x 5 take 0.4 to 0.7 of the time, of 13 x 13 0.03 to 0.15; of 3 x 3, "
        "with 1.2 times fewer operations, they take 0.7 to 2.4 times as long.",
    )
    fourier_operations_per_cycle: float = fact(
        1.5,
        "vectors a cycle",
        "Loads, stores and arithmetic of vectors of the radix passes of a Fourier transform.",
        "Zen 3.",
    )
    fourier_sequence_cycles: float = fact(
        60.0, "cycles", "Loops around the passes, for each sequence.", "Zen 3."
    )
    fourier_product_rows: int = fact(
        6, "rows", "Rows that a product with roots reads its matrix once for.", "Zen 3."
    )
