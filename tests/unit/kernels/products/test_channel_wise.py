"""Channel-wise convolutions in groups of neighbouring factors are exact, on every processor."""

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.base.errors import UnsupportedError, VerifyError
from glow_nb.base.plan import Plan
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.codegen.compile import compile_assembly
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.channel_wise import (
    ChannelWiseConvolution,
    ChannelWiseConvolutionInst,
    tap_groups,
    whole_vectors,
)
from glow_nb.kernels.operators.tap_groups import TapGroups
from glow_nb.kernels.products.channel_wise_plan import (
    ChannelWisePlan,
    plan_channel_wise,
    suits_steps,
)
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.program import Buffer, View
from glow_nb.llir.stack import StackInst
from tests.dots import best_dot, plan_of_groups
from tests.in_turn import in_turn, marked_rows, one_in
from tests.unit.kernels.cases import check, instruction_of
from tests.unit.kernels.products.test_convolution import conv
from tests.unit.kernels.running import RunningKernel

INT8, UINT8, INT16 = ElementKind.INT8, ElementKind.UINT8, ElementKind.INT16
AVX2 = "+sse2,+ssse3,+sse4.1,+avx,+avx2,+fma"
KINDS = {4: (UINT8, INT8), 2: (INT8, INT8)}
"""Kinds of input and filter for groups of so many factors."""

SHAPES = {
    "3x3": conv(2, 20, 20, (9, 13), (3, 3), pads=1, group=20),
    "3x3 stride 2": conv(1, 16, 16, (9, 27), (3, 3), stride=2, pads=1, group=16),
    "two channels": conv(1, 2, 2, (6, 5), (3, 3), pads=1, group=2),
    "5x5": conv(1, 70, 70, (7, 8), (5, 5), pads=2, group=70),
    "5x5 dilated": conv(1, 9, 9, (12, 13), (5, 5), pads=4, dilation=2, group=9),
    "3x3 far taps": conv(1, 33, 33, (9, 16), (3, 3), pads=5, dilation=5, group=33),
    "unpadded": conv(1, 24, 24, (5, 40), (3, 2), group=24),
    "one sided": conv(1, 8, 8, (5, 9), (3, 3), pads=(0, 2, 2, 0), group=8),
    "rank 1": conv(2, 10, 10, (50,), (9,), pads=4, group=10),
    "1x1 stride 4": conv(2, 7, 7, (9, 14), (1, 1), stride=4, group=7),
    "twofold": conv(2, 6, 12, (5, 9), (3, 3), pads=1, group=6),
    "fourfold": conv(1, 5, 20, (5, 12), (3, 3), stride=2, pads=1, group=5),
    "beyond the input": conv(1, 4, 4, (2, 2), (3, 3), pads=4, group=4),
    "stride beyond the window": conv(1, 4, 4, (9, 9), (1, 1), stride=2, group=4),
    "no images": conv(0, 4, 4, (5, 9), (3, 3), group=4),
    "pairs": conv(2, 20, 20, (9, 13), (3, 3), pads=1, group=10),
    "fours": conv(1, 36, 36, (7, 14), (3, 3), pads=1, group=9),
    "fours stride 3": conv(1, 12, 12, (9, 27), (3, 3), stride=3, pads=1, group=3),
    "eights": conv(1, 40, 40, (5, 9), (3, 2), pads=(0, 2, 1, 0), group=5),
    "pairs dilated": conv(1, 6, 6, (12, 13), (5, 3), pads=4, dilation=2, group=3),
}


def groups_of(shape: ConvolutionShape, factors: int) -> TapGroups | None:
    size = shape.channels_per_group
    return tap_groups(shape.kernel, shape.stride, shape.dilation, size, factors)


def packed(plain: Array, groups: TapGroups) -> Array:
    """Return a filter ``[outer, weights, channels]`` in groups, zeros for what does not count."""
    outer, _, channels = plain.shape
    width = whole_vectors(channels)
    found = np.zeros((outer, len(groups.rows), width, groups.factors), plain.dtype)
    for number, row in enumerate(groups.rows):
        for place, weight in enumerate(row):
            if weight is not None:
                found[:, number, :channels, place] = plain[:, weight]
    return found.reshape(outer, len(groups.rows), width * groups.factors)


def convolution_of(
    shape: ConvolutionShape, kinds: tuple[ElementKind, ElementKind], factors: int, outside: int
) -> ChannelWiseConvolutionInst:
    left, right = kinds
    groups = groups_of(shape, factors)
    assert groups is not None
    width = whole_vectors(shape.depth) * factors
    made = instruction_of(
        ChannelWiseConvolutionInst,
        [
            TensorType(left, (shape.batch, *shape.input, shape.channels)),
            TensorType(right, (*shape.kernel[:-1], len(groups.rows), width)),
            TensorType(ElementKind.INT32, (shape.depth,)),
        ],
        kernel=shape.kernel,
        stride=shape.stride,
        pads=shape.pads,
        dilation=shape.dilation,
        size=shape.channels_per_group,
        pad_value=outside,
        plan=plan_of_groups(factors, "channel_wise"),
    )
    assert isinstance(made, ChannelWiseConvolutionInst)
    return made


def whole_range(random: np.random.Generator, kind: ElementKind, *shape: int) -> Array:
    limits = np.iinfo(kind.dtype)
    return random.integers(limits.min, limits.max, shape, kind.dtype, endpoint=True)


def check_shape(
    shape: ConvolutionShape,
    target: Target,
    kinds: tuple[ElementKind, ElementKind],
    factors: int,
    *,
    outside: int = 0,
) -> None:
    random, (left, right) = np.random.default_rng(0), kinds
    groups = groups_of(shape, factors)
    assert groups is not None
    outer, weights = prod(shape.kernel[:-1]), shape.kernel[-1] * shape.channels_per_group
    byte = right if right.size_bytes == 1 else INT8
    plain = whole_range(random, byte, outer, weights, shape.depth).astype(right.dtype)
    instruction = convolution_of(shape, kinds, factors, outside)
    operands: list[Array] = [
        whole_range(random, left, shape.batch, *shape.input, shape.channels),
        packed(plain, groups).reshape(instruction.filter.type.shape),
        random.integers(-(1 << 20), 1 << 20, shape.depth, np.int32),
    ]
    check(instruction, target, operands=operands)


SHOWN = frozenset({"5x5 dilated", "fourfold", "eights", "no images"})
"""Shapes for the slow run: others are dilated, strided, wide, in groups, of few outputs, at the
border or fold alike."""

CASES = [
    pytest.param(
        *(name, factors, lanes),
        id=f"{name}, {factors} factors, {lanes} lanes",
        marks=pytest.mark.slow if name not in SHOWN or factors != 2 + number % 2 * 2 else (),
    )
    for number, (name, shape) in enumerate(SHAPES.items())
    for factors in (2, 4)
    for lanes in [LANE_COUNTS[number % 3]]
    if suits_steps(shape, KINDS[factors][0], factors, Target.host(lanes))
]


@pytest.mark.jit
@pytest.mark.parametrize(("name", "factors", "lanes"), CASES)
def test_shapes_keep_their_definition(name: str, factors: int, lanes: int) -> None:
    target = Target.host(lanes)
    check_shape(SHAPES[name], target, KINDS[factors], factors, outside=7)


def test_most_shapes_are_taken_in_groups() -> None:
    assert len(CASES) >= 2 * len(SHAPES) - 6


@pytest.mark.jit
@settings(max_examples=max(1, settings().max_examples // 15))
@given(st.data())
def test_any_window_keeps_its_definition(data: st.DataObject) -> None:
    draw = data.draw
    size = draw(st.sampled_from([1, 1, 1, 2, 4, 8]))
    group = draw(st.integers(1, 40 // size))
    channels = group * size
    depth = channels * (draw(st.sampled_from([1, 1, 2, 4])) if size == 1 else 1)
    shape = conv(
        draw(st.integers(1, 2)),
        channels,
        depth,
        (draw(st.integers(1, 9)), draw(st.integers(1, 21))),
        (draw(st.integers(1, 4)), draw(st.integers(1, 5))),
        stride=draw(st.sampled_from([1, 1, 2, 4])),
        pads=draw(st.integers(0, 3)),
        dilation=draw(st.integers(1, 3)),
        group=group,
    )
    factors, lanes = draw(st.sampled_from([2, 4])), draw(st.sampled_from(LANE_COUNTS))
    right = draw(st.sampled_from([INT8, UINT8] if factors == 4 else [INT8, UINT8, INT16]))
    left = draw(st.sampled_from([INT8, UINT8] if factors == 4 else [INT8, UINT8, INT16]))
    target = Target.host(lanes)
    if min(shape.output) < 1 or not suits_steps(shape, left, factors, target):
        return
    low, high = (int(n) for n in left.limits)
    outside = draw(st.integers(low, high))
    check_shape(shape, target, (left, right), factors, outside=outside)


@pytest.mark.jit
@pytest.mark.parametrize("lanes", one_in(2, [8, 16]))
@pytest.mark.parametrize("tap", range(3))
def test_all_pairs_of_bytes_are_multiplied_exactly(lanes: int, tap: int) -> None:
    shape = conv(1, 256, 256, (1, 256), (1, 3), pads=(0, 1, 0, 1), group=256)
    for factors, kinds in ((4, (UINT8, INT8)), (2, (UINT8, INT8)), (2, (INT8, INT8))):
        groups = groups_of(shape, factors)
        assert groups is not None
        low, _ = kinds[0].limits
        pixels = np.arange(low, low + 256).astype(kinds[0].dtype)
        x = np.broadcast_to(pixels[None, None, :, None], (1, 1, 256, 256)).copy()
        plain = np.zeros((1, 3, 256), np.int8)
        plain[:, tap] = np.arange(-128, 128)
        operands = [x, packed(plain, groups), np.zeros(256, np.int32)]
        check(convolution_of(shape, kinds, factors, 5), Target.host(lanes), operands=operands)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("features", "lanes", "wanted"),
    [
        (AVX2, 8, "vpmaddwd"),
        pytest.param(f"{AVX2},+avxvnni", 8, "vpdpbusd", marks=pytest.mark.slow),
        pytest.param(
            f"{AVX2},+avx512f,+avx512bw,+avx512vl", 16, "vpmaddwd", marks=pytest.mark.slow
        ),
        (f"{AVX2},+avx512f,+avx512bw,+avx512vl,+avx512vnni", 16, "vpdpbusd"),
    ],
)
def test_the_instruction_is_that_of_the_processor(features: str, lanes: int, wanted: str) -> None:
    target = replace(Target.host(lanes), cpu="x86-64", features=features)
    factors = 4 if wanted == "vpdpbusd" else 2
    made = convolution_of(SHAPES["3x3"], (UINT8, INT8), factors, 0)
    dot = best_dot(UINT8, INT8, target, factors).name
    instruction = replace(made, plan=Plan.of("channel_wise", dot=dot))
    assembly = compile_assembly(generate_kernel(instruction, target), target)
    assert wanted in assembly
    assert "vpmulld" not in assembly


@pytest.mark.jit
@pytest.mark.parametrize("lanes", one_in(2, [8, 16]))
def test_many_channels_are_taken_in_chunks_that_fit_the_cache(lanes: int) -> None:
    """The slow run also has wide vectors."""
    shape = conv(1, 200, 200, (6, 40), (3, 3), pads=1, group=200)
    target = replace(Target.host(lanes), l1_bytes=32 * 1024)
    node = convolution_of(shape, (UINT8, INT8), 4, 0)
    plan = ChannelWisePlan.of(node, plan_channel_wise(node, target), target)
    assert 64 <= plan.chunk < 200
    check_shape(shape, target, (UINT8, INT8), 4)


@pytest.mark.parametrize("factors", [2, 4])
@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize(
    ("taps", "stride", "dilation"), [(3, 1, 1), (5, 2, 1), (3, 1, 3), (7, 4, 2)]
)
def test_each_weight_has_its_place_for_each_phase(
    taps: int, stride: int, dilation: int, size: int, factors: int
) -> None:
    groups = TapGroups.of(taps, stride=stride, dilation=dilation, size=size, factors=factors)
    if groups is None:
        assert size % factors if size > 1 else stride > factors
        return
    for phase in range(groups.phases):
        entries = [e for e in groups.entries if e.phase == phase]
        places = [(e.row, place - e.shift) for e in entries for place in range(factors)]
        found = [groups.rows[row][place] for row, place in places if 0 <= place < factors]
        assert sorted(n for n in found if n is not None) == list(range(taps * size))


def test_weights_that_lie_further_up_or_down_in_another_output_are_stored_once() -> None:
    groups = TapGroups.of(3, stride=1, dilation=1, size=1, factors=4)
    assert groups is not None
    assert groups.rows == ((0, 1, 2, None),)
    assert [(e.phase, e.row, e.shift) for e in groups.entries] == [(0, 0, 0), (1, 0, 1)]
    longer = TapGroups.of(5, stride=1, dilation=1, size=1, factors=4)
    assert longer is not None
    assert longer.rows == ((0, 1, 2, 3), (3, 4, None, None))
    pairs = TapGroups.of(3, stride=1, dilation=1, size=1, factors=2)
    assert pairs is not None
    assert pairs.rows == ((0, 1), (1, 2))
    found = [(e.step, e.phase, e.row, e.shift) for e in pairs.entries]
    assert found == [(0, 0, 0, 0), (0, 1, 0, 1), (1, 0, 1, -1), (1, 1, 1, 0)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"plan": None}, "dot = 'tile_dot', but must name an instruction that multiplies groups"),
        ({"size": 0}, "size is 0, but must be positive"),
        ({"size": 3}, "groups of 3 do not go with the channels"),
        ({"stride": (1, 3)}, "have no groups of 4 factors"),
        ({"pad_value": 256}, "pad_value is 256, but for input"),
        ({"kernel": (3, 5)}, "'filter' is int8"),
    ],
)
def test_bad_operators_are_refused(change: dict[str, Any], message: str) -> None:
    b = Builder()
    fields: dict[str, Any] = {
        "kernel": (3, 3),
        "stride": (1, 1),
        "pads": (1, 1, 1, 1),
        "dilation": (1, 1),
        "size": 1,
        "pad_value": 0,
        "plan": plan_of_groups(4, "channel_wise"),
    }
    operands = (b.input("x", "uint8<1 x 9 x 9 x 8>"), b.input("w", "int8<3 x 1 x 64>"))
    bias = b.input("b", "int32<8>")
    b.emit(ChannelWiseConvolution(*operands, bias, **fields))
    with pytest.raises(VerifyError, match=message):
        b.emit(ChannelWiseConvolution(*operands, bias, **(fields | change)))


@pytest.mark.jit
@pytest.mark.parametrize(("kind", "size"), in_turn([INT8, UINT8], [1, 4], only=[UINT8]))
def test_networks_round_the_sums_in_the_kernel_and_pad_with_any_number(
    kind: ElementKind, size: int
) -> None:
    b, random = Builder(), np.random.default_rng(3)
    x = b.input("x", f"{kind.value}<1 x 7 x 9 x 24>")
    y = b.input("y", "uint8<1 x 7 x 9 x 24>")
    filter = b.constant("w", whole_range(random, INT8, 24, 3, 3, size))
    bias = b.constant("b", random.integers(-999, 999, 24, np.int32))
    around = b.emit(ops.Pad(x, (0, 1, 1, 0, 0, 1, 1, 0), value=9.0))
    window: dict[str, Any] = {"kernel": (3, 3), "stride": (1, 1), "dilation": (1, 1)}
    sums = b.emit(ops.Convolution(around, filter, bias, pads=(0,) * 4, group=24 // size, **window))
    multiplier = b.constant("m", np.full((1, 1, 1, 24), 0.002, np.float32))
    offset = b.constant("o", np.full((1, 1, 1, 1), 3, np.uint8))
    bytes = b.emit(ops.Requantize(sums, multiplier, offset, kind=UINT8))
    b.save(b.emit(ops.Maximum(bytes, y)), "z")
    function = b.function()
    feeds = {p.name: whole_range(random, p.type.kind, *p.type.shape) for p in function.inputs}
    (wanted,) = evaluate(function, feeds).values()
    net = glow_nb.compile(function, threads=2)
    np.testing.assert_array_equal(net.run(feeds)["z"], wanted)
    heads = [i.head for i in net.program.work if isinstance(i, StackInst) and i.head]
    assert [head.opcode for head in heads] == ["channel_wise_convolution"]
    assert not any("pad" in instruction.opcode for instruction in net.program.work)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("size", "factors", "lanes"),
    marked_rows([(1, 4, 16), (1, 2, 8), (4, 4, 8)], only=[(1, 2, 8)]),
)
def test_each_operand_has_its_own_distance_of_pixels(size: int, factors: int, lanes: int) -> None:
    """The slow run also has four taps of one channel; others have two such, or four channels."""
    shape = conv(2, 20, 20, (6, 7), (3, 3), pads=1, group=20 // size)
    plain = convolution_of(shape, KINDS[factors], factors, 3)
    random, groups = np.random.default_rng(0), groups_of(shape, factors)
    assert groups is not None
    whole = [
        Buffer(f"{b.name}_whole", b.type.with_shape((2, 6, 7, 33)))
        for b in (plain.dest, plain.input)
    ]
    dest, input = (
        View(b.name, b.type, base, 5, base.strides)
        for b, base in zip((plain.dest, plain.input), whole, strict=True)
    )
    instruction = replace(plain, dest=dest, input=input)
    weights = whole_range(random, INT8, 3, 3 * size, 20).astype(plain.filter.type.kind.dtype)
    filter = packed(weights, groups).reshape(plain.filter.type.shape)
    bias = random.integers(-99, 99, 20, np.int32)
    wide = whole_range(random, plain.input.type.kind, 2, 6, 7, 33)
    found = np.full((2, 6, 7, 33), 77, np.int32)
    kernel = RunningKernel(generate_kernel(instruction, Target.host(lanes)), Target.host(lanes))
    kernel(found.reshape(-1)[5:], wide.reshape(-1)[5:], filter, bias, threads=2)
    narrow = np.ascontiguousarray(wide[..., 5:25])
    wanted = np.full_like(found, 77)
    wanted[..., 5:25] = plain.as_node().evaluate(narrow, filter, bias)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "shape",
    [
        conv(1, 4, 12, (5, 9), (3, 3), pads=1, group=4),
        conv(1, 4, 4, (3, 5, 9), (3, 3, 3), pads=1, group=4),
        conv(1, 64, 64, (5, 9), (3, 3), pads=1, group=1),
    ],
)
def test_other_shapes_have_no_kernel(shape: ConvolutionShape) -> None:
    instruction = convolution_of(shape, (UINT8, INT8), 4, 0)
    with pytest.raises(UnsupportedError, match="no kernel in groups of 4 factors; take a"):
        generate_kernel(instruction, Target.host(8))
