"""Numbers are rounded to bytes by whole groups of vectors, as one by one."""

from dataclasses import replace

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.codegen.compile import compile_assembly
from glow_nb.hlir import ops
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Instruction
from tests.unit.kernels.cases import check, instruction_of

pytestmark = pytest.mark.jit
INT8, UINT8, INT16 = ElementKind.INT8, ElementKind.UINT8, ElementKind.INT16
FLOAT32 = ElementKind.FLOAT32
AVX2 = "+sse2,+ssse3,+sse4.1,+avx,+avx2,+fma"
PROCESSORS = [Target.host(lanes) for lanes in LANE_COUNTS]
PROCESSORS += [replace(Target.host(8), cpu="x86-64", features=AVX2)]


def quantized(kind: ElementKind, size: int) -> Instruction:
    types = [TensorType(FLOAT32, (size,)), TensorType(FLOAT32, (1,)), TensorType(kind, (1,))]
    return instruction_of(instruction_for(ops.QuantizeLinear), types, kind=kind)


def numbers() -> Array:
    """Return halves and their neighbours around all bytes, and what is far outside of them."""
    halves = np.arange(-700, 700, dtype=np.float32) / 2
    near = [np.nextafter(halves, np.float32(side)) for side in (-np.inf, np.inf)]
    far = np.float32(2.0) ** np.arange(8, 128)
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 2**31, -(2**31), 2**30, 1e-40], np.float32)
    return np.concatenate([halves, *near, far, -far, odd]).astype(np.float32)


@pytest.mark.parametrize("kind", [INT8, UINT8, INT16])
@pytest.mark.parametrize("target", PROCESSORS, ids=lambda target: f"{target.cpu}-{target.lanes}")
@pytest.mark.parametrize("offset", [0, 3])
def test_every_half_and_what_is_outside_is_rounded_alike(
    kind: ElementKind, target: Target, offset: int
) -> None:
    x = numbers()
    operands: list[Array] = [x, np.ones(1, np.float32), np.full(1, offset, kind.dtype)]
    check(quantized(kind, x.size), target, operands=operands)


@pytest.mark.parametrize("target", PROCESSORS, ids=lambda target: f"{target.cpu}-{target.lanes}")
def test_four_vectors_are_narrowed_to_one(target: Target) -> None:
    assembly = compile_assembly(generate_kernel(quantized(UINT8, 4096), target), target)
    assert "packuswb" in assembly
    assert "pmovdb" not in assembly
