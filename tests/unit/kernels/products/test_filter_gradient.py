"""Kernels of the gradients of filters against their operators, over shapes, widths and shares."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import UnsupportedError, VerifyError
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.graph import Placeholder
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.filter_gradient import (
    DepthwiseFilterGradient,
    DepthwiseFilterGradientInst,
    FilterGradientParts,
    FilterGradientPartsInst,
)
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.filter_gradient_plan import (
    FilterGradientNest,
    FilterGradientPlan,
)
from glow_nb.kernels.target import Target
from glow_nb.llir.program import Buffer, View
from tests.in_turn import each_with_one_width, marked
from tests.unit.kernels.products.test_convolution import conv
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

FLOAT32 = ElementKind.FLOAT32


def gradient_of(
    shape: ConvolutionShape,
    parts: int = 1,
    kind: ElementKind = FLOAT32,
    *,
    is_transposed: bool = False,
) -> FilterGradientPartsInst | DepthwiseFilterGradientInst:
    """Return the instruction of *shape*: the depthwise one if each channel is a group."""
    is_depthwise = 1 < shape.group == shape.channels
    inner = () if is_depthwise else (shape.channels_per_group,)
    sizes = (*shape.kernel, shape.depth) if is_depthwise else (shape.depth, *shape.kernel, *inner)
    sizes = (*shape.kernel, *inner, shape.depth) if is_transposed else sizes
    operands = (
        Buffer("dest", TensorType(kind, (parts, *sizes))),
        Buffer("input", TensorType(kind, (shape.batch, *shape.input, shape.channels))),
        Buffer("gradient", TensorType(kind, (shape.batch, *shape.output, shape.depth))),
    )
    window = {name: getattr(shape, name) for name in ("kernel", "stride", "pads", "dilation")}
    if is_depthwise:
        return DepthwiseFilterGradientInst(*operands, **window, parts=parts)
    return FilterGradientPartsInst(
        *operands, **window, group=shape.group, parts=parts, is_transposed=is_transposed
    )


def check(
    shape: ConvolutionShape,
    target: Target,
    *,
    parts: int = 1,
    threads: int = 1,
    kind: ElementKind = FLOAT32,
    is_transposed: bool = False,
) -> None:
    instruction = gradient_of(shape, parts, kind, is_transposed=is_transposed)
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, instruction.input.type.shape).astype(kind.dtype)
    g = random.integers(-4, 5, instruction.gradient.type.shape).astype(kind.dtype)
    kernel = RunningKernel(generate_kernel(instruction, target), target)
    dest, whole = guarded(instruction.dest.type.shape, kind)
    kernel(dest, x, g, threads=threads)
    assert guards_are_intact(whole)
    # Small integers: every order of summation is exact.
    np.testing.assert_array_equal(dest, instruction.as_node().evaluate(x, g))


CASES = {
    "taps of three": conv(2, 20, 37, (7, 6), (3, 3), pads=1),
    "a stride of two": conv(2, 20, 37, (9, 11), (3, 3), stride=2, pads=(1, 0, 1, 1)),
    "few channels": conv(2, 3, 37, (9, 11), (7, 7), stride=2, pads=3),
    "one channel, many lines": conv(9, 1, 6, (28, 28), (5, 5), pads=2),
    "a matrix product": conv(2, 24, 10, (9, 11), (1, 1)),
    "inputs that no tap meets": conv(2, 24, 10, (9, 11), (1, 1), stride=2, pads=(0, 1, 2, 3)),
    "groups": conv(2, 24, 12, (9, 11), (3, 2), pads=(1, 3, 2, 2), dilation=2, group=4),
    "many images": conv(20, 36, 70, (4, 4), (3, 3), pads=1),
    "taps in padding alone": conv(1, 3, 4, (2, 2), (5, 5), pads=4),
    "a line in pieces": conv(3, 6, 12, (1000,), (5,), stride=2, pads=(1, 3), dilation=3),
    "a line of few channels": conv(3, 6, 12, (1000,), (5,), stride=2, pads=(1, 3)),
    "a long line of a product": conv(3, 36, 12, (1000,), (1,)),
    "a volume": conv(2, 6, 12, (5, 9, 11), (3, 2, 2), stride=2, pads=1, group=2),
    "a volume of few channels": conv(2, 6, 12, (5, 6, 7), (2, 2, 3), pads=1),
    "a volume without depth": conv(2, 6, 12, (5, 6, 7), (1, 2, 3), pads=(2, 1, 1, 0, 1, 1)),
    "no images": conv(0, 6, 12, (5, 6), (3, 3)),
    "depthwise": conv(2, 75, 75, (7, 6), (3, 3), pads=1, group=75),
    "depthwise, dilated": conv(2, 19, 19, (17, 16), (3, 5), 2, (1, 2, 1, 0), 2, group=19),
    "depthwise, wide": conv(2, 32, 32, (9, 9), (7, 7), pads=3, group=32),
    "depthwise line": conv(3, 6, 6, (1000,), (5,), stride=2, pads=(1, 3), group=6),
    "depthwise volume": conv(2, 6, 6, (5, 9, 11), (3, 2, 2), stride=2, pads=1, group=6),
    "depthwise, one tap": conv(2, 6, 6, (5, 9), (1, 1), stride=2, pads=(1, 1, 0, 0), group=6),
    "depthwise, in padding": conv(1, 6, 6, (2, 2), (5, 5), pads=4, group=6),
    "depthwise, no images": conv(0, 6, 6, (5, 6), (3, 3), group=6),
}
SHOWN = ["groups", "depthwise, dilated", "no images"]
"""Cases for the default run; tests below have many channels, and few that are transposed."""


@pytest.mark.jit
@pytest.mark.parametrize(("name", "lanes"), each_with_one_width(CASES, only=SHOWN))
def test_gradient_is_that_of_the_operator(name: str, lanes: int) -> None:
    number, shape = list(CASES).index(name), CASES[name]
    lines = shape.batch * prod(shape.output[:-1])
    parts, threads = min(1 + number % 3, max(1, lines)), (2, 3, 1, 3)[number % 4]
    check(shape, Target.host(lanes), parts=parts, threads=threads)


TURNED = [
    "few channels",
    "one channel, many lines",
    "taps of three",
    "taps in padding alone",
    "a line of few channels",
    "a volume of few channels",
    "no images",
]
TURNED_SHOWN = ["one channel, many lines", "a line of few channels"]


@pytest.mark.jit
@pytest.mark.parametrize(("name", "lanes"), each_with_one_width(TURNED, only=TURNED_SHOWN))
def test_gradient_that_is_transposed_is_that_of_the_operator(name: str, lanes: int) -> None:
    shape = CASES[name]
    parts = min(1 + TURNED.index(name) % 3, max(1, shape.batch))
    check(shape, Target.host(lanes), parts=parts, threads=2, is_transposed=True)


def test_taps_that_are_no_neighbours_cannot_be_transposed() -> None:
    instruction = gradient_of(conv(1, 3, 4, (9, 9), (3, 3), dilation=2), is_transposed=True)
    with pytest.raises(UnsupportedError, match="3 taps and dilation 2 along the last dimension"):
        generate_kernel(instruction, Target.host())


@pytest.mark.jit
@pytest.mark.parametrize(
    "name", marked(["a matrix product", "a stride of two", "depthwise"], only=["a matrix product"])
)
def test_doubles_are_summed_up_as_doubles(name: str) -> None:
    check(CASES[name], Target.host(), parts=2, kind=ElementKind.FLOAT64)


@pytest.mark.jit
def test_any_number_of_threads_gives_the_same_bits() -> None:
    instruction = gradient_of(CASES["a matrix product"], parts=2)
    random = np.random.default_rng(0)
    x, g = (
        random.standard_normal(buffer.type.shape).astype(np.float32)
        for buffer in (instruction.input, instruction.gradient)
    )
    kernel = RunningKernel(generate_kernel(instruction, Target.host()), Target.host())
    results = []
    for threads in (1, 2, 3, 7):
        dest, _ = guarded(instruction.dest.type.shape, FLOAT32)
        kernel(dest, x, g, threads=threads)
        results.append(dest.tobytes())
    assert len(set(results)) == 1


@pytest.mark.jit
def test_long_sums_round_little() -> None:
    shape = conv(4, 16, 16, (320, 320), (1, 1))
    instruction = gradient_of(shape)
    random = np.random.default_rng(0)
    x, g = (
        random.random(buffer.type.shape).astype(np.float32)
        for buffer in (instruction.input, instruction.gradient)
    )
    kernel = RunningKernel(generate_kernel(instruction, Target.host()), Target.host())
    dest, _ = guarded(instruction.dest.type.shape, FLOAT32)
    kernel(dest, x, g)
    left, right = (array.reshape(-1, 16).astype(np.float64) for array in (g, x))
    wanted = left.T @ right  # 409,600 products
    assert np.abs(dest.reshape(16, 16) / wanted - 1).max() < 1e-5


@pytest.mark.jit
@pytest.mark.parametrize(
    "name",
    marked(
        ["a matrix product", "taps of three", "few channels", "depthwise"],
        only=["a matrix product"],
    ),
)
def test_pixels_with_gaps_are_read_where_they_lie(name: str) -> None:
    """The slow run also has several taps and depthwise channels, which are read as one tap is."""
    instruction = gradient_of(CASES[name])
    random = np.random.default_rng(0)
    views: dict[str, Any] = {}
    arrays = []
    for field in ("input", "gradient"):
        *sizes, channels = getattr(instruction, field).type.shape
        base = Buffer("whole", TensorType(FLOAT32, (*sizes, channels + 5)))
        type = getattr(instruction, field).type
        views[field] = View(field, type, base, 3, base.strides)
        numbers = random.integers(-4, 5, base.type.shape).astype(np.float32)
        arrays.append(numbers[..., 3 : 3 + channels])
    source = generate_kernel(replace(instruction, **views), Target.host())
    dest, whole = guarded(instruction.dest.type.shape, FLOAT32)
    RunningKernel(source, Target.host())(dest, *arrays)
    assert guards_are_intact(whole)
    np.testing.assert_array_equal(dest, instruction.as_node().evaluate(*arrays))


def test_strips_of_a_block_fit_the_second_level_cache() -> None:
    shape = conv(8, 64, 4096, (28, 28), (3, 3), pads=1)
    target = replace(Target.host(), l2_bytes=256 * 1024)
    nest = FilterGradientNest.of(shape, 1, FLOAT32, target)
    plan = FilterGradientPlan.of(nest, target)
    assert plan.block_strips < plan.cut.tiles
    assert plan.block_strips * plan.cut.rows * plan.chunk_pixels(nest) * 4 <= 128 * 1024


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"parts": 0}, "parts is 0, but must be positive"),
        ({"parts": 15}, "not more than gradient float32<2 x 7 x 6 x 8> has lines, 14"),
        ({"group": 2, "is_transposed": True}, "2 groups cannot be transposed"),
        ({"group": 3}, "do not divide into group = 3"),
        ({"stride": (2, 2)}, "'gradient' is"),
    ],
)
def test_operands_that_do_not_fit_are_refused(wrong: dict[str, object], complaint: str) -> None:
    x = Placeholder("x", TensorType(FLOAT32, (2, 7, 6, 4)))
    g = Placeholder("g", TensorType(FLOAT32, (2, 7, 6, 8)))
    window = {"kernel": (3, 3), "stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1)}
    with pytest.raises(VerifyError, match=complaint):
        FilterGradientParts(x, g, **{**window, **wrong})  # type: ignore[arg-type]


def test_a_depthwise_gradient_needs_as_many_channels() -> None:
    x = Placeholder("x", TensorType(FLOAT32, (2, 7, 6, 4)))
    g = Placeholder("g", TensorType(FLOAT32, (2, 7, 6, 8)))
    with pytest.raises(VerifyError, match="must have the same number of channels"):
        DepthwiseFilterGradient(
            x, g, kernel=(3, 3), stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1)
        )
