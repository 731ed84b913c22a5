"""Kernels that say a result may lie on what their stack reads: the numbers are the same there."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.kernels.registry import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.activation import ReluInst
from glow_nb.llir.instructions.arithmetic import AddInst
from glow_nb.llir.instructions.packed import (
    DepthwiseConvolutionInst,
    PackedConvolutionInst,
    PackedMatMulInst,
)
from glow_nb.llir.program import INSTRUCTIONS, Buffer, Instruction, Register, kernel_operands
from glow_nb.llir.stack import StackInst
from glow_nb.types import Array, ElementKind, TensorType
from tests.unit.kernels.running import RunningKernel

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


HEADS: tuple[Instruction, ...] = (
    convolution(48),
    convolution(21),
    convolution(3, kernel=1),
    depthwise(40),
    depthwise(13),
    product(17, 48),
    product(1, 21),
)


def residual(head: Instruction) -> StackInst:
    """Return ``relu(head + x)``, whose result and ``x`` are the first and the last operand."""
    made = kernel_operands(head)[0]
    register, total = Register("made", made.type), Register("total", made.type)
    first = head.map_operands(lambda b: register if b is made else b)
    x, dest = Buffer("x", made.type), Buffer("dest", made.type)
    return StackInst.of([first, AddInst(total, register, x), ReluInst(dest, total)])


def random(type: TensorType) -> Array:
    return RANDOM.standard_normal(type.shape).astype(np.float32)


def test_every_kernel_that_says_so_is_tested() -> None:
    said = {cls for cls in INSTRUCTIONS.values() if cls.stack_in_place}
    assert said == {type(head) for head in HEADS}


@pytest.mark.jit
@pytest.mark.parametrize("head", HEADS, ids=repr)
def test_a_residual_is_added_where_it_lies(head: Instruction) -> None:
    stack, target = residual(head), Target.host()
    kernel = RunningKernel(generate_kernel(stack, target), target)
    dest, *sources, x = [random(buffer.type) for buffer in kernel_operands(stack)]
    kernel(dest, *sources, x)
    for threads in THREADS:
        place = x.copy()
        kernel(place, *sources, place, threads=threads)
        np.testing.assert_array_equal(place, dest)


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
