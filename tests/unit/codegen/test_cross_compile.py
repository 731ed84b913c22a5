"""The same sources compile for processors that are not this one; what their assembly says."""

from __future__ import annotations

import re
import struct
from functools import cache

import numpy as np
import pytest

from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.codegen.compile import compile_assembly, compile_kernel
from glow_nb.codegen.compile_runtime import compile_runtime
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Function, Value
from glow_nb.hlir.ops import Add, Convolution, FullyConnected, MaxPool, Relu, Reshape, Softmax
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.instructions.shape import TransposeInst
from glow_nb.llir.program import Buffer
from glow_nb.network.compilation import build_program, lower_for
from tests.in_turn import marked

pytestmark = pytest.mark.jit

AVX512 = Target(
    "x86_64-unknown-linux-gnu",
    "skylake-avx512",
    "+avx,+avx2,+fma,+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl",
    lanes=16,
)
NEON = Target("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon", lanes=4)
TARGETS = {"avx512": AVX512, "neon": NEON}

MACHINES = {"avx512": 62, "neon": 183}
"""What an ELF header calls these processors: EM_X86_64 and EM_AARCH64."""
MACHINE_OFFSET = 18

PAUSES = {"avx512": bytes.fromhex("f390"), "neon": bytes.fromhex("df3f03d5")}
"""Machine code of what a waiting thread executes: ``pause`` and ``isb``."""

WIDE_FMA = {"avx512": r"vfn?madd\d+ps.*%zmm", "neon": r"fmla\tv\d+\.4s"}
"""A multiplication and addition of as many numbers as a register of the target holds."""

SCALAR_FMA = {"avx512": r"vfn?madd\d+ss", "neon": r"fn?madd\ts"}
PRODUCTS = ("convolution", "depthwise", "mat_mul", "winograd")


def network() -> Function:
    """Return one of each: convolutions, depthwise, pooling, residual, product, softmax."""
    b = Builder()

    def convolve(x: Value, depth: int, taps: int, group: int = 1) -> Value:
        channels = x.type.shape[-1]
        shape = (depth, taps, taps, channels // group)
        node = Convolution(
            x,
            weight(shape),
            weight((depth,)),
            kernel=(taps, taps),
            stride=(1, 1),
            pads=(taps // 2,) * 4,
            dilation=(1, 1),
            group=group,
        )
        return b.emit(node)

    def weight(shape: tuple[int, ...]) -> Constant:
        return b.constant("w", np.random.default_rng(0).standard_normal(shape, np.float32))

    x = b.input("x", "float32<1 x 12 x 12 x 32>")
    y: Value = b.emit(Relu(convolve(x, 64, 3)))
    y = b.emit(Add(convolve(y, 64, 1), y))
    y = b.emit(Relu(convolve(y, 64, 3, group=64)))
    y = b.emit(MaxPool(y, kernel=(2, 2), stride=(2, 2), pads=(0,) * 4, dilation=(1, 1)))
    y = b.emit(Reshape(y, shape=(1, 6 * 6 * 64)))
    y = b.emit(FullyConnected(y, weight((6 * 6 * 64, 48)), weight((48,))))
    b.save(b.emit(Softmax(y, axis=1)), "y")
    return b.function()


@cache
def sources(target: Target) -> dict[str, KernelSource]:
    """Return the kernels of the network for *target*, by symbol."""
    backend = CpuBackend(target)
    program = build_program(lower_for(network(), backend), backend)
    made = (generate_kernel(instruction, target) for instruction in program.work)
    return {source.symbol: source for source in made}


@pytest.mark.parametrize("name", marked(TARGETS, slow=["avx512"]))
def test_every_kernel_compiles_for_the_target(name: str) -> None:
    """The slow run also has AVX-512, for which the default run compiles products below."""
    target = TARGETS[name]
    for source in sources(target).values():
        payload = compile_kernel(source, target)
        assert payload.startswith(b"\x7fELF"), source.symbol
        assert struct.unpack_from("<H", payload, MACHINE_OFFSET) == (MACHINES[name],), source.symbol


@pytest.mark.parametrize("name", marked(TARGETS, slow=["neon"]))
def test_products_use_the_whole_register(name: str) -> None:
    """The slow run also has NEON, for which the default run compiles all kernels above."""
    target = TARGETS[name]
    products = [s for s in sources(target).values() if s.family.startswith(PRODUCTS)]
    assert {source.family for source in products} == set(PRODUCTS)
    for source in products:
        assembly = compile_assembly(source, target)
        assert re.search(WIDE_FMA[name], assembly), source.text
        assert not re.search(SCALAR_FMA[name], assembly), source.text


TURNED = {"avx512": r"vunpcklps\t%zmm", "neon": r"(zip|trn)1\tv\d+\.(4s|2d)"}


@pytest.mark.parametrize("name", TARGETS)
def test_transposes_are_made_in_whole_registers(name: str) -> None:
    target = TARGETS[name]
    shapes = {"y": (2000, 2100), "x": (2100, 2000)}
    result, source = (Buffer(n, TensorType(ElementKind.FLOAT32, s)) for n, s in shapes.items())
    kernel = generate_kernel(TransposeInst(result, source, permutation=(1, 0)), target)
    assembly = compile_assembly(kernel, target)
    assert re.search(TURNED[name], assembly)


@pytest.mark.parametrize("name", TARGETS)
def test_waiting_threads_pause(name: str) -> None:
    payload = compile_runtime(TARGETS[name])
    assert struct.unpack_from("<H", payload, MACHINE_OFFSET)[0] == MACHINES[name]
    assert PAUSES[name] in payload
