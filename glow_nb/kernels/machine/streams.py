"""Streams of memory that a processor follows and prefetches."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.kernels.machine.fact import UNRECORDED, fact

_SWEPT = (
    "Zen 3, 32-byte vectors: one row times 1,024 x 4,096 and 4,096 x 1,024 takes 0.79 and 0.84 "
    "of the time, times 768 x 768 0.97 to 1.0. Zen 4, 64-byte vectors: 1,024 x 4,096 takes "
    "0.91 of the time with four vectors that it takes with two, 2,048 x 2,048 0.97."
)
_TRANSPOSES = "Zen 4: transposes."


@dataclass(frozen=True, kw_only=True)
class Streams:
    """How memory is best read and written in order; each one is explained by its fact."""

    panel_streams: int = fact(
        4,
        "streams",
        "Places of a panel that few left rows multiply at a time, where the second-level cache "
        "does not hold it.",
        "Zen 3: rows of 64 floats from one, two, four and eight places come at 12, 16, 20 and "
        "20 GB/s from DRAM, at 20, 33, 52 and 54 from the last-level cache.",
    )
    min_stream_bytes: int = fact(
        8192,
        "bytes",
        "The shortest stream, two pages: behind it, the next panel begins elsewhere.",
        "Zen 3: see panel_streams.",
    )
    streamed_byte_cycles: float = fact(
        0.07,
        "cycles a byte",
        "Multiply-adds that take less for each byte of the right operand wait for DRAM.",
        "Zen 3: one, two and four rows times 4,096 x 4,096 take 0.72, 0.70 and 0.81 of the time in "
        "streams, four times 1,280 x 1,280 from the last-level cache 1.01.",
    )
    fetched_lines: int = fact(
        16,
        "lines",
        "Lines that a tile fetches ahead at a time, between pieces of its dot. Some twenty are on "
        "their way at the same time, and a core waits if there are more.",
        f"With 8 or 32, products of 12 to 128 rows took 1.02 and 1.03 times as long. {UNRECORDED}",
    )
    row_streams: int = fact(
        8,
        "streams",
        "Right rows of a tile of rows times rows: so many streams are prefetched well.",
        UNRECORDED,
    )
    min_shared_tiles: int = fact(
        16,
        "tiles",
        "Tiles of left rows that are worth sharing among threads instead of panels of right rows.",
        "Zen 3: 100 rows times 8 x 4,096 (columns x inner), 17 tiles, take 0.89 of the time.",
    )
    swept_bytes: int = fact(
        512, "bytes", "Width of a tile of a matrix that is swept in its own order.", _SWEPT
    )
    far_swept_bytes: int = fact(
        128,
        "bytes",
        "The same if rows are longer and the second-level cache does not hold the matrix.",
        _SWEPT,
    )
    far_swept_vectors: int = fact(
        4, "vectors", "The least width of such a tile, if vectors are long.", _SWEPT
    )
    swept_rows: int = fact(
        8,
        "rows",
        "Rows of a swept matrix that are read side by side; twice as many where several tiles read "
        "them, unless they evict each other from the first-level cache.",
        "Zen 3: of 4, 8, 16 and 32, 8 are the fastest or close to it. With 8 instead of 16, 8 "
        "rows times 4,096 x 512 and 12 times 1,024 x 512 take 0.71 of the time.",
    )
    sweep_factor: float = fact(
        1.35,
        "",
        "Multiply-adds of a sweep over those of whole sums: sums wait after 8 products, or 16.",
        UNRECORDED,
    )
    transposed_lines: int = fact(
        32,
        "lines",
        "Lines that a transpose reads or writes at a time: stores of half a line fill a queue of "
        "64.",
        UNRECORDED,
    )
    transposed_steps: int = fact(
        512,
        "steps",
        "Steps along rows of a transposed result before the next ones are begun, at most.",
        UNRECORDED,
    )
    min_transposed_steps: int = fact(
        64, "steps", "Steps along rows of a transposed result at least.", _TRANSPOSES
    )
    min_transposed_lanes: int = fact(
        8,
        "lanes",
        "A tile of a transpose has no fewer columns for what it would lose from the cache.",
        UNRECORDED,
    )
    reduced_vectors: tuple[int, ...] = fact(
        (16, 8),
        "vectors",
        "Vectors of totals of a reduction across rows, the longest first: a longer piece of each "
        "row is read faster.",
        "Zen 4: the largest of 1,024 rows of 1,024 in a network takes 109 to 126 us with 16 "
        "vectors, 130 to 361 us with 8.",
    )
    stored_before_read: int = fact(
        2048,
        "elements",
        "Squares of a local response normalization that are stored before any is read: a core "
        "waits where it reads, not in whole stores, what it has just stored.",
        UNRECORDED,
    )
