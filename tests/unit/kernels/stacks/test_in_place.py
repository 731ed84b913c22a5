"""Kernels that say a result may lie on what their stack reads: the numbers are the same there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.kernels.cpu_kernels import CPU_KERNELS, generate_kernel
from glow_nb.kernels.operators.channel_wise import (
    ChannelWiseConvolutionInst,
    tap_groups,
    whole_vectors,
)
from glow_nb.kernels.operators.dequantizing import PackedDequantizingMatMulInst
from glow_nb.kernels.operators.packed_instructions import (
    DepthwiseConvolutionInst,
    GroupedConvolutionInst,
    PackedConvolutionInst,
    PackedMatMulInst,
)
from glow_nb.kernels.operators.paired import PairedConvolutionInst
from glow_nb.kernels.operators.pairings import paired as paired_weights
from glow_nb.kernels.operators.strassen_instructions import StrassenMatMulInst
from glow_nb.kernels.operators.unpacked import UnpackedMatMulInst
from glow_nb.kernels.target import Target
from glow_nb.llir.in_place import may_lie_on
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.instructions.normalization import (
    LayerNormalizationInst,
    LogSoftmaxInst,
    SoftmaxInst,
)
from glow_nb.llir.instructions.pooling import AvgPoolInst, MaxPoolInst
from glow_nb.llir.instructions.random import RandomBitsInst
from glow_nb.llir.instructions.reduction import (
    ReduceMaxInst,
    ReduceMeanInst,
    ReduceMinInst,
    ReduceProdInst,
    ReduceSumInst,
)
from glow_nb.llir.program import Buffer, Instruction, Register, kernel_operands
from glow_nb.llir.stack import StackInst
from glow_nb.numerics.philox import GENERATOR
from tests.dots import plan_of_groups
from tests.in_turn import in_turn, left_out, marked
from tests.unit.kernels.cases import instruction_of
from tests.unit.kernels.running import RunningKernel

AbsInst = instruction_for(ops.Abs)
AddInst = instruction_for(ops.Add)
ColumnsToImageInst = instruction_for(ops.ColumnsToImage)
GroupNormalizationInst = instruction_for(ops.GroupNormalization)
ReluInst = instruction_for(ops.Relu)
TanhInst = instruction_for(ops.Tanh)

RANDOM = np.random.default_rng(0)
THREADS = (1, 2, 3)


def float32(*shape: int) -> TensorType:
    return TensorType(ElementKind.FLOAT32, shape)


def convolution(depth: int, block: int = 16, kernel: int = 3) -> PackedConvolutionInst:
    panels = -(-depth // block)
    return PackedConvolutionInst(
        Buffer("made", float32(2, 9, 13, depth)),
        Buffer("input", float32(2, 9, 13, 5)),
        Buffer("filter", float32(1, panels, kernel, kernel, 5, block)),
        Buffer("bias", float32(panels * block)),
        depth=depth,
        kernel=(kernel, kernel),
        stride=(1, 1),
        pads=(kernel // 2,) * 4,
        dilation=(1, 1),
        group=1,
        block=block,
    )


def depthwise(depth: int) -> DepthwiseConvolutionInst:
    return DepthwiseConvolutionInst(
        Buffer("made", float32(2, 9, 13, depth)),
        Buffer("input", float32(2, 9, 13, depth)),
        Buffer("filter", float32(3, 3, depth)),
        Buffer("bias", float32(depth)),
        kernel=(3, 3),
        stride=(1, 1),
        pads=(1, 1, 1, 1),
        dilation=(1, 1),
    )


def grouped(channels: int) -> GroupedConvolutionInst:
    return GroupedConvolutionInst(
        Buffer("made", float32(2, 9, 13, channels)),
        Buffer("input", float32(2, 9, 13, channels)),
        Buffer("filter", float32(3, 3, 4, channels)),
        Buffer("bias", float32(channels)),
        kernel=(3, 3),
        stride=(1, 1),
        pads=(1, 1, 1, 1),
        dilation=(1, 1),
    )


def product(rows: int, depth: int, block: int = 16) -> PackedMatMulInst:
    panels = -(-depth // block)
    return PackedMatMulInst(
        Buffer("made", float32(rows, depth)),
        Buffer("lhs", float32(rows, 40)),
        Buffer("rhs", float32(panels, 40, block)),
        Buffer("bias", float32(panels * block)),
        depth=depth,
        block=block,
    )


def strassen(rows: int, depth: int, block: int = 16) -> StrassenMatMulInst:
    panels = -(-depth // 2 // block)
    return StrassenMatMulInst(
        Buffer("made", float32(rows, depth)),
        Buffer("lhs", float32(rows, 64)),
        Buffer("rhs", float32(panels, 7, 32, block)),
        Buffer("scales", float32(2 * panels * block)),
        Buffer("bias", float32(2 * panels * block)),
        depth=depth,
        block=block,
    )


def product_in_place(rows: int, depth: int, *, is_transposed: bool) -> UnpackedMatMulInst:
    return UnpackedMatMulInst(
        Buffer("made", float32(rows, depth)),
        Buffer("lhs", float32(rows, 40)),
        Buffer("rhs", float32(*((depth, 40) if is_transposed else (40, depth)))),
        Buffer("bias", float32(depth)),
        lhs_order=(0, 1),
        rhs_order=(1, 0) if is_transposed else (0, 1),
    )


def product_of_codes(rows: int, depth: int, block: int = 16) -> PackedDequantizingMatMulInst:
    panels = -(-depth // block)
    return PackedDequantizingMatMulInst(
        Buffer("made", float32(rows, depth)),
        Buffer("lhs", float32(rows, 40)),
        Buffer("rhs", TensorType(ElementKind.INT8, (panels, 40, block))),
        Buffer("scale", float32(panels, 5, block)),
        None,
        depth=depth,
        block=block,
        bits=8,
        size=8,
    )


def channel_wise(depth: int) -> ChannelWiseConvolutionInst:
    groups = tap_groups((3, 3), (1, 1), (1, 1), 1, 2)
    assert groups is not None
    width = whole_vectors(depth) * groups.factors
    return ChannelWiseConvolutionInst(
        Buffer("made", TensorType(ElementKind.INT32, (2, 9, 13, depth))),
        Buffer("input", TensorType(ElementKind.INT8, (2, 9, 13, depth))),
        Buffer("filter", TensorType(ElementKind.INT16, (3, len(groups.rows), width))),
        Buffer("bias", TensorType(ElementKind.INT32, (depth,))),
        kernel=(3, 3),
        stride=(1, 1),
        pads=(1, 1, 1, 1),
        dilation=(1, 1),
        size=1,
        pad_value=3,
        plan=plan_of_groups(groups.factors, "channel_wise"),
    )


def paired(depth: int) -> PairedConvolutionInst:
    """Return a convolution of bytes; its weights, and their order, are no random numbers."""
    weights = RANDOM.integers(-60, 60, (depth, 3, 3 * 5)).astype(np.int8)
    made = paired_weights(weights, 16)
    head = PairedConvolutionInst(
        Buffer("made", TensorType(ElementKind.INT32, (2, 9, 13, depth))),
        Buffer("input", TensorType(ElementKind.UINT8, (2, 9, 13, 5))),
        Buffer("filter", TensorType(ElementKind.INT8, made.filter.shape)),
        Buffer("bias", TensorType(ElementKind.INT32, (-(-depth // 16) * 16,))),
        Buffer("order", TensorType(ElementKind.INT32, made.order.shape)),
        depth=depth,
        kernel=(3, 3),
        stride=(1, 1),
        pads=(1, 1, 1, 1),
        dilation=(1, 1),
        block=16,
        pad_value=3,
    )
    input = RANDOM.integers(0, 256, head.input.type.shape, np.uint8)
    FIXED.update({head.input: input, head.filter: made.filter, head.order: made.order})
    return head


FIXED: dict[Buffer, Array] = {}
"""The numbers of operands that are not random."""

HEADS: tuple[Instruction, ...] = (
    convolution(48),
    convolution(21),
    convolution(3, kernel=1),
    depthwise(40),
    depthwise(13),
    grouped(20),
    product(17, 48),
    product(1, 21),
    strassen(16, 96),
    strassen(5, 42),
    product_in_place(5, 21, is_transposed=False),
    product_in_place(3, 13, is_transposed=True),
    product_of_codes(3, 21),
    product_of_codes(17, 48),
    channel_wise(21),
    paired(21),
)


def drawing(cls: type[Instruction], **attributes: Any) -> Instruction:
    return instruction_of(cls, [float32(9, 5, 37)], **attributes)


def pool(cls: type[Instruction], **attributes: Any) -> Instruction:
    window = {"kernel": (3, 3), "stride": (1, 1), "pads": (1,) * 4, "dilation": (1, 1)}
    return instruction_of(cls, [float32(2, 6, 7, 21)], **window, **attributes)


DRAWING: tuple[Instruction, ...] = (
    *(
        drawing(cls, axes=axes, keep_dims=True)
        for cls, axes in (
            (ReduceSumInst, (2,)),
            (ReduceMeanInst, (1,)),
            (ReduceMaxInst, (0, 2)),
            (ReduceMinInst, (2,)),
            (ReduceProdInst, (0,)),
        )
    ),
    drawing(SoftmaxInst, axis=2),
    drawing(SoftmaxInst, axis=1),
    drawing(LogSoftmaxInst, axis=2),
    instruction_of(
        LayerNormalizationInst, [float32(9, 5, 37), float32(37), float32(37)], axis=2, epsilon=1e-5
    ),
    instruction_of(
        GroupNormalizationInst,
        [float32(9, 6, 37), float32(6), float32(6)],
        **{"groups": 3, "channel_axis": 1, "epsilon": 1e-5},
    ),
)
SHOWN = [DRAWING[0], DRAWING[2], DRAWING[5], DRAWING[8]]
POOLS = (
    pool(MaxPoolInst),
    pool(AvgPoolInst, count_padding=False),
    instruction_of(
        ColumnsToImageInst,
        [float32(2, 3, 2, 3, 8, 7)],
        **{"kernel": (2, 3), "stride": (1, 1), "pads": (0,) * 4, "dilation": (1, 1)},
        image=(9, 9),
    ),
)
WORDS = instruction_of(RandomBitsInst, [GENERATOR], shape=(9, 5, 37), stream=1)


def residual(head: Instruction) -> StackInst:
    """Return ``relu(head + x)``, whose result and ``x`` are the first and the last operand.

    Of integers, which have no relu, it is ``abs(head + x)``.
    """
    made = kernel_operands(head)[0]
    register, total = Register("made", made.type), Register("total", made.type)
    first = head.map_operands(lambda b: register if b is made else b)
    x, dest = Buffer("x", made.type), Buffer("dest", made.type)
    last = (ReluInst if made.type.kind.is_float else AbsInst)(dest, total)
    return StackInst.of([first, AddInst(total, register, x), last])


def numbers(buffer: Buffer) -> Array:
    """Return what an operand of a head holds."""
    return FIXED[buffer].copy() if buffer in FIXED else random(buffer.type)


def random(type: TensorType) -> Array:
    return (RANDOM.standard_normal(type.shape) * 3).astype(type.kind.dtype)


def test_every_kernel_that_says_so_is_tested() -> None:
    said = {cls for cls, can in CPU_KERNELS.traits.items() if can.stores_once}
    assert said == {type(head) for head in (*HEADS, *DRAWING, *POOLS, WORDS)}


STORING = [*HEADS, *DRAWING, *POOLS, WORDS]
STACKED = [
    head
    for head in STORING
    if isinstance(head, PackedMatMulInst | UnpackedMatMulInst | PackedDequantizingMatMulInst)
]
"""Heads for the slow run: those that store several results are tested with these."""
REDUCING = [head for head in DRAWING if isinstance(head, ReduceMaxInst | ReduceProdInst)]
"""Reductions for the slow run: a sum is stored as they are."""


@pytest.mark.jit
@pytest.mark.parametrize(
    "head",
    marked(STORING, slow=[*left_out(4, STORING), HEADS[0], *STACKED, *REDUCING]),
    ids=repr,
)
def test_a_residual_is_added_where_it_lies(head: Instruction) -> None:
    stack, target = residual(head), Target.host()
    kernel = RunningKernel(generate_kernel(stack, target), target)
    dest, *sources, x = [numbers(buffer) for buffer in kernel_operands(stack)]
    kernel(dest, *sources, x)
    for threads in THREADS:
        place = x.copy()
        kernel(place, *sources, place, threads=threads)
        np.testing.assert_array_equal(place, dest)


@pytest.mark.jit
@pytest.mark.parametrize(("head", "dear"), in_turn(DRAWING, [False, True], only=SHOWN), ids=repr)
def test_a_result_lies_on_what_producers_read(head: Instruction, dear: bool) -> None:
    """The slow run also has the logarithm of a softmax, which reads and writes like a softmax."""
    made, drawn = kernel_operands(head)[0], head.input  # type: ignore[attr-defined]
    x, result = Buffer("x", drawn.type), Buffer("result", made.type)
    # The result lies on x, or if it is smaller, what the head draws.
    is_smaller = made.type != drawn.type
    bent = Buffer("bent", drawn.type) if is_smaller else Register("bent", drawn.type)
    last = head.map_operands(lambda b: result if b is made else bent if b is drawn else b)
    stack = StackInst.of([TanhInst(bent, x) if dear else AddInst(bent, x, x), last])
    assert may_lie_on(stack, stack.results[0], x)
    kernel = RunningKernel(generate_kernel(stack, Target.host()), Target.host())
    wanted = [random(buffer.type) for buffer in kernel_operands(stack)]
    kernel(*wanted)
    place_of_x = kernel_operands(stack).index(x)
    for threads in THREADS:
        found = [array.copy() for array in wanted]
        found[0] = found[place_of_x]
        kernel(*found, threads=threads)
        for got, want in zip(found, wanted[: len(stack.results)], strict=False):
            np.testing.assert_array_equal(got, want)


def test_a_head_that_walks_twice_keeps_what_it_must_read_again() -> None:
    x, y = Buffer("x", float32(4, 8)), Buffer("y", float32(4, 8))
    bent, scaled, made = (Buffer(name, x.type) for name in ("bent", "scaled", "made"))
    stack = StackInst.of(
        [TanhInst(bent, x), AddInst(scaled, bent, y), SoftmaxInst(made, scaled, axis=1),
         AddInst(Buffer("z", x.type), made, y)]
    )  # fmt: skip
    assert may_lie_on(stack, scaled, x)
    assert not may_lie_on(stack, scaled, y)  # the epilogue reads it
    assert not may_lie_on(stack, bent, x)  # may be computed a second time
    assert may_lie_on(stack, stack.results[-1], y)


@pytest.mark.jit
@pytest.mark.parametrize("shape", [(3, 7, 41), (5,), (1000,), (64, 3)])
def test_a_loop_over_memory_writes_over_what_it_reads(shape: tuple[int, ...]) -> None:
    x, y, row = Buffer("x", float32(*shape)), Buffer("y", float32(*shape)), (1,) * (len(shape) - 1)
    register, total = Register("r", x.type), Buffer("total", x.type)
    scale = Buffer("scale", float32(*row, shape[-1]))
    result = Buffer("result", x.type)
    body = [
        AddInst(register, x, scale),
        ReluInst(total, register),  # stored over x, which is read again below
        AddInst(result, total, x),
    ]
    stack, target = StackInst.of(body), Target.host()
    kernel = RunningKernel(generate_kernel(stack, target), target)
    first, second = random(x.type), random(x.type)
    a, b = random(x.type), random(scale.type)
    assert stack.results == (total, result)
    assert stack.sources == (x, scale)
    kernel(first, second, a, b)
    for threads in THREADS:
        place, other = a.copy(), random(y.type)
        kernel(place, other, place, b, threads=threads)
        np.testing.assert_array_equal(place, first)
        np.testing.assert_array_equal(other, second)
