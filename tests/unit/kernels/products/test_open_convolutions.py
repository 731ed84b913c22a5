"""Convolutions of images whose sizes only the run knows, against their operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.target import Target
from tests.targets import SMALL_CORE
from tests.unit.kernels.open_cases import Sizes, check_open, open_size
from tests.unit.kernels.products import test_channel_wise, test_convolution, test_depthwise

SETS: list[Sizes] = [
    {"b": 1, "h": 9, "w": 7},
    {"b": 2, "h": 20, "w": 33},
    {"b": 3, "h": 5, "w": 5},
    {"b": 1, "h": 6, "w": 130},
    *({"b": 1, "h": 5, "w": width} for width in (6, 8, 11, 12, 13, 14, 16, 24)),
]
HINTS = {"few": (1, 6, 6), "many": (4, 112, 160)}


def _shape(
    channels: int,
    depth: int,
    kernel: tuple[int, ...],
    stride: int = 1,
    pads: tuple[int, ...] | None = None,
    dilation: int = 1,
    group: int = 1,
    hints: tuple[int, ...] = HINTS["few"],
) -> ConvolutionShape:
    rank = len(kernel)
    names = "bhw" if rank == 2 else "bw"
    given = hints if rank == 2 else (hints[0], hints[-1])
    batch, *image = (open_size(*size) for size in zip(names, given, (1, 5, 5), strict=False))
    pads = pads if pads is not None else tuple(taps // 2 for taps in kernel) * 2
    steps, apart = (stride,) * rank, (dilation,) * rank
    return ConvolutionShape(batch, channels, depth, tuple(image), kernel, steps, pads, apart, group)


DIRECT = {
    "pointwise": _shape(24, 40, (1, 1)),
    "pointwise, strided": _shape(24, 17, (1, 1), 2),
    "3 x 3": _shape(8, 20, (3, 3)),
    "of colours": _shape(3, 16, (5, 5), 2),
    "padded behind": _shape(9, 16, (3, 3), 2, (0, 0, 1, 1)),
    "unpadded": _shape(6, 8, (3, 2), 1, (0, 0, 0, 0)),
    "far taps": _shape(6, 8, (3, 3), 1, (2, 2, 2, 2), 2),
    "groups": _shape(16, 48, (3, 3), group=2),
    "side by side": _shape(4, 24, (4, 4), 4, (0, 0, 0, 0)),
    "long sums": _shape(260, 24, (3, 3)),
    "of lines": _shape(12, 20, (5,), 2),
}
LANES = {
    "3 x 3": _shape(40, 40, (3, 3), group=40),
    "strided": _shape(9, 9, (3, 3), 2, group=9),
    "padded behind": _shape(16, 16, (3, 3), 2, (0, 0, 1, 1), group=16),
    "two results": _shape(12, 24, (3, 3), group=12),
    "far taps": _shape(8, 8, (5, 3), 1, (4, 2, 4, 2), 2, group=8),
    "of lines": _shape(8, 8, (3,), group=8),
    "of long lines": _shape(8, 8, (31,), group=8),
    "small groups": _shape(16, 16, (3, 3), group=4),
}


def _with_hints(shape: ConvolutionShape, hints: tuple[int, ...]) -> ConvolutionShape:
    return _shape(
        shape.channels,
        shape.depth,
        shape.kernel,
        shape.stride[0],
        shape.pads,
        shape.dilation[0],
        shape.group,
        hints,
    )


CHANNEL_WISE = ["3x3", "3x3 stride 2", "5x5 dilated", "one sided", "1x1 stride 4", "fourfold"]
CHANNEL_WISE += ["rank 1", "beyond the input", "pairs", "fours", "fours stride 3", "eights"]
QUICK = ["pointwise", "padded behind", "long sums", "of long lines", "small groups"]
QUICK += ["3x3 stride 2", "fours"]
"""Windows of 3 x 3 in steps of one are those of long sums and of small groups."""


def _cases(names: Iterable[str]) -> list[object]:
    """Return each of *names* with hints; the default run has a few, with few pixels."""
    return [
        pytest.param(
            name, hints, marks=() if name in QUICK and hints == "few" else pytest.mark.slow
        )
        for name in names
        for hints in HINTS
    ]


@pytest.mark.jit
@pytest.mark.parametrize(("name", "hints"), _cases(DIRECT))
def test_one_kernel_convolves_images_of_all_sizes(name: str, hints: str) -> None:
    shape = _with_hints(DIRECT[name], HINTS[hints])
    instruction = test_convolution.convolution_of(shape, test_convolution.FLOAT32, 16)
    check_open(instruction, SETS, SMALL_CORE, threads=(1, 3), absolute=0.02)


@pytest.mark.jit
@pytest.mark.parametrize(("name", "hints"), _cases(LANES))
def test_one_kernel_convolves_each_channel_of_images_of_all_sizes(name: str, hints: str) -> None:
    shape = _with_hints(LANES[name], HINTS[hints])
    check_open(
        test_depthwise.convolution_of(shape), SETS, SMALL_CORE, threads=(1, 3), absolute=0.005
    )


@pytest.mark.jit
def test_a_repeated_line_of_any_length_has_room_in_scratch() -> None:
    """Windows far apart leave out the end of the line."""
    length = open_size("w", 17, 17)
    shape = ConvolutionShape(1, 3, 27, (length,), (17,), (11,), (0, 0), (1,), 3)
    sets = [{"w": size} for size in (17, 19, 22, 58, 63)]
    check_open(test_depthwise.convolution_of(shape), sets, Target.host(16), absolute=1e-3)


@pytest.mark.jit
@pytest.mark.parametrize(("name", "hints"), _cases(CHANNEL_WISE))
def test_one_kernel_convolves_bytes_of_each_channel_of_all_sizes(name: str, hints: str) -> None:
    fixed = test_channel_wise.SHAPES[name]
    names = "bhw" if fixed.rank == 2 else "bw"
    given = [HINTS[hints][0], *HINTS[hints][-fixed.rank :]]
    batch, *image = (open_size(*size) for size in zip(names, given, (1, 5, 5), strict=False))
    shape = replace(fixed, batch=batch, input=tuple(image), pads=_wide_enough(fixed))
    factors = 4 if test_channel_wise.groups_of(fixed, 4) is not None else 2
    kinds = test_channel_wise.KINDS[factors]
    convolution = test_channel_wise.convolution_of(shape, kinds, factors, outside=3)
    check_open(convolution, SETS, SMALL_CORE, threads=(1, 3))


def _wide_enough(shape: ConvolutionShape) -> tuple[int, ...]:
    """Return pads with which five cells hold the window."""
    return shape.pads if shape.rank == 2 else (4, 4)
