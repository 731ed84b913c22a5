"""Kernels that need numbers where sizes are open are refused by name."""

from __future__ import annotations

import pytest

import glow_nb
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.size import Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.kernels.cpu_kernels import CPU_KERNELS
from glow_nb.kernels.open_sizes import UNWRITTEN, open_kernel
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import Buffer

FLOAT32 = ElementKind.FLOAT32


def test_kernels_that_need_numbers_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glow_nb.kernels.open_sizes.UNWRITTEN", {"softmax"})
    rows = Symbol("rows", 32, 1, 64).size
    builder = Builder()
    x = builder.input("x", TensorType(FLOAT32, (rows, 4)))
    builder.save(builder.emit(ops.Softmax(x, axis=1)), "y")
    with pytest.raises(UnsupportedError, match=r"softmax .*sizes are open: rows; compile the"):
        glow_nb.compile(builder.function(), sizes={}, threads=1)


def test_all_that_are_refused_have_kernels() -> None:
    assert {instruction.opcode for instruction in CPU_KERNELS} >= UNWRITTEN


def test_a_kernel_with_other_arguments_is_refused_by_name() -> None:
    rows = Symbol("rows", 32, 1, 64).size
    copy = CopyInst(*(Buffer(name, TensorType(FLOAT32, (rows,))) for name in ("y", "x")))
    source = KernelSource("own", "def kernel(dest, src):\n    return\n", (FLOAT32, FLOAT32))
    with pytest.raises(UnsupportedError, match="copy .*sizes are open: rows"):
        open_kernel(copy, lambda _: source)
