"""Depthwise convolution kernels against the definition."""

from dataclasses import replace

import numpy as np
import pytest

from glow_nb.base.plan import Plan
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.kernels.operators.packed_instructions import (
    DepthwiseConvolutionInst,
    GroupedConvolutionInst,
)
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.depthwise import (
    DEPTHWISE,
    MAX_PIXELS,
    plan_depthwise,
    suits_lanes,
    tile_size,
)
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.program import Buffer
from tests.in_turn import marked
from tests.unit.kernels.products.test_convolution import conv, reference
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

FLOAT32 = ElementKind.FLOAT32


def convolution_of(
    shape: ConvolutionShape, kind: ElementKind = FLOAT32
) -> DepthwiseConvolutionInst | GroupedConvolutionInst:
    """Return the instruction of *shape*: a grouped one if groups have several channels."""

    def buffer(name: str, *sizes: int) -> Buffer:
        return Buffer(name, TensorType(kind, sizes))

    size = shape.channels_per_group
    made = GroupedConvolutionInst if size > 1 else DepthwiseConvolutionInst
    return made(
        buffer("dest", shape.batch, *shape.output, shape.depth),
        buffer("input", shape.batch, *shape.input, shape.channels),
        buffer("filter", *shape.kernel, *([size] if size > 1 else []), shape.depth),
        buffer("bias", shape.depth),
        kernel=shape.kernel,
        stride=shape.stride,
        pads=shape.pads,
        dilation=shape.dilation,
    )


def check(
    shape: ConvolutionShape,
    target: Target,
    threads: int = 1,
    kind: ElementKind = FLOAT32,
    plan: Plan | None = None,
) -> None:
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, (shape.batch, *shape.input, shape.channels)).astype(kind.dtype)
    inputs = shape.channels_per_group
    w = random.integers(-4, 5, (shape.depth, *shape.kernel, inputs)).astype(kind.dtype)
    bias = random.integers(-9, 10, shape.depth).astype(kind.dtype)
    filter = np.ascontiguousarray(np.moveaxis(w if inputs > 1 else w[..., 0], 0, -1))
    dest, whole = guarded((shape.batch, *shape.output, shape.depth), kind)
    instruction = replace(convolution_of(shape, kind), plan=plan)
    kernel = RunningKernel(generate_kernel(instruction, target), target)
    kernel(dest, x, filter, bias, threads=threads)
    expected = reference(shape, x, w) + bias.astype(float)
    np.testing.assert_array_equal(dest.astype(float), expected)
    assert guards_are_intact(whole)


GROUPED = {
    "pairs": conv(2, 20, 20, (9, 13), (3, 3), pads=1, group=10),
    "fours": conv(1, 36, 36, (7, 14), (3, 3), pads=1, group=9),
    "fours stride 2": conv(1, 12, 12, (9, 27), (3, 3), stride=2, pads=1, group=3),
    "eights": conv(1, 40, 40, (5, 9), (3, 2), pads=(0, 2, 1, 0), group=5),
    "pairs dilated": conv(1, 6, 6, (12, 13), (5, 3), pads=4, dilation=2, group=3),
    "fours rank 3": conv(2, 8, 8, (4, 3, 6), (1, 3, 3), pads=1, group=2),
    "pairs of 1x1": conv(2, 14, 14, (3, 4), (1, 1), group=7),
    "pairs in a long line": conv(2, 14, 14, (70,), (25,), pads=12, group=7),
}

SHAPES = {
    "3x3": conv(2, 20, 20, (9, 13), (3, 3), pads=1, group=20),
    "3x3 stride 2": conv(1, 16, 16, (9, 27), (3, 3), stride=2, pads=1, group=16),
    "one channel": conv(1, 1, 1, (6, 5), (3, 3), pads=1, group=1),
    "5x5 dilated": conv(1, 9, 9, (12, 13), (5, 5), pads=4, dilation=2, group=9),
    "7x7 on 4x4": conv(1, 33, 33, (4, 4), (7, 7), pads=3, group=33),
    "9x9": conv(1, 17, 17, (11, 22), (9, 9), pads=4, group=17),
    "unpadded": conv(1, 24, 24, (5, 40), (3, 2), group=24),
    "one sided": conv(1, 8, 8, (5, 9), (3, 3), pads=(0, 2, 2, 0), group=8),
    "rank 1": conv(2, 10, 10, (50,), (9,), pads=4, group=10),
    "rank 3": conv(2, 5, 5, (4, 5, 6), (3, 2, 3), pads=1, group=5),
    "1x1": conv(2, 7, 7, (3, 4), (1, 1), group=7),
    "twofold": conv(2, 6, 12, (5, 9), (3, 3), pads=1, group=6),
    "threefold": conv(1, 5, 15, (5, 12), (3, 3), stride=2, pads=1, group=5),
    "twentyfold": conv(1, 2, 40, (4, 6), (3, 3), pads=1, group=2),
    "eightfold": conv(2, 3, 24, (6, 9), (3, 5), pads=1, group=3),
    "sevenfold": conv(1, 5, 35, (4, 7), (3, 3), pads=1, group=5),
    "sixfold in a long line": conv(1, 7, 42, (60,), (23,), pads=11, group=7),
    "elevenfold": conv(1, 5, 55, (4, 7), (3, 3), pads=1, group=5),
    "threefold rank 3": conv(1, 3, 9, (3, 4, 5), (2, 3, 2), pads=1, group=3),
    "beyond the input": conv(1, 4, 4, (2, 2), (3, 3), pads=4, group=4),
    "long line": conv(2, 37, 37, (60,), (29,), pads=(30, 11), group=37),
    "long line, far taps": conv(1, 9, 9, (150,), (5,), pads=60, dilation=30, group=9),
    "long line, stride 2": conv(1, 20, 20, (61,), (33,), stride=2, pads=16, group=20),
    "long line, twofold": conv(2, 5, 10, (40,), (23,), pads=11, group=5),
    "lines are frames": conv(1, 12, 12, (4, 5, 9), (5, 1, 1), pads=(2, 0, 0, 2, 0, 0), group=12),
    "lines are rows": conv(2, 6, 6, (30, 7), (9, 1), pads=(8, 0, 0, 0), group=6),
}


ALIKE = frozenset({"pairs", "fours", "fours stride 2", "pairs in a long line", "pairs of 1x1"})
"""Groups for the slow run: other kinds are in pairs, and other groups are dilated; single channels
are strided and in long lines."""


def grouped_with_one_width() -> list[object]:
    """Return each shape with all widths that suit it; of most, one is in the default run."""
    cases: list[object] = []
    for number, (name, shape) in enumerate(GROUPED.items()):
        widths = [lanes for lanes in LANE_COUNTS if suits_lanes(shape, FLOAT32, lanes)]
        quick = widths[number % len(widths)]
        is_slow = {n: n != quick or name in ALIKE for n in widths}
        marked = [(n, pytest.mark.slow if is_slow[n] else ()) for n in widths]
        cases += [pytest.param(name, lanes, marks=marks) for lanes, marks in marked]
    return cases


SHOWN = ["5x5 dilated", "beyond the input", "lines are rows", "rank 3", "eightfold", "elevenfold"]


@pytest.mark.jit
@pytest.mark.parametrize("name", marked(SHAPES, only=SHOWN))
def test_depthwise_convolution_keeps_its_definition(name: str) -> None:
    lanes = LANE_COUNTS[len(name) % len(LANE_COUNTS)]
    check(SHAPES[name], Target.host(lanes), threads=1 + len(name) % 4)


@pytest.mark.jit
@pytest.mark.parametrize(("name", "lanes"), grouped_with_one_width())
def test_channels_of_a_group_share_a_vector(name: str, lanes: int) -> None:
    check(GROUPED[name], Target.host(lanes), threads=1 + len(name) % 4)


@pytest.mark.parametrize(
    ("taps", "size"), [(3, (2, 4)), (5, (1, 9)), (8, (1, 6)), (9, (1, 10)), (31, (1, 10))]
)
def test_tiles_leave_enough_sums_to_wait_for(taps: int, size: tuple[int, int]) -> None:
    shape = conv(1, 32, 32, (40, 40), (taps, taps), pads=taps // 2, group=32)
    assert tile_size(shape, lanes=8, registers=16) == size


@pytest.mark.parametrize("name", [name for name in SHAPES if "lin" in name])
def test_ends_of_long_lines_are_not_written_out(name: str) -> None:
    shape, target = SHAPES[name], Target("x86_64-unknown-linux-gnu", "haswell", "+avx2,+fma", 8)
    longer = replace(shape, input=(4 * shape.input[0], *shape.input[1:]))
    texts = [generate_kernel(convolution_of(s), target).text for s in (shape, longer)]
    assert max(text.count("tile_slide") for text in texts) <= 8


@pytest.mark.parametrize("lanes", LANE_COUNTS)
@pytest.mark.parametrize("times", [2, 3, 4, 6, 8, 64])
def test_channels_are_repeated_in_registers(times: int, lanes: int) -> None:
    shape = conv(1, 20, 20 * times, (9, 9), (3, 3), pads=1, group=20)
    target = replace(Target.of(ROWS["zen3"]), lanes=lanes)
    assert generate_kernel(convolution_of(shape), target).scratch_bytes == 0


@pytest.mark.parametrize(("size", "lanes"), [(1, 8), (8, 8), (3, 16), (5, 8), (16, 16)])
def test_other_groups_do_not_suit_the_lanes(size: int, lanes: int) -> None:
    shape = conv(1, 4 * size, 4 * size, (9, 9), (3, 3), pads=1, group=4)
    assert not suits_lanes(shape, FLOAT32, lanes)
    assert not suits_lanes(replace(shape, depth=8 * size), FLOAT32, lanes)


@pytest.mark.jit
@pytest.mark.parametrize(("size", "begin"), [(71, 1), (2, 68)])
def test_of_a_repeated_line_as_much_is_copied_as_windows_see(size: int, begin: int) -> None:
    """The windows leave out the end of the line, or all of it."""
    shape = ConvolutionShape(1, 3, 27, (size,), (65,), (9,), (begin, 0), (1,), 3)
    check(shape, Target.host(16))


@pytest.mark.jit
def test_a_plan_may_have_tiles_of_more_pixels_than_are_chosen() -> None:
    shape = conv(1, 8, 8, (70,), (3,), group=8)
    plan = Plan.of(DEPTHWISE, vectors=1, rows=2 * MAX_PIXELS, panels=1)
    check(shape, Target.host(8), plan=plan)


@pytest.mark.jit
@pytest.mark.parametrize("lanes", marked(LANE_COUNTS, only=[8]))
@pytest.mark.parametrize("threads", [1, 3, 30])
def test_every_width_and_share_computes_all(lanes: int, threads: int) -> None:
    check(SHAPES["3x3"], Target.host(lanes), threads)


@pytest.mark.jit
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_many_channels_are_taken_in_chunks_that_leave_their_lines_in_the_cache(
    threads: int,
) -> None:
    shape = conv(2, 200, 200, (5, 6), (3, 3), pads=1, group=200)
    instruction = convolution_of(shape)
    target = replace(Target.of(ROWS["zen3"]), l1_bytes=12 * 1024)
    assert plan_depthwise(instruction, target, Fusion.of(instruction)).number("panels") == 5
    check(shape, replace(Target.host(8), l1_bytes=12 * 1024), threads)


@pytest.mark.jit
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(ElementKind.FLOAT64, marks=pytest.mark.slow),
        ElementKind.BFLOAT16,
        pytest.param(ElementKind.INT32, marks=pytest.mark.slow),
    ],
)
def test_other_kinds_share_the_generator(kind: ElementKind) -> None:
    """The slow run also has float64, and integers, whose sums others have, too."""
    check(SHAPES["threefold"], Target.host(8), kind=kind)
    check(GROUPED["pairs"], Target.host(8), kind=kind)
