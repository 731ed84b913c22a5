"""Products of bytes in pairs that do not saturate are exact."""

import ctypes
import mmap
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_nb.codegen.compile import compile_assembly
from glow_nb.errors import UnsupportedError, VerifyError
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.paired import PairedConvolutionInst
from glow_nb.kernels.operators.pairings import FACTORS, PairedWeights, paired
from glow_nb.kernels.operators.panels import joins_taps, runs_of
from glow_nb.kernels.products.dot_form import paired_form
from glow_nb.kernels.target import Target
from glow_nb.types import Array, ElementKind, TensorType
from tests.unit.kernels.cases import check, expected_of, instruction_of
from tests.unit.kernels.running import RunningKernel

UINT8, INT8, INT32 = ElementKind.UINT8, ElementKind.INT8, ElementKind.INT32

FEATURES = {
    4: "+sse2,+ssse3",
    8: "+sse2,+avx,+avx2,+fma",
    16: "+sse2,+avx,+avx2,+fma,+avx512f,+avx512bw,+avx512vl",
}
NARROW = [4, 8]
"""Lanes that any processor with AVX2 has."""


def processor(lanes: int) -> Target:
    """Return a processor that multiplies bytes in pairs, and has no VNNI."""
    return replace(Target.host(lanes), cpu="x86-64", features=FEATURES[lanes])


def convolution(
    input: tuple[int, ...], weights: Array, block: int, *, pad: int = 0, **attributes: Any
) -> tuple[PairedConvolutionInst, PairedWeights]:
    """Return the convolution of an *input* ``[N, *spatial, C]`` with ``[depth, *kernel, C]``."""
    depth, *kernel, channels = weights.shape
    rank = len(kernel)
    attributes = {"stride": (1,) * rank, "dilation": (1,) * rank, **attributes}
    joined = joins_taps(FACTORS, 1, attributes["dilation"])
    runs, run = runs_of(kernel, channels, joined=joined)
    made = paired(weights.reshape(depth, prod(runs), run), block)
    types = [
        TensorType(UINT8, input),
        TensorType(INT8, made.filter.shape),
        TensorType(INT32, (-(-depth // block) * block,)),
        TensorType(INT32, made.order.shape),
    ]
    fields = {"depth": depth, "kernel": tuple(kernel), "pads": (pad,) * 2 * rank, "block": block}
    instruction = instruction_of(PairedConvolutionInst, types, **fields, **attributes)
    assert isinstance(instruction, PairedConvolutionInst)
    return instruction, made


def check_paired(
    instruction: PairedConvolutionInst, weights: PairedWeights, target: Target, seed: int = 0
) -> None:
    """Compare with the operator, with many inputs that are as large as can be."""
    random = np.random.default_rng(seed)
    input = random.choice(np.array([0, 1, 99, 255, 255], np.uint8), instruction.input.type.shape)
    bias = random.integers(-(2**20), 2**20, instruction.bias.type.shape, np.int32)
    check(instruction, target, operands=[input, weights.filter, bias, weights.order])


def random_weights(shape: tuple[int, ...], spread: float, seed: int = 0) -> Array:
    """Return normal numbers with this standard deviation, as bytes."""
    numbers = np.random.default_rng(seed).standard_normal(shape)
    return np.clip(np.round(spread * numbers), -128, 127).astype(np.int8)


@pytest.mark.jit
@settings(max_examples=settings().max_examples // 5)
@given(st.data())
def test_convolutions_mean_the_same(data: st.DataObject) -> None:
    draw = data.draw
    kernel = draw(st.sampled_from([(1,), (3,), (1, 1), (3, 3), (2, 3), (3, 1), (2, 1, 3)]))
    rank, lanes = len(kernel), draw(st.sampled_from(NARROW))
    channels = draw(st.sampled_from([1, 3, 5, 8, 16, 17, 48, 64]))
    depth = draw(st.integers(1, 40))
    stride, dilation = (draw(st.sampled_from([(1,) * rank, (2,) * rank])) for _ in range(2))
    sizes = (draw(st.integers(1, 2)), *(draw(st.integers(5, 9)) for _ in kernel))
    spread = draw(st.sampled_from([1.0, 40.0, 500.0]))
    weights = random_weights((depth, *kernel, channels), spread, draw(st.integers(0, 9)))
    made = convolution(
        (*sizes, channels),
        weights,
        draw(st.sampled_from([8, 16, 24])),
        pad=draw(st.integers(0, 2)),
        stride=stride,
        dilation=dilation,
        outside=draw(st.sampled_from([0, 0, 7, 255])),
    )
    check_paired(*made, processor(lanes), draw(st.integers(0, 9)))


@pytest.mark.jit
@pytest.mark.parametrize("lanes", NARROW)
@pytest.mark.parametrize(("rows", "inner", "depth"), [(196, 256, 70), (5, 1500, 24), (1, 40, 9)])
def test_matrix_products_mean_the_same(lanes: int, rows: int, inner: int, depth: int) -> None:
    weights = random_weights((depth, 1, inner), 40)
    check_paired(*convolution((1, rows, inner), weights, 16), processor(lanes))


@pytest.mark.jit
@pytest.mark.parametrize("lanes", NARROW)
def test_all_pairs_of_bytes_are_multiplied_exactly(lanes: int) -> None:
    weights = np.arange(-128, 128).reshape(256, 1, 1).astype(np.int8)
    instruction, made = convolution((1, 256, 1), weights, 16)
    left = np.arange(256, dtype=np.uint8).reshape(1, 256, 1)
    operands: list[Array] = [left, made.filter, np.zeros(256, np.int32), made.order]
    check(instruction, processor(lanes), operands=operands)


@pytest.mark.jit
@pytest.mark.parametrize("weight", [127, -128, 64, -64])
def test_the_longest_sums_of_extremes_are_exact(weight: int) -> None:
    inner = 2**31 // (255 * 128) // 4 * 4
    weights: Array = np.full((9, 1, inner), weight, np.int8)
    instruction, made = convolution((1, 3, inner), weights, 16)
    left: Array = np.full((1, 3, inner), 255, np.uint8)
    operands: list[Array] = [left, made.filter, np.zeros(16, np.int32), made.order]
    check(instruction, processor(8), operands=operands)


@pytest.mark.jit
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3)])
def test_nothing_behind_the_input_is_read(kernel: tuple[int, int]) -> None:
    """The input ends where a page begins that may not be read: that would end the process."""
    weights = random_weights((20, *kernel, 16), 40)
    instruction, made = convolution((1, 6, 8, 16), weights, 16)
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(start + page, page, 0) == 0
    size = prod(instruction.input.type.shape)
    input = np.frombuffer(memory, np.uint8, size, page - size).reshape(1, 6, 8, 16)
    input[...] = np.random.default_rng(1).integers(0, 256, input.shape, np.uint8)
    target = processor(8)
    bias: Array = np.zeros(32, np.int32)
    found = np.zeros(instruction.dest.type.shape, np.int32)
    kernel_of_it = RunningKernel(generate_kernel(instruction, target), target)
    kernel_of_it(found, input, made.filter, bias, made.order)
    (wanted,) = expected_of(instruction, [input, made.filter, bias, made.order])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.jit
@pytest.mark.parametrize("lanes", FEATURES)
def test_a_step_takes_two_instructions_for_each_vector(lanes: int) -> None:
    instruction, _ = convolution((1, 4, 64), random_weights((lanes, 1, 64), 20), lanes)
    target = processor(lanes)
    text = compile_assembly(generate_kernel(instruction, target), target)
    names = ["pmaddubsw", "pmaddwd", "pshufb"]
    rows = 4
    assert [text.count(f"{name}\t") for name in names] == [rows, rows, rows]


@pytest.mark.parametrize(
    ("lanes", "features"),
    [
        (4, "+sse2"),
        (8, "+sse2,+avx"),
        (8, "+sse2,+ssse3"),
        (8, f"{FEATURES[8]},+avxvnni"),
        (16, f"{FEATURES[8]},+avx512f"),
        (16, f"{FEATURES[16]},+avx512vnni"),
    ],
)
def test_other_processors_are_told_to_pack(lanes: int, features: str) -> None:
    target = replace(Target.host(lanes), cpu="x86-64", features=features)
    assert paired_form(target) is None
    instruction, _ = convolution((1, 4, 64), random_weights((8, 1, 64), 20), 16)
    with pytest.raises(UnsupportedError, match="choose packed_convolution"):
        generate_kernel(instruction, target)


def test_panels_are_made_of_whole_vectors() -> None:
    instruction, _ = convolution((1, 4, 64), random_weights((9, 1, 64), 20), 9)
    with pytest.raises(UnsupportedError, match="panels of 9 columns"):
        generate_kernel(instruction, processor(8))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: TensorType(INT8, (1, 4, 64))}, "'input' is int8<1 x 4 x 64>"),
        ({1: TensorType(INT8, (16, 60))}, "'filter' is int8<16 x 60>, but block = 16 needs"),
        ({2: TensorType(INT32, (8,))}, "'bias' is int32<8>, but depth = 9 needs int32<16>"),
        ({3: TensorType(INT32, (17,))}, "'order' is int32<17>, but filter int8<16 x 64> needs"),
    ],
)
def test_operands_that_do_not_fit_are_refused(change: dict[int, TensorType], message: str) -> None:
    types = [
        TensorType(UINT8, (1, 4, 64)),
        TensorType(INT8, (16, 64)),
        TensorType(INT32, (16,)),
        TensorType(INT32, (1 + 1 + 16,)),
    ]
    fields: dict[str, Any] = {"depth": 9, "kernel": (1,), "block": 16, "pads": (0, 0)}
    fields |= {"stride": (1,), "dilation": (1,)}
    instruction_of(PairedConvolutionInst, types, **fields)
    changed = [change.get(number, type) for number, type in enumerate(types)]
    with pytest.raises(VerifyError) as caught:
        instruction_of(PairedConvolutionInst, changed, **fields)
    assert message in str(caught.value)
    with pytest.raises(VerifyError, match="outside is 256"):
        instruction_of(PairedConvolutionInst, types, outside=256, **fields)
