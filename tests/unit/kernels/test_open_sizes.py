"""Kernels that need numbers where sizes are open are refused by name."""

from __future__ import annotations

import pytest

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.size import Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.open_sizes import open_kernel
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.program import Buffer, Instruction, mutated

FLOAT32 = ElementKind.FLOAT32


def test_a_kernel_with_other_arguments_is_refused_by_name() -> None:
    rows = Symbol("rows", 32, 1, 64).size
    copy = CopyInst(*(Buffer(name, TensorType(FLOAT32, (rows,))) for name in ("y", "x")))
    source = KernelSource("own", "def kernel(dest, src):\n    return\n", (FLOAT32, FLOAT32))
    with pytest.raises(UnsupportedError, match="copy .*sizes are open: rows"):
        open_kernel(copy, lambda _: source)


def test_sizes_are_code_in_kernels_however_they_are_printed() -> None:
    rows = (Symbol("rows", 32, 1, 64).size + 1) // 2
    copy = CopyInst(*(Buffer(name, TensorType(FLOAT32, (rows,))) for name in ("y", "x")))

    def write(instruction: Instruction) -> KernelSource:
        (size,) = mutated(instruction)[0].type.shape
        text = "def kernel(dest, src, scratch, thread, threads):\n    n = " + str(size) + "\n"
        return KernelSource("own", text, (FLOAT32, FLOAT32))

    assert "n = ((size0 + 1)//2)\n" in open_kernel(copy, write).text
