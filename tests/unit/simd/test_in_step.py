"""Functions whose registers go in step: the same numbers, and the order of their instructions."""

import re

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.codegen.compile import compile_assembly
from glow_nb.hlir import ops
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Buffer
from tests.in_turn import in_turn
from tests.unit.kernels.running import RunningKernel

pytestmark = pytest.mark.jit

FLOAT32, FLOAT64, BFLOAT16 = ElementKind.FLOAT32, ElementKind.FLOAT64, ElementKind.BFLOAT16
AVX2 = Target("x86_64-unknown-linux-gnu", "znver3", "+avx,+avx2,+fma,+f16c", lanes=8)
NEON = Target("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon", lanes=4)


@pytest.mark.parametrize(
    ("vectors", "kind"), in_turn([1, 2, 3, 4, 7], [FLOAT32, FLOAT64, BFLOAT16])
)
def test_a_tile_has_the_numbers_of_its_vectors(kind: ElementKind, vectors: int) -> None:
    lanes = 8
    lines = [
        "def kernel(dest, x, scratch, thread, threads):",
        f"    tile_store(dest, 0, {lanes}, gelu(tile_load(x, 0, {lanes}, {vectors}, 1, {lanes})))",
        *(
            f"    store(dest, {(vectors + n) * lanes}, gelu(load(x, {n * lanes}, {lanes})))"
            for n in range(vectors)
        ),
    ]
    x = np.random.default_rng(0).normal(0, 3, vectors * lanes).astype(kind.dtype)
    dest = np.zeros(2 * x.size, kind.dtype)
    source = KernelSource("gelu", "\n".join(lines) + "\n", (kind,) * 2)
    RunningKernel(source, Target.host())(dest, x)
    np.testing.assert_array_equal(dest[: x.size], dest[x.size :])
    assert np.any(dest)


def gelu_loop(target: Target) -> str:
    """Return the assembly of GELU of many numbers."""
    type = TensorType(FLOAT32, (3072,))
    gelu = instruction_for(ops.Gelu)(Buffer("dest", type), Buffer("x", type), approximate="none")
    return compile_assembly(generate_kernel(gelu, target), target)


def test_four_registers_take_each_step_together() -> None:
    steps = re.findall(r"vfn?m(?:add|sub)\d+ps\t.*, (%ymm\d+)\n", gelu_loop(AVX2))
    assert len(steps) >= 4 * 16
    for begin in range(0, len(steps), 4):
        assert len({*steps[begin : begin + 4]}) == 4


def test_registers_that_wait_in_memory_do_not_cross_lines() -> None:
    moves = re.findall(r"(vmov[ua]ps)\t(.*)\n", gelu_loop(AVX2))
    waiting = [name for name, operands in moves if "(%rsp)" in operands and "%ymm" in operands]
    assert waiting
    assert {*waiting} == {"vmovaps"}


def test_other_processors_have_no_such_pieces() -> None:
    assert "APP" in gelu_loop(AVX2)
    assert "APP" not in gelu_loop(NEON)
