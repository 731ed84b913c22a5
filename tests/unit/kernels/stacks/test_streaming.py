"""Elementwise loops over what no cache holds write past the caches."""

from dataclasses import replace

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.fuse.loop_body import LoopBody
from glow_nb.hlir import ops
from glow_nb.kernels.stacks.elementwise import loop_source
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import Buffer, View
from tests.unit.kernels.cases import assert_close, random_array
from tests.unit.kernels.running import RunningKernel

AddInst = instruction_for(ops.Add)
MulInst = instruction_for(ops.Mul)
ReluInst = instruction_for(ops.Relu)
TanhInst = instruction_for(ops.Tanh)

FLOAT32, INT64 = ElementKind.FLOAT32, ElementKind.INT64


@pytest.mark.jit
@pytest.mark.parametrize("lanes", LANE_COUNTS)
@pytest.mark.parametrize(("kind", "size"), [(FLOAT32, 5_003), (INT64, 1_031), (FLOAT32, 4_096)])
def test_what_no_cache_holds_is_streamed(kind: ElementKind, size: int, lanes: int) -> None:
    target = replace(Target.host(lanes), l3_bytes=4096)
    type = TensorType(kind, (size,))
    x, row, total, dest = (Buffer(name, type) for name in ("x", "row", "total", "dest"))
    number = Buffer("number", TensorType(kind, (1,)))
    body = LoopBody((AddInst(total, x, number), MulInst(dest, total, row)), (dest,))
    kernel = RunningKernel(loop_source(body, target), target)
    assert "store_streaming" in kernel.source.text
    rng = np.random.default_rng(size)
    a, b, c = (random_array(rng, t, specials=False) for t in (type, number.type, type))
    for skew in range(0, 18, 3):  # elements from the beginning of a line
        for threads in (1, 2, 3):
            whole = np.full(size + 64, 77, kind.dtype)
            start = -whole.ctypes.data % 64 // kind.size_bytes + skew
            kernel(whole[start : start + size], a, b, c, threads=threads)
            assert_close(whole[start : start + size], (a + b) * c)
            assert (whole[:start] == 77).all() and (whole[start + size :] == 77).all()


@pytest.mark.jit
@pytest.mark.parametrize("lanes", LANE_COUNTS)
@pytest.mark.parametrize("rows", [3, 70])
def test_long_rows_are_streamed_wherever_they_begin(lanes: int, rows: int) -> None:
    """A sum with one number a row, into the columns of a wider tensor."""
    target, columns, pitch = replace(Target.host(lanes), l3_bytes=4096), 517, 600
    x, column = (Buffer(n, TensorType(FLOAT32, (rows, c))) for n, c in (("x", columns), ("c", 1)))
    base = Buffer("base", TensorType(FLOAT32, (rows, pitch)))
    dest = View("dest", x.type, base=base, start=5, steps=(pitch, 1))
    kernel = RunningKernel(loop_source(LoopBody.of(AddInst(dest, x, column)), target), target)
    assert "store_streaming" in kernel.source.text
    rng = np.random.default_rng(rows)
    a, b = (random_array(rng, buffer.type, specials=False) for buffer in (x, column))
    for threads in (1, 2, 3):
        whole = np.full((rows, pitch), 77, np.float32)
        kernel(whole.ravel()[5:], a, b, threads=threads)
        assert_close(np.ascontiguousarray(whole[:, 5 : 5 + columns]), a + b)
        assert (whole[:, :5] == 77).all() and (whole[:, 5 + columns :] == 77).all()


def test_short_rows_are_not_streamed() -> None:
    target = replace(Target.host(), l3_bytes=4096)
    x, row = (Buffer(n, TensorType(FLOAT32, (r, 100))) for n, r in (("x", 90), ("row", 1)))
    dest = Buffer("dest", x.type)
    assert "stream" not in loop_source(LoopBody.of(AddInst(dest, x, row)), target).text


def test_rows_that_repeat_one_are_not_streamed() -> None:
    target = replace(Target.host(), l3_bytes=4096)
    row = Buffer("row", TensorType(FLOAT32, (1, 1000)))
    dest = Buffer("dest", TensorType(FLOAT32, (90, 1000)))
    assert "stream" not in loop_source(LoopBody.of(CopyInst(dest, row)), target).text


def test_a_result_upon_an_operand_is_not_streamed() -> None:
    target = replace(Target.host(8), l3_bytes=4096)
    x = Buffer("x", TensorType(FLOAT32, (5_000,)))
    body = LoopBody.of(ReluInst(View("dest", x.type, base=x), x))
    assert "stream" not in loop_source(body, target).text
    assert "stream" in loop_source(LoopBody.of(ReluInst(Buffer("dest", x.type), x)), target).text


def test_vectors_that_fill_no_line_are_not_streamed() -> None:
    target = replace(Target.host(4), l3_bytes=4096)
    x, dest = (Buffer(name, TensorType(ElementKind.FLOAT64, (5_000,))) for name in ("x", "dest"))
    assert "stream" not in loop_source(LoopBody.of(TanhInst(dest, x)), target).text
