"""Kernels whose operands are channels of wider tensors, each with its own distance of pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators import packed_instructions as packed
from glow_nb.kernels.operators.winograd_instructions import WinogradConvolutionInst
from glow_nb.kernels.stacks.generate_stack import generate_stack
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import Buffer, Instruction, Register, View, kernel_operands
from glow_nb.llir.stack import StackInst
from tests.in_turn import each_with_one_width
from tests.unit.kernels.running import RunningKernel

AddInst = instruction_for(ops.Add)
FLOAT32 = ElementKind.FLOAT32


def buffer(name: str, *shape: int) -> Buffer:
    return Buffer(name, TensorType(FLOAT32, shape))


def window(name: str, shape: tuple[int, ...], before: int, behind: int) -> View:
    """Return channels of a tensor that has others before and after them."""
    *sizes, channels = shape
    base = buffer(f"{name}_whole", *sizes, before + channels + behind)
    return View(name, TensorType(FLOAT32, shape), base, before, base.strides)


INPUT = (2, 6, 7, 20)
SAME: dict[str, Any] = {"kernel": (3, 3), "pads": (1, 1, 1, 1)}
WINDOW: dict[str, Any] = SAME | {"stride": (1, 1), "dilation": (1, 1)}


def instructions(dest: Buffer, input: Buffer, block: int) -> dict[str, Instruction]:
    """Return an instruction of each kind that makes *dest* of *input*."""
    panels = -(-20 // block)
    bias = buffer("bias", panels * block)
    tiles = buffer("filter", 1, panels, 6, 4, 20, block)
    direct = buffer("filter", 1, panels, 3, 3, 20, block)
    rows = buffer("filter", panels, 20, block)
    each, four = buffer("filter", 3, 3, 20), buffer("filter", 3, 3, 4, 20)
    return {
        "direct": packed.PackedConvolutionInst(
            dest, input, direct, bias, depth=20, group=1, block=block, **WINDOW
        ),
        "unpadded": packed.PackedConvolutionInst(
            dest, input, buffer("filter", 1, panels, 1, 1, 20, block), bias, depth=20, group=1,
            block=block, kernel=(1, 1), pads=(0, 0, 0, 0), stride=(1, 1), dilation=(1, 1),
        ),
        "winograd": WinogradConvolutionInst(
            dest, input, tiles, bias, depth=20, tile=(4, 2), group=1, block=block,
            guarded=False, **WINDOW,
        ),
        "guarded": WinogradConvolutionInst(
            dest, input, tiles, bias, depth=20, tile=(4, 2), group=1, block=block,
            guarded=True, **WINDOW,
        ),
        "depthwise": packed.DepthwiseConvolutionInst(
            dest, input, each, buffer("bias", 20), **WINDOW
        ),
        "grouped": packed.GroupedConvolutionInst(
            dest, input, four, buffer("bias", 20), **WINDOW
        ),
        "product": packed.PackedMatMulInst(dest, input, rows, bias, depth=20, block=block),
    }  # fmt: skip


NAMES = tuple(instructions(buffer("dest", *INPUT), buffer("input", *INPUT), 8))


def array_of(buffer: Buffer, random: np.random.Generator) -> Array:
    """Return numbers for all of the region that *buffer* lies in."""
    return random.standard_normal(buffer.root.type.shape).astype(np.float32)


def seen(buffer: Buffer, array: Array) -> Array:
    """Return what *buffer* is of the *array* of its region."""
    steps = [stride * array.itemsize for stride in buffer.strides]
    flat = array.reshape(-1)[buffer.offset :]
    return np.lib.stride_tricks.as_strided(flat, buffer.type.shape, steps)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "lanes"), each_with_one_width(NAMES, only=["direct", "depthwise", "product"])
)
def test_each_operand_has_its_own_distance_of_pixels(name: str, lanes: int) -> None:
    """The slow run also has Winograd's algorithm, whose own test has a window of channels."""
    target, block, random = Target.host(lanes), 2 * lanes, np.random.default_rng(0)
    dest, input = window("dest", INPUT, 3, 2), window("input", INPUT, 5, 8)
    operand, made = window("operand", INPUT, 0, 9), Register("made", dest.type)
    head = instructions(made, input, block)[name]
    stack = StackInst.of([head, AddInst(dest, made, operand)])
    arrays = {b: array_of(b, random) for b in kernel_operands(stack)}
    assert isinstance(head, NodeInstruction)
    reads = (np.ascontiguousarray(seen(b, arrays[b])) for b in kernel_operands(head)[1:])
    wanted = head.as_node().evaluate(*reads) + seen(operand, arrays[operand])
    before = arrays[dest].copy()
    kernel = RunningKernel(generate_stack(stack, target), target)
    kernel(*(array.reshape(-1)[b.offset :] for b, array in arrays.items()), threads=2)
    np.testing.assert_allclose(seen(dest, arrays[dest]), wanted, rtol=0, atol=1e-4)
    seen(dest, before)[...] = seen(dest, arrays[dest])
    np.testing.assert_array_equal(arrays[dest], before)  # nothing else was written


@pytest.mark.parametrize("name", NAMES)
def test_pixels_at_unequal_distances_are_refused(name: str) -> None:
    type = TensorType(FLOAT32, INPUT)
    rows = View("rows", type, buffer("whole", 2, 6, 9, 20), 0, (1080, 180, 20, 1))
    for dest, input in ((rows, buffer("input", *INPUT)), (buffer("dest", *INPUT), rows)):
        with pytest.raises(UnsupportedError, match=r"strides \[1080, 180, 20, 1\]"):
            generate_kernel(instructions(dest, input, 8)[name], Target.host(8))
