"""Kernels that need numbers where sizes are open are refused by name."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.size import Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.kernels.cpu_kernels import CPU_KERNELS
from glow_nb.kernels.open_sizes import UNWRITTEN, open_kernel
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import Buffer

FLOAT32 = ElementKind.FLOAT32


def _function(make: str) -> Function:
    rows = Symbol("rows", 32, 1, 64).size
    builder = Builder(make)
    x = builder.input("x", TensorType(FLOAT32, (rows, 4096 if make == "top_k" else 4)))
    if make == "scatter_nd":
        places = builder.constant("places", np.zeros((1, 1), np.int64))
        updates = builder.constant("updates", np.ones((1, 4), np.float32))
        result: Value = builder.emit(ops.ScatterND(x, places, updates))
    else:
        result = builder.emit(ops.TopK(x, k=2000, axis=1)).results[0]
    builder.save(result, "y")
    return builder.function()


@pytest.mark.parametrize("make", ["scatter_nd", "top_k"])
def test_kernels_that_need_numbers_are_refused_by_name(make: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"{make} .*sizes are open: rows; compile the"):
        glow_nb.compile(_function(make), sizes={}, threads=1)


def test_all_that_are_refused_have_kernels() -> None:
    assert {instruction.opcode for instruction in CPU_KERNELS} >= UNWRITTEN


def test_a_kernel_with_other_arguments_is_refused_by_name() -> None:
    rows = Symbol("rows", 32, 1, 64).size
    copy = CopyInst(*(Buffer(name, TensorType(FLOAT32, (rows,))) for name in ("y", "x")))
    source = KernelSource("own", "def kernel(dest, src):\n    return\n", (FLOAT32, FLOAT32))
    with pytest.raises(UnsupportedError, match="copy .*sizes are open: rows"):
        open_kernel(copy, lambda _: source)
