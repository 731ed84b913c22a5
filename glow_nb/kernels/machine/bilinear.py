"""The cost of transforms in Winograd's and Strassen's algorithms, and factors of estimates."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.kernels.machine.fact import UNRECORDED, fact

_LAYERS = "Zen 4: layers of ResNet50, VGG19 and SqueezeNet."
_STRASSEN = (
    "Zen 4: 43 products of 64 to 3,136 rows, 128 to 3,072 factors and columns. Estimates over "
    "those of direct sums differ from what is measured by 0.017 (standard deviation), by 0.034 "
    "with 8 lanes."
)


@dataclass(frozen=True, kw_only=True)
class Bilinear:
    """Numbers of bilinear algorithms and of direct sums; each one is explained by its fact."""

    direct_factor: float = fact(
        1.13, "", "Measured over estimated time of the multiply-adds of direct sums.", _LAYERS
    )
    winograd_factor: float = fact(
        1.03, "", "The same of Winograd's algorithm, without its transforms.", _LAYERS
    )
    winograd_tile_cycles: float = fact(
        72.0,
        "cycles",
        "A register tile of a Winograd product: storing it, and transforming it back later.",
        _LAYERS,
    )
    winograd_input_cycles: float = fact(
        9.6,
        "cycles a vector",
        "The transform of a vector of channels of each of the 6 x 6 elements of a tile.",
        f"{_LAYERS} Zen 3: 23 layers with tiles of 4 x 4 and of 6 x 6 outputs.",
    )
    winograd_filter_byte_cycles: float = fact(
        0.08,
        "cycles a byte",
        "A byte of a filter for Winograd's algorithm that comes from DRAM.",
        "Zen 3: with 0.04 to 0.08, picks of 35 layers with far weights take 1.02 times as long as "
        "the best.",
    )
    winograd_product_byte_cycles: float = fact(
        0.19,
        "cycles a byte",
        "A byte of products of integers, which are stored and transformed back.",
        "Zen 5: 28 layers, with 8 lanes without VNNI and with 16 lanes.",
    )
    winograd_transform_byte_cycles: float = fact(
        0.1,
        "cycles a byte",
        "A byte of a filter that is transformed for Winograd's algorithm at run time.",
        _LAYERS,
    )
    winograd_taps_byte_cycles: float = fact(
        0.08,
        "cycles a byte",
        "A byte of transformed weights of integers, which a kernel makes.",
        "Zen 3: 87 to 95 cycles for the 36 32-byte vectors that a vector of filters becomes.",
    )
    winograd_weights_l2_share: float = fact(
        0.5,
        "of L2",
        "The part for the weights that a kernel transforms at a time; other kernels need it for "
        "weights from DRAM.",
        UNRECORDED,
    )
    winograd_weights_l1_share: float = fact(
        1.5,
        "of L1",
        "Weights that are transformed at a time take at most so much, if the sums of a block do: "
        "most are multiplied before they leave that cache.",
        "Zen 3: a convolution of bytes over 7 x 7 x 512 takes 0.88 of the time, one over "
        "14 x 14 x 256 takes 0.98; over 28 x 28 x 128, where sums take more, it would be 1.1.",
    )
    winograd_run_vectors: int = fact(
        16,
        "vectors",
        "Vectors of filters that are transformed before their results are written: pieces of 512 "
        "bytes or more.",
        UNRECORDED,
    )
    winograd_fetched_lines: int = fact(
        32,
        "lines",
        "Lines of filters that are fetched for each element of a tile at most, where a kernel "
        "transforms them; lines beyond these are fetched when they are read.",
        UNRECORDED,
    )
    winograd_factors_ahead_bytes: int = fact(
        128,
        "bytes",
        "From the transformed inputs of an element that are written to those that are fetched, to "
        "be written next. They are written in as many streams as a tile has elements, more than "
        "processors look ahead for.",
        UNRECORDED,
    )
    strassen_input_cycles: float = fact(
        6.6, "cycles a vector", "Sums of a vector of the left matrix.", _STRASSEN
    )
    strassen_output_cycles: float = fact(
        7.4, "cycles a vector", "Sums of a vector of the result.", _STRASSEN
    )
    strassen_weight_byte_cycles: float = fact(
        0.08,
        "cycles a byte",
        "A byte of sums of weights that comes from DRAM for each block of rows.",
        _STRASSEN,
    )
    strassen_l3_share: float = fact(
        0.4,
        "of L3",
        "The part beyond which sums of weights come from DRAM again for each block.",
        _STRASSEN,
    )
    strassen_min_channels: int = fact(
        256,
        "channels",
        "Channels of the input and output of a pointwise convolution for Strassen's algorithm.",
        "Zen 4: with 256 instead of 512, ResNet50, ResNeXt50, Res2Net and a segmentation "
        "transformer take 0.985 of the time. With fewer channels little is saved.",
    )
