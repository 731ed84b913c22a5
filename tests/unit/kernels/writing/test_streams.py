"""Results that no cache holds: written past the caches, wherever their lines begin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.streams import may_stream
from glow_nb.llir.instructions.normalization import (
    LayerNormalizationInst,
    LogSoftmaxInst,
    SoftmaxInst,
)
from glow_nb.llir.instructions.reduction import ReduceSumInst
from glow_nb.llir.program import Buffer, Instruction, View, read
from tests.in_turn import each_with_one_width
from tests.unit.kernels.cases import assert_close, check, expected_of, instruction_of, random_array
from tests.unit.kernels.running import RunningKernel

FLOAT32, FLOAT16 = ElementKind.FLOAT32, ElementKind.FLOAT16
SMALL = replace(Target.host(), l2_bytes=20_000, l3_bytes=20_000)


def softmax(shape: tuple[int, ...], axis: int, kind: ElementKind = FLOAT32) -> Instruction:
    return instruction_of(SoftmaxInst, [TensorType(kind, shape)], axis=axis)


def normalization(shape: tuple[int, ...], axis: int) -> Instruction:
    weight = TensorType(FLOAT32, shape[axis:])
    operands = [TensorType(FLOAT32, shape), weight, weight]
    return instruction_of(LayerNormalizationInst, operands, axis=axis, epsilon=1e-5)


def total(shape: tuple[int, ...], axes: tuple[int, ...]) -> Instruction:
    types = [TensorType(FLOAT32, shape)]
    return instruction_of(ReduceSumInst, types, axes=axes, keep_dims=False)


CASES = {
    "long rows": softmax((6, 5, 597), 2),
    "rows shorter than a line": softmax((730, 7), 1),
    "short rows": softmax((3, 61, 31), 2),
    "half kinds": softmax((9, 1250), 1, FLOAT16),
    "a logarithm": instruction_of(LogSoftmaxInst, [TensorType(FLOAT32, (7, 800))], axis=1),
    "normalized rows": normalization((11, 577), 1),
    "normalized planes": normalization((6, 29, 31), 1),
}
FAR = {
    "sums across": total((3, 5, 700), (1,)),
    "sums across of a few": total((700, 11), (0,)),
}


@pytest.mark.jit
@pytest.mark.parametrize(("name", "lanes"), each_with_one_width(CASES))
def test_rows_are_streamed_wherever_lines_begin(name: str, lanes: int) -> None:
    instruction, target = CASES[name], replace(SMALL, lanes=lanes)
    kernel = RunningKernel(generate_kernel(instruction, target), target)
    is_staged = kernel.source.scratch_bytes >= target.machine.min_streamed_bytes
    assert ("store_streaming" in kernel.source.text) is is_staged
    assert "prefetch(src" in kernel.source.text
    rng = np.random.default_rng(0)
    operands = [random_array(rng, buffer.type, specials=False) for buffer in read(instruction)]
    (wanted,) = expected_of(instruction, operands)
    size_bytes = wanted.dtype.itemsize
    for skew in (0, 1, 4, 15):
        for threads in (1, 2, 3):
            whole = np.full(wanted.size + 96, 77, wanted.dtype)
            start = -whole.ctypes.data % 64 // size_bytes + skew
            inner = whole[start : start + wanted.size].reshape(wanted.shape)
            kernel(inner, *operands, threads=threads)
            assert_close(inner, wanted, ulp=64, absolute=2e-5)
            assert (whole[:start] == 77).all() and (whole[start + wanted.size :] == 77).all()


def test_what_fits_a_cache_is_neither_streamed_nor_asked_for() -> None:
    for instruction in CASES.values():
        text = generate_kernel(instruction, Target.host()).text
        assert "streaming" not in text and "prefetch" not in text


@pytest.mark.jit
@pytest.mark.parametrize(("name", "lanes"), each_with_one_width(FAR))
def test_tensors_that_no_near_cache_holds(name: str, lanes: int) -> None:
    check(FAR[name], replace(SMALL, lanes=lanes), specials=False, ulp=64, absolute=2e-5)


def test_rows_that_fill_the_second_cache_are_not_staged() -> None:
    instruction = softmax((5, 4096), 1)
    assert "streaming" in generate_kernel(instruction, replace(SMALL, l2_bytes=1 << 16)).text
    assert "streaming" not in generate_kernel(instruction, replace(SMALL, l2_bytes=1 << 15)).text


def test_lines_that_an_operand_has_brought_are_not_streamed() -> None:
    x = Buffer("x", TensorType(FLOAT32, (5000,)))
    assert may_stream(Buffer("dest", x.type), [x], SMALL)
    assert not may_stream(View("dest", x.type, base=x), [x], SMALL)
    truths = Buffer("truths", TensorType(ElementKind.BOOL, (50_000,)))
    assert not may_stream(truths, [x], SMALL)
