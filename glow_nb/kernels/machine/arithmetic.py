"""The arithmetic units: ports, latencies, and the time of a register tile."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.kernels.machine.fact import UNRECORDED, fact

_FITTED = "Zen 4, two FMA units of 256 bits: register tiles of all shapes, with 8 lanes."

_CHANNEL_WISE = (
    "Zen 5, 16 lanes: the 37 convolutions of MobileNetV2 and ShuffleNet take 0.9 to 1.6 times the "
    "estimate, 33 of them 0.9 to 1.15 times."
)


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """Numbers of the units that load, multiply and add; each one is explained by its fact."""

    fma_per_cycle: int = fact(
        2, "vectors a cycle", "Vectors that are multiplied and added in a cycle.", _FITTED
    )
    fma_latency_cycles: int = fact(
        4,
        "cycles",
        "Latency of a multiply-add. Tiles of 12 accumulators reach 99 % of the peak, of 8 to 10 "
        "they reach 91 to 94 %.",
        _FITTED,
    )
    load_ports: int = fact(
        2,
        "vectors a cycle",
        "Vectors that are loaded in a cycle. A tile of one vector per row reaches 88 % of the peak "
        "at most.",
        _FITTED,
    )
    fma_bytes: int = fact(
        64,
        "bytes",
        "The longest vector that a unit multiplies and adds in one pass. A longer one takes two.",
        "Manuals of the vendors.",
    )
    load_overhead: float = fact(
        1.07, "", "Measured over computed time of a step that waits for its loads.", _FITTED
    )
    deep_step_cycles: float = fact(
        0.05,
        "cycles",
        "What a step takes beside its multiply-adds, if a tile has three accumulators or more for "
        "each cycle of latency.",
        _FITTED,
    )
    shallow_step_cycles: float = fact(
        0.35, "cycles", "The same for a tile of fewer accumulators.", _FITTED
    )
    tile_load_cycles: float = fact(
        0.04,
        "cycles",
        "What a load of a tile of attention takes beside its place in the pipeline: of tiles of as "
        "many accumulators, those of the fewest loads are the fastest.",
        UNRECORDED,
    )
    paired_step_price: float = fact(
        1.55,
        "",
        "Time of a step of unsigned bytes and pairs of signed ones that do not saturate, over that "
        "of a step of pairs of 16 bits.",
        "Zen 3: six convolutions of bytes take 0.86 to 0.89 of the time of pairs of 16 bits in "
        "panels of 16 columns, 0.82 to 0.86 in those of 24. Vectors of 16 lanes were not measured.",
    )
    paired_row_cycles: float = fact(
        0.2, "cycles", "What each row of a tile adds to such a step.", "Zen 3: see the price."
    )
    widened_vector_cycles: float = fact(
        1.0,
        "cycles",
        "A vector of 16-bit floats, or one of them for all lanes, that a register tile converts to "
        "``float32`` beside its multiply-adds, for each pass of a vector.",
        "Emerald Rapids, 16 lanes: tiles of 4 rows x 6 vectors take 22 cycles a step, and 12 with "
        "operands of ``float32``.",
    )
    written_vector_cycles: float = fact(
        2.0,
        "cycles",
        "A vector of 16-bit floats of a panel that is converted to scratch before tiles read it, "
        "for each pass of a vector.",
        "Emerald Rapids, 16 lanes: 4, 8 and 12 rows times 2,048 x 5,632 take 0.85, 1.24 and 1.36 "
        "times the speed of tiles that convert.",
    )
    bfloat16_dot_price: float = fact(
        1.0,
        "multiply-adds of float32",
        "What vdpbf16ps takes, which multiplies pairs of bfloat16: at 2 and more, to widen them is "
        "as fast.",
        "Zen 4 and Zen 5: manuals of the vendor.",
    )
    lane_sum_cycles: float = fact(
        1.5, "cycles", "A step in which the lanes of a vector of sums are added up.", UNRECORDED
    )
    row_tile_cycles: float = fact(
        20.0,
        "cycles",
        "A tile of rows times rows, beside its products: until the first and after the last sum "
        "of lanes.",
        UNRECORDED,
    )
    unaligned_vector_bytes: int = fact(
        32,
        "bytes",
        "Vectors of a product that only waits for loads, where operands of users begin anywhere: a "
        "longer one meets two cache lines each time.",
        f"{UNRECORDED} Vectors of 64 bytes were up to 1.5 times slower.",
    )
    unroll_vectors: int = fact(
        4,
        "vectors",
        "Vectors that simple loops take at a time, enough to cover the latency of an operation.",
        UNRECORDED,
    )
    softmax_rows: tuple[int, ...] = fact(
        (4, 5, 3, 2),
        "rows",
        "Rows whose exponentials may be computed together, the best number first: what one waits "
        "for fills the time of the others.",
        UNRECORDED,
    )
    decoding_vectors: int = fact(
        4,
        "vectors",
        "Vectors of a panel of low-bit integers: so many sums hide the latency of an addition "
        "beside the operations that decode.",
        f"{UNRECORDED} With 128 rows of 4,096 x 4,096, panels of six vectors took 1.05 of the time "
        "of four.",
    )
    channel_wise_dot_cycles: float = fact(
        0.28,
        "cycles a vector",
        "Products of a vector of channels with a group of factors.",
        _CHANNEL_WISE,
    )
    channel_wise_copy_cycles: float = fact(
        0.58,
        "cycles a vector",
        "A vector of the input that is loaded, or stored to scratch in such groups.",
        _CHANNEL_WISE,
    )
