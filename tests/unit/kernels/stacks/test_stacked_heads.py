"""A stack may read again what its head reads, and store several results tile by tile."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import glow_nb
from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.kernels.cpu_kernels import CPU_KERNELS, generate_kernel
from glow_nb.kernels.operators.winograd_instructions import WinogradConvolutionInst
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Buffer, Instruction, Register, kernel_operands
from glow_nb.llir.stack import StackInst
from tests.in_turn import marked
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact
from tests.unit.kernels.stacks.test_in_place import HEADS, float32, numbers

AbsInst = instruction_for(ops.Abs)
AddInst = instruction_for(ops.Add)
ReluInst = instruction_for(ops.Relu)

RANDOM = np.random.default_rng(0)


def residual_convolution() -> Function:
    b = Builder()
    x = b.input("x", "float32<1 x 5 x 6 x 8>")
    filter = b.constant("w", RANDOM.normal(size=(8, 3, 3, 8)).astype(np.float32))
    bias = b.constant("b", RANDOM.normal(size=8).astype(np.float32))
    made = ops.Convolution(
        x, filter, bias, kernel=(3, 3), stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1)
    )
    b.save(b.emit(ops.Relu(b.emit(ops.Add(b.emit(made), x)))), "y")
    return b.function()


def gated_product() -> Function:
    b = Builder()
    x = b.input("x", "float32<7 x 12>")
    weights = b.constant("w", RANDOM.normal(size=(12, 12)).astype(np.float32))
    b.save(b.emit(ops.Mul(x, b.emit(ops.MatMul(x, weights)))), "y")
    return b.function()


@pytest.mark.jit
@pytest.mark.parametrize("build", [residual_convolution, gated_product])
def test_input_of_the_head_is_added_to_its_result(build: object) -> None:
    assert callable(build)
    function = build()
    feeds = {"x": RANDOM.normal(size=function.inputs[0].type.shape).astype(np.float32)}
    expected = glow_nb.evaluate(function, feeds)["y"]
    result = glow_nb.compile(function, threads=1).run(feeds)["y"]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def winograd(depth: int, block: int = 16) -> WinogradConvolutionInst:
    panels = -(-depth // block)
    return WinogradConvolutionInst(
        Buffer("made", float32(2, 9, 13, depth)),
        Buffer("input", float32(2, 9, 13, 5)),
        Buffer("filter", float32(1, panels, 4, 4, 5, block)),
        Buffer("bias", float32(panels * block)),
        depth=depth,
        kernel=(3, 3),
        tile=(2, 2),
        stride=(1, 1),
        pads=(1, 1, 1, 1),
        dilation=(1, 1),
        group=1,
        block=block,
        guarded=depth == 21,
    )


TILED = (*HEADS, winograd(48), winograd(21))


def test_every_kernel_that_stores_tiles_is_tested() -> None:
    traits = CPU_KERNELS.traits.items()
    tiled = {i for i, can in traits if can.fuses_epilogue and not can.reaches_all}
    assert tiled == {type(head) for head in TILED}


def several(head: Instruction) -> StackInst:
    """Return a stack that stores what the head makes, the sum with x, and what follows from it.

    That is the ReLU of the sum, or the absolute value of integers, and the head's result.
    """
    made = kernel_operands(head)[0]
    x, total, dest = (Buffer(name, made.type) for name in ("x", "total", "dest"))
    clipped = Register("clipped", made.type)
    function = ReluInst if made.type.kind.is_float else AbsInst
    body = [head, AddInst(total, made, x), function(clipped, total), AddInst(dest, clipped, made)]
    return StackInst.of(body)


QUICK = [TILED[number] for number in (0, 16)]
"""A convolution, and one by Winograd's algorithm: the slow run has all heads; the test of what is
added in place has others."""


@pytest.mark.jit
@pytest.mark.parametrize(
    "head", marked(TILED, slow=[head for head in TILED if head not in QUICK]), ids=repr
)
def test_every_result_that_is_read_later_is_stored(head: Instruction) -> None:
    lanes = LANE_COUNTS[TILED.index(head) % len(LANE_COUNTS)]
    target, stack = Target.host(lanes), several(head)
    arrays: dict[Buffer, Array] = {b: numbers(b) for b in kernel_operands(stack)}
    made, total, dest = stack.results
    first = [arrays[buffer].copy() for buffer in kernel_operands(head)]
    RunningKernel(generate_kernel(head, target), target)(*first)
    (x,) = (array for buffer, array in arrays.items() if buffer.name == "x")
    wanted = {made: first[0], total: first[0] + x}
    function = partial(np.maximum, 0) if made.type.kind.is_float else np.abs
    wanted[dest] = function(wanted[total]) + first[0]
    kernel = RunningKernel(generate_kernel(stack, target), target)
    for threads in (1, 2):
        results = {buffer: guarded(buffer.type.shape, buffer.type.kind) for buffer in stack.results}
        found = {**arrays, **{buffer: inner for buffer, (inner, _) in results.items()}}
        kernel(*(found[buffer] for buffer in kernel_operands(stack)), threads=threads)
        for buffer, (inner, whole) in results.items():
            assert guards_are_intact(whole)
            np.testing.assert_allclose(inner, wanted[buffer], rtol=1e-6, atol=1e-6)
