"""Winograd kernels against the meaning of their operator, over many shapes, widths and shares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glow_nb.distance import distance
from glow_nb.errors import UnsupportedError
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.kernels import operators
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.panels import pack_bias, pack_filter
from glow_nb.kernels.operators.winograd_instructions import WinogradConvolutionInst
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.stacks.generate_stack import generate_stack
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.kernels.winograd.convolution import generate_winograd
from glow_nb.kernels.winograd.plan import WinogradNest, plan_winograd, suits_winograd
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Buffer, Register, View
from glow_nb.llir.stack import StackInst
from glow_nb.llir.strides import contiguous_strides
from glow_nb.types import Array, ElementKind, TensorType
from tests.unit.kernels.in_turn import in_turn
from tests.unit.kernels.products.test_convolution import conv
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

ReluInst = instruction_for(ops.Relu)
AddInst = instruction_for(ops.Add)

FLOAT32 = ElementKind.FLOAT32


def operands(nest: WinogradNest) -> tuple[list[Array], Array]:
    """Return input, transformed filter and bias, and the result that they give."""
    shape, random = nest.shape, np.random.default_rng(0)
    b = Builder()
    x = random.normal(size=(shape.batch, *shape.input, shape.channels)).astype(np.float32)
    w = random.normal(size=(shape.depth, *shape.kernel, shape.channels_per_group))
    source = b.input("x", f"float32<{' x '.join(map(str, x.shape))}>")
    filter = pack_filter(b, b.constant("w", w.astype(np.float32)), shape.group, nest.block)
    filter = b.emit(operators.WinogradFilter(filter, nest.tile))
    bias = random.normal(size=shape.depth).astype(np.float32)
    offsets = pack_bias(b, b.constant("b", bias), shape.group, nest.block)
    made = operators.WinogradConvolution(
        source, filter, offsets, shape.depth, shape.kernel, nest.tile, shape.pads, shape.group,
        nest.block,
    )  # fmt: skip
    for name, value in (("filter", filter), ("bias", offsets), ("y", b.emit(made))):
        b.save(value, name)
    results = evaluate(b.function(), {"x": x})
    return [x, results["filter"], results["bias"]], results["y"]


def convolution_of(nest: WinogradNest, dest: Buffer | None = None) -> WinogradConvolutionInst:
    """Return the instruction of *nest*, which writes *dest*."""
    shape, panels = nest.shape, nest.panels // nest.shape.group

    def buffer(name: str, *sizes: int) -> Buffer:
        return Buffer(name, TensorType(nest.kind, sizes))

    return WinogradConvolutionInst(
        dest or buffer("dest", shape.batch, *shape.output, shape.depth),
        buffer("input", shape.batch, *shape.input, shape.channels),
        buffer("filter", shape.group, panels, *nest.sizes, shape.channels_per_group, nest.block),
        buffer("bias", nest.panels * nest.block),
        depth=shape.depth,
        kernel=shape.kernel,
        tile=nest.tile,
        pads=shape.pads,
        group=shape.group,
        block=nest.block,
        guarded=nest.guarded,
    )


def check(nest: WinogradNest, target: Target, threads: int = 1, block_tiles: int = 0) -> None:
    arrays, expected = operands(nest)
    plan = plan_winograd(nest, target, block_tiles)
    source = generate_winograd(nest, plan, Fusion.of(convolution_of(nest)))
    kernel = RunningKernel(source, target)
    dest, whole = guarded(expected.shape, FLOAT32)
    kernel(dest, *arrays, threads=threads)
    assert distance(expected, dest, least=1.0) <= 5e-6
    assert guards_are_intact(whole)


NESTS = {
    "4x4": (conv(1, 5, 19, (9, 13), (3, 3), pads=1), (4, 4)),
    "2x2": (conv(2, 7, 24, (7, 7), (3, 3), pads=1), (2, 2)),
    "mixed": (conv(1, 16, 9, (8, 9), (3, 3)), (2, 4)),
    "one sided pads": (conv(1, 3, 8, (6, 7), (3, 3), pads=(0, 2, 1, 0)), (4, 4)),
    "groups": (conv(1, 12, 18, (7, 7), (3, 3), pads=1, group=3), (4, 4)),
    "groups of one output": (conv(1, 6, 3, (5, 5), (3, 3), pads=1, group=3), (2, 2)),
    "many channels": (conv(1, 100, 100, (6, 6), (3, 3), pads=1), (4, 4)),
    "images share tiles": (conv(5, 8, 8, (7, 7), (3, 3), pads=1), (4, 4)),
    "5x5": (conv(1, 8, 12, (11, 9), (5, 5), pads=2), (2, 2)),
    "larger 5x5": (conv(1, 8, 12, (11, 9), (5, 5), pads=2), (4, 4)),
    "row": (conv(1, 6, 9, (5, 14), (1, 7), pads=(0, 3, 0, 3)), (1, 2)),
    "column": (conv(1, 6, 9, (14, 5), (3, 1), pads=(1, 0, 1, 0)), (4, 1)),
    "rank 1": (conv(2, 5, 12, (29,), (3,), pads=(3, 1)), (4,)),
    "planes": (conv(2, 5, 12, (3, 7, 9), (1, 3, 3), pads=(0, 1, 1, 0, 1, 1)), (1, 4, 4)),
    "padded planes": (conv(1, 5, 9, (2, 5, 6), (1, 3, 3), pads=(1, 1, 1, 2, 1, 1)), (1, 2, 4)),
    "depth": (conv(2, 5, 12, (9, 3, 4), (3, 1, 1), pads=(1, 0, 0, 2, 0, 0)), (4, 1, 1)),
    "volume": (conv(2, 5, 12, (4, 7, 6), (3, 3, 3), pads=1), (1, 4, 4)),
    "volume without pads": (conv(1, 9, 20, (5, 8, 6), (3, 3, 3)), (1, 2, 4)),
    "volume with groups": (conv(1, 8, 18, (3, 6, 6), (2, 3, 3), pads=1, group=2), (1, 4, 4)),
    "depth and lines": (conv(1, 6, 9, (4, 9, 5), (3, 3, 1), pads=(2, 1, 0, 0, 1, 0)), (1, 4, 1)),
    "huge pads": (conv(1, 2, 4, (2, 3), (3, 3), pads=4), (4, 4)),
    "kernel beyond input": (conv(1, 2, 4, (1, 1), (3, 3), pads=1), (4, 4)),
    "no images": (conv(0, 2, 4, (3, 3), (3, 3), pads=1), (2, 2)),
}


@pytest.mark.jit
@pytest.mark.parametrize(("name", "is_guarded"), in_turn(NESTS, [False, True]))
def test_winograd_keeps_its_meaning(name: str, is_guarded: bool) -> None:
    """The default run has each nest once, every other one guarded."""
    lanes = LANE_COUNTS[len(name) % len(LANE_COUNTS)]
    shape, tile = NESTS[name]
    block = lanes * (1 + len(name) % 3)
    nest = WinogradNest(shape, tile, FLOAT32, block, guarded=is_guarded)
    check(nest, Target.host(lanes), threads=1 + len(name) % 4)


@pytest.mark.jit
@pytest.mark.parametrize("name", ["groups", "many channels", "images share tiles", "5x5", "column"])
def test_cut_sums_are_the_same(name: str) -> None:
    lanes = LANE_COUNTS[len(name) % len(LANE_COUNTS)]
    target = replace(Target.host(lanes), l1_bytes=64)
    nest = WinogradNest(*NESTS[name], FLOAT32, 2 * lanes, guarded=name == "5x5")
    assert plan_winograd(nest, target).dot < nest.shape.channels_per_group
    check(nest, target, threads=1 + len(name) % 3, block_tiles=9)


def random_nest(seed: int) -> tuple[WinogradNest, int]:
    random = np.random.default_rng(seed)

    def pick(low: int, high: int) -> int:
        return int(random.integers(low, high + 1))

    group, lanes = pick(1, 2), LANE_COUNTS[pick(0, 2)]
    kernel: tuple[int, ...] = (3, 3)
    if not pick(0, 2):
        kernel = ((3,), (1, 3), (5, 5), (3, 5), (7, 1), (1, 3, 3), (3, 3, 3), (3, 1, 3))[pick(0, 7)]
    sizes = {1: (1, 1), 3: (2, 4), 5: (2, 4), 7: (2, 2)}
    tile = tuple(sizes[taps][pick(0, 1)] for taps in kernel)
    tile = (1, *tile[1:]) if len(tile) == 3 else tile
    pads = tuple(pick(0, 2) for _ in 2 * kernel)
    smallest = [taps - min(pads[i], pads[i + len(kernel)]) for i, taps in enumerate(kernel)]
    shape = conv(
        pick(1, 3),
        group * pick(1, 40),
        group * pick(1, 40),
        tuple(max(1, size) + pick(0, 12) for size in smallest),
        kernel,
        pads=pads,
        group=group,
    )
    nest = WinogradNest(shape, tile, FLOAT32, lanes * pick(1, 3))
    return replace(nest, guarded=seed % 2 == 1), lanes


@pytest.mark.jit
@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(n, marks=pytest.mark.slow) for n in range(6, 100))]
)
def test_random_nests_keep_their_meaning(seed: int) -> None:
    nest, lanes = random_nest(seed)
    check(nest, Target.host(lanes), threads=1 + seed % 3, block_tiles=seed % 4 * 7)


@pytest.mark.jit
def test_epilogue_and_window_of_a_wider_tensor() -> None:
    shape = conv(1, 8, 21, (7, 10), (3, 3), pads=1)
    nest = WinogradNest(shape, (4, 4), FLOAT32, 16)
    arrays, expected = operands(nest)
    operand = np.random.default_rng(3).normal(size=(1, 7, 10, 30)).astype(np.float32)
    wide, narrow = (TensorType(FLOAT32, (1, 7, 10, channels)) for channels in (30, 21))

    def window(name: str) -> View:
        base = Buffer(f"wide_{name}", wide)
        return View(name, narrow, base=base, steps=contiguous_strides(wide.shape))

    made, total = Register("made", narrow), Register("total", narrow)
    add = AddInst(total, made, window("operand"))
    relu = ReluInst(window("dest"), total)
    target, stack = Target.host(), StackInst.of([convolution_of(nest, made), add, relu])
    kernel = RunningKernel(generate_stack(stack, target), target)
    dest, whole = guarded(wide.shape, FLOAT32)
    kernel(dest, *arrays, operand, threads=2)
    wanted = np.maximum(expected + operand[..., :21], 0)
    np.testing.assert_allclose(dest[..., :21], wanted, rtol=0, atol=1e-4)
    assert (dest[..., 21:] == 77).all()
    assert guards_are_intact(whole)


@pytest.mark.jit
def test_same_number_of_threads_gives_the_same_bits() -> None:
    shape = conv(2, 24, 40, (9, 9), (3, 3), pads=1)
    nest = WinogradNest(shape, (4, 4), FLOAT32, 16)
    arrays, expected = operands(nest)
    target = Target.host()
    kernel = RunningKernel(generate_kernel(convolution_of(nest), target), target)
    results = []
    for _ in range(2):
        dest = np.empty_like(expected)
        kernel(dest, *arrays, threads=3)
        results.append(dest)
    np.testing.assert_array_equal(results[0], results[1])


def test_what_winograd_is_for() -> None:
    shape = conv(1, 8, 8, (9, 9), (3, 3), pads=1)
    assert suits_winograd(shape, (4, 4))
    assert not suits_winograd(shape, (3, 3))
    for change in ({"stride": (2, 2)}, {"dilation": (2, 2)}, {"channels": 0}, {"kernel": (1, 1)}):
        assert not suits_winograd(replace(shape, **change), (4, 4))
    volume = conv(1, 8, 8, (5, 5, 5), (3, 3, 3))
    assert suits_winograd(volume, (1, 4, 4))
    for tile in ((4, 4, 4), (2, 1, 1), (1, 1, 1)):
        assert not suits_winograd(volume, tile)
    assert suits_winograd(conv(1, 8, 8, (5, 5, 5), (3, 1, 1)), (4, 1, 1))
    assert not suits_winograd(conv(1, 8, 8, (5, 5, 5), (3, 1, 1)), (4, 4, 4))
    assert not suits_winograd(conv(1, 8, 8, (5, 5, 5), (3, 1, 1), pads=1), (4, 1, 1))


@pytest.mark.parametrize("kernel", [(3, 3, 3), (3, 1, 1)])
def test_tiles_with_several_outputs_along_the_depth_are_refused(kernel: tuple[int, ...]) -> None:
    nest = WinogradNest(conv(1, 8, 8, (5, 5, 5), kernel), (2, 4, 4), FLOAT32, 16)
    message = r"no kernel for tiles of \[2, 4, 4\] outputs of \[3, \d, \d\] taps; choose one output"
    with pytest.raises(UnsupportedError, match=message):
        generate_kernel(convolution_of(nest), Target.host())


def test_an_input_without_channels_is_refused() -> None:
    nest = WinogradNest(conv(1, 0, 8, (5, 5), (3, 3)), (2, 2), FLOAT32, 16)
    with pytest.raises(UnsupportedError, match="has no channels.*choose packed_convolution"):
        generate_kernel(convolution_of(nest), Target.host())
