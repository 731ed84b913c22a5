"""Products of groups of neighbouring integers are exact, in every form and on every processor."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_nb.base.dot_instruction import SINGLE, dot_named_by
from glow_nb.base.errors import VerifyError
from glow_nb.base.plan import Plan
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.codegen.compile import compile_assembly
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.packed_instructions import PackedConvolutionInst, PackedMatMulInst
from glow_nb.kernels.operators.panels import joins_taps, panels_of, runs_of
from glow_nb.kernels.products import product_plan
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.program import Instruction, read
from tests.dots import best_dot, plan_of_groups
from tests.in_turn import each_with_one_width, marked_rows, one_in
from tests.unit.kernels.cases import check, instruction_of, random_array
from tests.unit.kernels.products.test_product_loops import order_of, small_caches
from tests.unit.kernels.running import at_a_forbidden_page

INT8, UINT8, INT16 = ElementKind.INT8, ElementKind.UINT8, ElementKind.INT16
INT32 = ElementKind.INT32
GROUPS = [
    *((left, right, 4) for left, right in product((UINT8, INT8), repeat=2)),
    *((left, right, 2) for left, right in product((UINT8, INT8, INT16), repeat=2)),
    (ElementKind.UINT16, ElementKind.UINT16, 2),
]
"""Kinds of the two operands, and the factors of a group."""

BLOCKS = st.sampled_from([16, 32, 48, 5, 18, 35])
"""Columns of a panel: whole vectors, or dense panels that end within one."""

AVX2 = "+sse2,+avx,+avx2,+fma"
AVX512 = f"{AVX2},+avx512f,+avx512bw,+avx512vl"


def matrices(
    left: ElementKind, right: ElementKind, factors: int, sizes: tuple[int, int, int], block: int
) -> PackedMatMulInst:
    """Return a product of ``sizes``, which are rows, inner and depth."""
    rows, inner, depth = sizes
    panels, groups = panels_of(depth, block), panels_of(inner, factors)
    types = [
        TensorType(left, (rows, inner)),
        TensorType(right, (panels, groups, block * factors)),
        TensorType(INT32, (panels * block,)),
    ]
    made = instruction_of(
        PackedMatMulInst, types, depth=depth, block=block, plan=plan_of_groups(factors)
    )
    assert isinstance(made, PackedMatMulInst)
    return made


def images(
    kinds: tuple[ElementKind, ElementKind, int],
    input: tuple[int, ...],
    depth: int,
    kernel: tuple[int, ...],
    *,
    block: int,
    group: int = 1,
    pad: int = 0,
    **attributes: Any,
) -> Instruction:
    """Return a convolution of an *input* ``[N, *spatial, C]``."""
    left, right, factors = kinds
    rank, panels = len(kernel), panels_of(depth // group, block)
    attributes = {"stride": (1,) * rank, "dilation": (1,) * rank, **attributes}
    joined = joins_taps(factors, group, attributes["dilation"])
    runs, run = runs_of(kernel, input[-1] // group, joined=joined)
    types = [
        TensorType(left, input),
        TensorType(right, (group, panels, *runs, panels_of(run, factors), block * factors)),
        TensorType(INT32, (group * panels * block,)),
    ]
    return instruction_of(
        PackedConvolutionInst,
        types,
        depth=depth,
        kernel=kernel,
        pads=(pad,) * (2 * rank),
        group=group,
        block=block,
        plan=plan_of_groups(factors),
        **attributes,
    )


def with_best_dot(instruction: Instruction, target: Target) -> Instruction:
    """Return *instruction* with what multiplies such groups on *target* best."""
    left, right, *_ = (buffer.type.kind for buffer in read(instruction))
    group = dot_named_by(instruction.plan).group
    return replace(
        instruction, plan=Plan.of("direct", dot=best_dot(left, right, target, group).name)
    )


def check_groups(instruction: Instruction, run: int, target: Target, seed: int = 0) -> None:
    """Compare with the operator; weights after the *run* of a group of factors are zeros."""
    random = np.random.default_rng(seed)
    left, right, bias = (random_array(random, buffer.type) for buffer in read(instruction))
    factors = dot_named_by(instruction.plan).group
    groups: Array = right.reshape(*right.shape[:-1], -1, factors)
    tail = (run - 1) % factors + 1
    groups[..., -1, :, tail:] = 0
    operands: list[Array] = [left, groups.reshape(right.shape), bias]
    check(with_best_dot(instruction, target), target, operands=operands)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kinds", "lanes"), each_with_one_width(GROUPS, only=[GROUPS[1], GROUPS[8]])
)
def test_groups_of_any_kinds_are_multiplied(
    kinds: tuple[ElementKind, ElementKind, int], lanes: int
) -> None:
    """The default run has groups of both sizes, signed and unsigned."""
    left, right, factors = kinds
    check_groups(matrices(left, right, factors, (5, 22, 35), 32), 22, Target.host(lanes))


@pytest.mark.jit
@pytest.mark.parametrize("lanes", [8, 16])
def test_all_pairs_of_bytes_are_multiplied_exactly(lanes: int) -> None:
    kinds = (UINT8, INT8, 4)
    instruction = matrices(*kinds, (256, 1, 256), 32)
    left = np.arange(256, dtype=np.uint8).reshape(256, 1)
    weights = np.zeros((8, 1, 32, 4), np.int8)
    weights[..., 0] = np.arange(-128, 128).reshape(8, 1, 32)
    operands: list[Array] = [left, weights.reshape(8, 1, 128), np.zeros(256, np.int32)]
    check(instruction, Target.host(lanes), operands=operands)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kinds", "numbers"),
    [
        ((UINT8, INT8, 4), (255, -128)),
        ((UINT8, INT8, 4), (255, 127)),
        ((UINT8, UINT8, 2), (255, 255)),
        ((INT16, INT16, 2), (-(2**15), -(2**15))),
    ],
)
def test_the_longest_sums_of_extremes_are_exact(
    kinds: tuple[ElementKind, ElementKind, int], numbers: tuple[int, int]
) -> None:
    left, right, factors = kinds
    inner = min(2**31 // abs(numbers[0] * numbers[1]), 66_000) // 4 * 4
    instruction = matrices(left, right, factors, (3, inner, 9), 16)
    types = [instruction.lhs.type, instruction.rhs.type]
    operands: list[Array] = [
        np.full(type.shape, number).astype(type.kind.dtype)
        for type, number in zip(types, numbers, strict=True)
    ]
    check(instruction, Target.host(8), operands=[*operands, np.zeros(16, np.int32)])


@pytest.mark.jit
@settings(max_examples=settings().max_examples // 5)
@given(st.data())
def test_convolutions_of_groups_mean_the_same(data: st.DataObject) -> None:
    draw = data.draw
    kinds = draw(st.sampled_from(GROUPS))
    group = draw(st.sampled_from([1, 1, 2]))
    channels, depth = group * draw(st.integers(1, 9)), group * draw(st.integers(1, 20))
    kernel = draw(st.sampled_from([(1,), (3,), (1, 1), (3, 3), (2, 3), (3, 1), (2, 1, 3)]))
    rank, lanes = len(kernel), draw(st.sampled_from(LANE_COUNTS))
    stride, dilation = (draw(st.sampled_from([(1,) * rank, (2,) * rank])) for _ in range(2))
    input = (draw(st.integers(1, 2)), *(draw(st.integers(6, 9)) for _ in kernel), channels)
    instruction = images(
        kinds,
        input,
        depth,
        kernel,
        group=group,
        block=draw(BLOCKS),
        pad=draw(st.integers(0, 2)),
        stride=stride,
        dilation=dilation,
        pad_value=draw(st.sampled_from([0, 0, 7, 100])),
    )
    caches = draw(st.sampled_from([(256, 4096), (1, 1), (32768, 524288)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(product_plan, "traffic_cycles", order_of(draw(st.booleans())))
        joined = joins_taps(kinds[2], group, dilation)
        _, run = runs_of(kernel, channels // group, joined=joined)
        check_groups(instruction, run, small_caches(lanes, *caches), draw(st.integers(0, 9)))


@pytest.mark.jit
@settings(max_examples=settings().max_examples // 10)
@given(st.data())
def test_matrix_products_of_groups_mean_the_same(data: st.DataObject) -> None:
    draw = data.draw
    rows, inner, depth = (draw(st.integers(1, 70)) for _ in range(3))
    rows = draw(st.sampled_from([1, 2, rows]))  # few rows read large panels in streams
    instruction = matrices(*draw(st.sampled_from(GROUPS)), (rows, inner, depth), draw(BLOCKS))
    caches = draw(st.sampled_from([(256, 4096), (1, 1), (32768, 524288)]))
    lanes = st.sampled_from(LANE_COUNTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(product_plan, "traffic_cycles", order_of(draw(st.booleans())))
        target = small_caches(draw(lanes), *caches).with_machine(min_stream_bytes=16)
        check_groups(instruction, inner, target)


FORMS = [
    ("+sse2", 4, 2, "pmaddwd"),
    (AVX2, 8, 2, "vpmaddwd"),
    (AVX512, 16, 2, "vpmaddwd"),
    (f"{AVX2},+avxvnni", 8, 4, "vpdpbusd"),
    (f"{AVX512},+avx512vnni", 4, 4, "vpdpbusd"),
    (f"{AVX512},+avx512vnni", 8, 4, "vpdpbusd"),
    (f"{AVX512},+avx512vnni", 16, 4, "vpdpbusd"),
]
"""Features of a processor, lanes, the factors of a group of bytes, and what multiplies it."""


@pytest.mark.jit
@pytest.mark.parametrize(
    ("features", "lanes", "factors", "instruction"), marked_rows(FORMS, slow=[FORMS[4], FORMS[5]])
)
def test_a_step_is_one_instruction(
    features: str, lanes: int, factors: int, instruction: str
) -> None:
    target = replace(Target.host(lanes), cpu="x86-64", features=features)
    assert best_dot(UINT8, INT8, target).group == factors
    made = with_best_dot(matrices(UINT8, INT8, factors, (6, 64, 16), 16), target)
    text = compile_assembly(generate_kernel(made, target), target)
    assert instruction in text
    assert "vpmaddubsw" not in text  # it saturates
    assert "vpdpbusds" not in text


@pytest.mark.jit
@pytest.mark.parametrize("depth", one_in(4, [35, 18, 34, 38]))
def test_nothing_behind_dense_panels_is_read(depth: int) -> None:
    target = replace(Target.host(8), cpu="x86-64", features=AVX2)
    instruction = with_best_dot(matrices(UINT8, INT8, 2, (7, 20, depth), 18), target)
    source = generate_kernel(instruction, target)
    text = compile_assembly(source, target)
    assert "vpinsrb" not in text  # vectors are loaded whole, not byte by byte
    rng = np.random.default_rng(3)
    arrays = [random_array(rng, buffer.type) for buffer in read(instruction)]
    weights = at_a_forbidden_page(arrays[1].nbytes).view(np.int8).reshape(arrays[1].shape)
    weights[...] = arrays[1]
    check(instruction, target, operands=[arrays[0], weights, arrays[2]])


def test_a_processor_without_the_instructions_multiplies_one_by_one() -> None:
    target = replace(Target.host(8), cpu="x86-64", features="+sse2")  # vectors of two registers
    assert best_dot(UINT8, INT8, target) is SINGLE


@pytest.mark.parametrize("kind", [ElementKind.FLOAT32, ElementKind.BFLOAT16])
def test_groups_of_floats_are_refused(kind: ElementKind) -> None:
    """Zeros that fill up a group would meet inputs of other groups, which may be infinite."""
    types = [TensorType(kind, shape) for shape in ((3, 8), (1, 4, 32))]
    with pytest.raises(VerifyError, match="'tile_dot_pairs', which multiplies no panels of"):
        instruction_of(PackedMatMulInst, types, depth=9, block=16, plan=plan_of_groups(2))
    types = [TensorType(kind, shape) for shape in ((1, 4, 3, 4), (4, 1, 2, 2, 1, 32), (64,))]
    fields: dict[str, Any] = {
        "depth": 16, "kernel": (2, 2), "stride": (1, 3), "pads": (3, 0, 1, 0), "dilation": (4, 2),
        "group": 4, "block": 16,
    }  # fmt: skip
    with pytest.raises(VerifyError, match="'tile_dot_pairs', which multiplies no panels of"):
        instruction_of(PackedConvolutionInst, types, plan=plan_of_groups(2), **fields)


@pytest.mark.parametrize(
    ("outside", "factors", "problem"),
    [
        (256, 4, "pad_value is 256, but for input uint8<1 x 5 x 8> it must be from 0 to 255"),
        (-1, 4, "pad_value is -1"),
    ],
)
def test_what_does_not_fit_is_refused(outside: int, factors: int, problem: str) -> None:
    with pytest.raises(VerifyError, match=problem):
        images((UINT8, INT8, factors), (1, 5, 8), 9, (3,), block=16, pad_value=outside)
