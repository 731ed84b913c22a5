"""Products of bytes in pairs that do not saturate are exact."""

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_nb.backends import backend_named
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.base.errors import UnsupportedError, VerifyError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.codegen.compile import compile_assembly, compile_kernel
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Concat, Convolution, Minimum
from glow_nb.hlir.ops.windows import Window
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import external_constants, print_function
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.paired import PairedConvolutionInst, runs_of_bytes
from glow_nb.kernels.operators.pairings import PairedWeights, fault_of, paired
from glow_nb.kernels.products.dot_choice import pays_to_pair
from glow_nb.kernels.target import Target
from glow_nb.llir.parse import parse_program
from glow_nb.llir.print import external_weights, print_program
from glow_nb.llir.program import Bound, Weight
from glow_nb.network import compilation as compiler
from glow_nb.simd.paired_dot import TURNS
from tests.unit.kernels.cases import check, expected_of, instruction_of
from tests.unit.kernels.running import RunningKernel, at_a_forbidden_page

UINT8, INT8, INT32 = ElementKind.UINT8, ElementKind.INT8, ElementKind.INT32

FEATURES = {
    4: "+sse2,+ssse3,+avx",
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
    runs = runs_of_bytes(tuple(kernel), attributes["dilation"], channels)
    made = paired(weights.reshape(depth, *runs), block)
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
    if draw(st.booleans()):  # the taps of a line cover it, so that lines follow one another
        sizes = (*sizes[:-1], (kernel[-1] - 1) * dilation[-1] + 1)
    spread = draw(st.sampled_from([1.0, 40.0, 500.0]))
    weights = random_weights((depth, *kernel, channels), spread, draw(st.integers(0, 9)))
    made = convolution(
        (*sizes, channels),
        weights,
        draw(st.sampled_from([8, 16, 24])),
        pad=draw(st.integers(0, 2)),
        stride=stride,
        dilation=dilation,
        pad_value=draw(st.sampled_from([0, 0, 7, 255])),
    )
    check_paired(*made, processor(lanes), draw(st.integers(0, 9)))


@pytest.mark.jit
@pytest.mark.parametrize("lanes", NARROW)
@pytest.mark.parametrize(
    ("rows", "inner", "depth"),
    [(196, 256, 70), pytest.param(5, 1500, 24, marks=pytest.mark.slow), (1, 40, 9)],
)
def test_matrix_products_mean_the_same(lanes: int, rows: int, inner: int, depth: int) -> None:
    weights = random_weights((depth, inner), 40)
    check_paired(*convolution((rows, inner), weights, 16), processor(lanes))


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
@pytest.mark.parametrize(
    ("input", "kernel"),
    [
        pytest.param((1, 6, 8, 16), (1, 1), marks=pytest.mark.slow),  # read in place
        ((1, 6, 8, 16), (3, 3)),
        ((1, 6, 8, 20), (1, 1)),  # copied, with room after it
        pytest.param((1, 6, 3, 4), (2, 3), marks=pytest.mark.slow),
        ((50, 20), ()),
        pytest.param((50, 32), (), marks=pytest.mark.slow),
    ],
)
def test_nothing_behind_the_input_and_the_scratch_is_read(
    input: tuple[int, ...], kernel: tuple[int, ...]
) -> None:
    """The slow run also has a single tap and a matrix in place, and taps of whole lines."""
    weights = random_weights((20, *kernel, input[-1]), 40)
    instruction, made = convolution(input, weights, 16)
    left = at_a_forbidden_page(prod(input)).reshape(input)
    left[...] = np.random.default_rng(1).integers(0, 256, input, np.uint8)
    target, bias = processor(8), np.zeros(32, np.int32)
    found = np.zeros(instruction.dest.type.shape, np.int32)
    source = generate_kernel(instruction, target)
    running = RunningKernel(source, target)
    arrays = [found, left, made.filter, bias, made.order]
    scratch = at_a_forbidden_page(source.scratch_bytes)  # as it was asked for, but for its begin
    running.call(*(array.ctypes.data for array in (*arrays, scratch)), 0, 1)
    (wanted,) = expected_of(instruction, arrays[1:])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.jit
@pytest.mark.parametrize("lanes", FEATURES)
def test_a_step_takes_two_instructions_for_each_vector(lanes: int) -> None:
    instruction, _ = convolution((1, 4, 64), random_weights((lanes, 1, 64), 20), lanes)
    target = processor(lanes)
    text = compile_assembly(generate_kernel(instruction, target), target)
    names = ["pmaddubsw", "pmaddwd", "pshufb"]
    assert compile_kernel(generate_kernel(instruction, target), target)  # it is assembled
    rows, steps = 4, TURNS + 1  # those in a row, and the one that may be left
    assert [text.count(f"{name}\t") for name in names] == [rows * steps] * 3


@pytest.mark.jit
@pytest.mark.parametrize(
    ("lanes", "features"),
    [
        (4, "+sse2,+ssse3"),
        pytest.param(8, "+sse2,+avx", marks=pytest.mark.slow),
        pytest.param(16, FEATURES[8], marks=pytest.mark.slow),
    ],
)
def test_other_processors_multiply_one_by_one(lanes: int, features: str) -> None:
    """The slow run also has wider vectors."""
    target = replace(Target.host(lanes), cpu="x86-64", features=features)
    assert not pays_to_pair(target)
    check_paired(*convolution((1, 30, 40), random_weights((20, 1, 40), 40), 16), target)


@pytest.mark.parametrize(
    ("lanes", "features", "pays"),
    [
        *((lanes, features, True) for lanes, features in FEATURES.items()),
        (4, "+sse2,+ssse3", False),
        (8, "+sse2,+ssse3", False),
        (8, f"{FEATURES[8]},+avxvnni", False),
        (16, f"{FEATURES[8]},+avx512f", False),
        (16, f"{FEATURES[16]},+avx512vnni", False),
    ],
)
def test_pairs_pay_where_vectors_of_bytes_are_multiplied_without_vnni(
    lanes: int, features: str, pays: bool
) -> None:
    target = replace(Target.host(lanes), cpu="x86-64", features=features)
    assert pays_to_pair(target) == pays


def test_sums_of_nothing_are_refused() -> None:
    instruction, _ = convolution((1, 4, 0), np.zeros((9, 1, 0), np.int8), 16)
    with pytest.raises(UnsupportedError, match="has no channels"):
        generate_kernel(instruction, processor(8))


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
        ({0: TensorType(UINT8, (4, 64))}, "input uint8<4 x 64> is a matrix and has no window"),
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
    with pytest.raises(VerifyError, match="pad_value is 256"):
        instruction_of(PairedConvolutionInst, types, pad_value=256, **fields)


def wrong(change: dict[int, int], *, steps: bool = False) -> Array:
    """Return the order of one run of 32 inputs, 8 steps, with other elements, or other numbers."""
    order = paired(np.ones((9, 1, 32), np.int8), 16).order.copy()
    view = order[2:].view(np.uint16) if steps else order
    for place, number in change.items():
        view[place] = number
    return order


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (wrong({0: 1}), "ascend from 0 to 8"),
        (wrong({1: 9}), "ascend from 0 to 8"),
        (wrong({1: -1}), "ascend from 0 to 8"),
        (wrong({3: 0x0001}, steps=True), "a run has 2 windows"),
    ],
)
def test_an_order_that_would_lead_elsewhere_is_refused(order: Array, message: str) -> None:
    weights: Array = np.ones((9, 32), np.int8)
    instruction, made = convolution((4, 32), weights, 16)

    type = instruction.order.type
    replace(instruction, order=Weight("order", type, made.order))
    with pytest.raises(VerifyError, match=message):
        replace(instruction, order=Weight("order", type, order))


def test_an_order_of_more_steps_than_inputs_is_refused() -> None:
    """A kernel has room for the places of as many steps as there can be."""
    assert fault_of(np.array([0, 16, *[0] * 16], np.int32), 1, 16, windows=2) == ""
    fault = fault_of(np.array([0, 17, *[0] * 17], np.int32), 1, 17, windows=2)
    assert fault == "a run of 2 windows has at most 16 steps"


def test_an_order_of_the_run_is_refused() -> None:
    instruction, _ = convolution((4, 32), random_weights((9, 32), 20), 16)
    with pytest.raises(VerifyError, match="must be a weight"):
        replace(instruction, order=Bound("order", instruction.order.type))


def part_of_a_concat(channels: int, kernel: tuple[int, int], *, stride: int) -> Function:
    """Return a network whose convolution reads the first half of the channels of a buffer."""
    builder = Builder()
    x, z = (builder.input(name, f"uint8<2 x 9 x 9 x {channels}>") for name in "xz")
    most = builder.constant("most", np.full((1, 1, 1, 1), 200, np.uint8))
    halves = [builder.emit(Minimum(value, most)) for value in (x, z)]
    builder.save(builder.emit(Concat(tuple(halves), 3)), "joined")
    weights = builder.constant("w", random_weights((32, *kernel, channels), 30))
    bias = builder.constant("b", np.arange(32, dtype=np.int32))
    window = Window(kernel, (stride, stride), (0,) * 4, (1, 1)).attributes
    builder.save(builder.emit(Convolution(halves[0], weights, bias, **window)), "y")
    return builder.function()


@pytest.mark.jit
@pytest.mark.parametrize(
    ("channels", "kernel", "stride"),
    [
        pytest.param(16, (1, 1), 1, marks=pytest.mark.slow),
        (16, (3, 3), 1),
        pytest.param(8, (2, 2), 1, marks=pytest.mark.slow),
        (16, (1, 2), 2),
        (4, (3, 4), 1),
    ],
)
@pytest.mark.skipif(
    not processor(8).enabled_features <= Target.host().enabled_features,
    reason="this processor has no AVX2",
)
def test_parts_of_pixels_are_read(channels: int, kernel: tuple[int, int], stride: int) -> None:
    """The slow run also has single taps, and eight channels; others have four and sixteen."""
    function = part_of_a_concat(channels, kernel, stride=stride)
    random = np.random.default_rng(0)
    feeds = {name: random.integers(0, 256, (2, 9, 9, channels), np.uint8) for name in "xz"}
    wanted = evaluate(function, feeds)
    backend = CpuBackend(processor(8))
    compiled = compiler.compile_function(function, backend, threads=1)
    assert "paired_convolution" in str(compiled.program)
    found = compiled.executable.run([feeds["x"], feeds["z"]])
    for got, want in zip(found, wanted.values(), strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_program_reads_back_as_it_was_printed_and_means_the_same() -> None:
    function = part_of_a_concat(16, (3, 3), stride=1)
    backend = CpuBackend(processor(8))
    lowered = compiler.lower_for(function, backend)
    text = print_function(lowered)
    assert "paired_convolution" in text
    again = parse_function(text, constants=external_constants(lowered))
    assert print_function(again) == text
    random = np.random.default_rng(0)
    feeds = {name: random.integers(0, 256, (2, 9, 9, 16), np.uint8) for name in "xz"}
    wanted = evaluate(function, feeds)
    for got, want in zip(evaluate(again, feeds).values(), wanted.values(), strict=True):
        np.testing.assert_array_equal(got, want)
    program = compiler.build_program(lowered, backend)
    text = print_program(program)
    read = parse_program(text, constants=external_weights(program))
    assert print_program(read) == text
    found = backend_named("interpreter").compile(read, threads=1).run([feeds["x"], feeds["z"]])
    for got, want in zip(found, wanted.values(), strict=True):
        np.testing.assert_array_equal(got, want)
