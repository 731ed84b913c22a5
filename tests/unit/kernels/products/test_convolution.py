"""Convolution kernels against the definition, over many shapes, widths and shares."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.packed_instructions import PackedConvolutionInst
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Buffer, Register
from glow_nb.llir.stack import StackInst
from tests.candidates import convolution_candidates
from tests.in_turn import marked, one_in
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

ReluInst = instruction_for(ops.Relu)
AddInst = instruction_for(ops.Add)

FLOAT32, INT32 = ElementKind.FLOAT32, ElementKind.INT32


def conv(
    batch: int,
    channels: int,
    depth: int,
    input: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...] | int = 1,
    pads: tuple[int, ...] | int = 0,
    dilation: tuple[int, ...] | int = 1,
    group: int = 1,
) -> ConvolutionShape:
    rank = len(input)
    pads = (pads,) * (2 * rank) if isinstance(pads, int) else pads
    strides = (stride,) * rank if isinstance(stride, int) else stride
    dilations = (dilation,) * rank if isinstance(dilation, int) else dilation
    return ConvolutionShape(batch, channels, depth, input, kernel, strides, pads, dilations, group)


def reference(shape: ConvolutionShape, x: Array, w: Array) -> Array:
    """Convolve by the definition; *w* is ``[depth, *kernel, channels / group]``."""
    width = [(0, 0), *zip(shape.begins, shape.ends, strict=True), (0, 0)]
    padded = np.pad(x, width)
    result = np.zeros((shape.batch, *shape.output, shape.depth))
    inputs = shape.channels_per_group
    for tap in itertools.product(*map(range, shape.kernel)):
        places = [
            slice(start, start + (size - 1) * stride + 1, stride)
            for start, size, stride in zip(
                np.multiply(tap, shape.dilation).tolist(), shape.output, shape.stride, strict=True
            )
        ]
        index: tuple[slice, ...] = (slice(None), *places)
        window = padded[index]
        for group in range(shape.group):
            outs = slice(group * shape.depth_per_group, (group + 1) * shape.depth_per_group)
            ins = slice(group * inputs, (group + 1) * inputs)
            weights: tuple[slice | int, ...] = (outs, *tap)
            result[..., outs] += window[..., ins].astype(float) @ w[weights].T.astype(float)
    return result


def packed(w: Array, group: int, block: int) -> Array:
    """Lay ``[depth, *rest]`` out as ``[group, panels, *rest, block]``, zero padded."""
    rows = w.reshape(group, -1, *w.shape[1:])
    missing = -rows.shape[1] % block
    rows = np.pad(rows, [(0, 0), (0, missing), *[(0, 0)] * (w.ndim - 1)])
    rows = rows.reshape(group, -1, block, *w.shape[1:])
    return np.ascontiguousarray(np.moveaxis(rows, 2, -1))


def convolution_of(
    shape: ConvolutionShape, kind: ElementKind, block: int, dest: Buffer | None = None
) -> PackedConvolutionInst:
    """Return the instruction of *shape*, which writes *dest*."""

    def buffer(name: str, *sizes: int) -> Buffer:
        return Buffer(name, TensorType(kind, sizes))

    group, inputs = shape.group, shape.channels_per_group
    panels = -(-shape.depth_per_group // block)
    return PackedConvolutionInst(
        dest or buffer("dest", shape.batch, *shape.output, shape.depth),
        buffer("input", shape.batch, *shape.input, shape.channels),
        buffer("filter", group, panels, *shape.kernel, inputs, block),
        buffer("bias", group * panels * block),
        depth=shape.depth,
        kernel=shape.kernel,
        stride=shape.stride,
        pads=shape.pads,
        dilation=shape.dilation,
        group=group,
        block=block,
    )


def check(
    shape: ConvolutionShape,
    target: Target,
    threads: int = 1,
    kind: ElementKind = FLOAT32,
    block: int | None = None,
) -> None:
    block = block or convolution_candidates(shape, kind, target, winograd=False)[0].block
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, (shape.batch, *shape.input, shape.channels)).astype(kind.dtype)
    w = random.integers(-4, 5, (shape.depth, *shape.kernel, shape.channels_per_group))
    w = w.astype(kind.dtype)
    bias = random.integers(-9, 10, shape.depth).astype(kind.dtype)
    instruction = convolution_of(shape, kind, block)
    kernel = RunningKernel(generate_kernel(instruction, target), target)
    dest, whole = guarded((shape.batch, *shape.output, shape.depth), kind)
    packed_bias = packed(bias, shape.group, block).reshape(-1)
    kernel(dest, x, packed(w, shape.group, block), packed_bias, threads=threads)
    # Small integers: every order of summation is exact.
    expected = reference(shape, x, w) + bias.astype(float)
    np.testing.assert_array_equal(dest.astype(float), expected)
    assert guards_are_intact(whole)


SHAPES = {
    "3x3": conv(1, 5, 19, (9, 13), (3, 3), pads=1),
    "3x3 stride 2": conv(2, 7, 24, (11, 14), (3, 3), stride=2, pads=1),
    "unpadded": conv(1, 4, 9, (8, 9), (3, 2)),
    "one sided pads": conv(1, 3, 8, (6, 7), (3, 3), pads=(0, 2, 1, 0)),
    "dilated": conv(1, 6, 10, (12, 11), (3, 3), pads=2, dilation=2),
    "groups": conv(1, 12, 18, (7, 7), (3, 3), pads=1, group=3),
    "groups of one output": conv(1, 6, 3, (5, 5), (3, 3), pads=1, group=3),
    "grouped 1x1": conv(2, 12, 20, (5, 6), (1, 1), group=2),
    "stem 7x7": conv(1, 3, 17, (20, 23), (7, 7), stride=2, pads=3),
    "11x11 stride 4": conv(1, 3, 16, (31, 31), (11, 11), stride=4),
    "1x1": conv(3, 10, 21, (7, 7), (1, 1)),
    "1x1 stride 2": conv(2, 9, 11, (8, 9), (1, 1), stride=2),
    "1x1 with pads": conv(1, 4, 8, (3, 3), (1, 1), pads=1),
    "one pixel": conv(1, 40, 100, (1, 1), (1, 1)),
    "one column": conv(1, 6, 9, (20, 1), (5, 1), pads=(2, 0, 2, 0)),
    "rank 1": conv(2, 5, 12, (29,), (4,), stride=2, pads=(3, 1)),
    "rank 1 same": conv(1, 3, 8, (100,), (9,), pads=4),
    "rank 3": conv(2, 3, 9, (5, 6, 7), (3, 3, 3), pads=1),
    "rank 3 stride 2": conv(1, 4, 8, (5, 6, 9), (2, 3, 1), stride=2, pads=(1, 0, 0, 0, 1, 0)),
    "plain outer dimension": conv(2, 3, 9, (4, 6, 7), (1, 3, 3), pads=(0, 1, 1, 0, 1, 1)),
    "plain inner dimension": conv(2, 3, 9, (4, 6, 7), (3, 3, 1), pads=(1, 1, 0, 1, 1, 0)),
    "huge pads": conv(1, 2, 4, (2, 3), (3, 3), pads=4),
    "kernel beyond input": conv(1, 2, 4, (2, 2), (5, 5), pads=3),
    "no images": conv(0, 2, 4, (3, 3), (3, 3), pads=1),
}


SHOWN = ["1x1 stride 2", "dilated", "no images", "one column", "rank 3"]
"""Shapes for the default run; every share of threads has groups, blocks and kinds have others."""


@pytest.mark.jit
@pytest.mark.parametrize("name", marked(SHAPES, only=SHOWN))
def test_convolution_keeps_its_definition(name: str) -> None:
    lanes = LANE_COUNTS[len(name) % len(LANE_COUNTS)]
    check(SHAPES[name], Target.host(lanes), threads=1 + len(name) % 4)


def random_shape(seed: int) -> ConvolutionShape:
    """Return a small convolution of any rank whose window fits into its padded input."""
    random = np.random.default_rng(seed)
    rank, group = int(random.integers(1, 4)), int(random.choice([1, 1, 1, 2, 3]))
    most = {1: 40, 2: 14, 3: 7}[rank]
    shape = ConvolutionShape(
        batch=int(random.integers(1, 4)),
        channels=group * int(random.integers(1, 9)),
        depth=group * int(random.integers(1, 40)),
        input=tuple(random.integers(1, most, rank).tolist()),
        kernel=tuple(random.integers(1, 5, rank).tolist()),
        stride=tuple(random.integers(1, 4, rank).tolist()),
        pads=tuple(random.integers(0, 4, 2 * rank).tolist()),
        dilation=tuple(random.integers(1, 3, rank).tolist()),
        group=group,
    )
    return shape if min(shape.output) > 0 else random_shape(seed + 1000)


@pytest.mark.jit
@pytest.mark.parametrize("seed", marked(range(6), only=[2]))
def test_random_convolution_keeps_its_definition(seed: int) -> None:
    check(random_shape(seed), Target.host(LANE_COUNTS[seed % 3]), threads=1 + seed % 3)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 200))
def test_many_random_convolutions_keep_their_definition(seed: int) -> None:
    check(random_shape(seed), Target.host(LANE_COUNTS[seed % 3]), threads=1 + seed % 4)


@pytest.mark.jit
@pytest.mark.parametrize("lanes", LANE_COUNTS)
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_width_and_share_computes_all(lanes: int, threads: int) -> None:
    check(SHAPES["groups"], Target.host(lanes), threads)


@pytest.mark.jit
@pytest.mark.parametrize("name", marked(["3x3", "rank 1", "1x1", "rank 3"], only=["3x3"]))
def test_blocks_of_one_unit_cover_everything(name: str) -> None:
    target = replace(Target.host(8), l2_bytes=1)
    check(SHAPES[name], target, threads=2)


@pytest.mark.jit
@pytest.mark.parametrize(
    "kind", one_in(4, [ElementKind.FLOAT64, ElementKind.FLOAT16, INT32, ElementKind.INT64])
)
def test_other_kinds_share_the_generator(kind: ElementKind) -> None:
    check(SHAPES["3x3"], Target.host(8), kind=kind)


@pytest.mark.jit
@pytest.mark.parametrize("block", marked([8, 16, 24, 32, 48], only=[24]))
def test_any_panel_width_is_right(block: int) -> None:
    check(conv(1, 5, 40, (7, 7), (3, 3), pads=1), Target.host(8), block=block)


@pytest.mark.jit
def test_epilogue_sees_every_vector() -> None:
    shape, target = conv(1, 3, 13, (4, 9), (3, 3), pads=1), Target.host(8)
    type = TensorType(FLOAT32, (1, 4, 9, 13))
    made, total = Register("made", type), Register("total", type)
    head = convolution_of(shape, FLOAT32, 16, made)
    add = AddInst(total, made, Buffer("residual", type))
    source = generate_kernel(
        StackInst.of([head, add, ReluInst(Buffer("dest", type), total)]), target
    )
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, (1, 4, 9, 3)).astype(np.float32)
    w = random.integers(-4, 5, (13, 3, 3, 3)).astype(np.float32)
    residual = random.integers(-40, 40, (1, 4, 9, 13)).astype(np.float32)
    dest, whole = guarded(residual.shape, FLOAT32)
    kernel = RunningKernel(source, target)
    kernel(dest, x, packed(w, 1, 16), np.zeros(16, np.float32), residual, threads=2)
    np.testing.assert_array_equal(dest, np.maximum(reference(shape, x, w) + residual, 0))
    assert guards_are_intact(whole)


def test_simplified_shape_is_the_same_computation() -> None:
    assert conv(2, 3, 4, (5, 6), (1, 1)).simplified().input == (60,)
    assert conv(2, 3, 4, (5, 6, 7), (1, 3, 3)).simplified().batch == 10
    column = conv(1, 3, 4, (5, 6), (3, 1)).simplified()
    assert (column.input, column.dilation, column.output) == ((30,), (6,), (18,))


def test_windows_side_by_side_are_one_line() -> None:
    patches = replace(conv(1, 3, 4, (5, 12), (1, 4)), stride=(1, 4), batch=2)
    line = patches.simplified()
    assert (line.batch, line.input, line.output) == (1, (120,), (30,))
    assert replace(patches, dilation=(1, 2), input=(5, 16)).simplified().batch == 10
    assert replace(patches, input=(5, 13)).simplified().batch == 10
