"""Winograd kernels against the meaning of their operator, over many shapes, widths and shares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glow_nb.base.distance import distance
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.codegen.compile import compile_assembly
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.kernels import operators
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.panels import pack_bias, pack_filter
from glow_nb.kernels.operators.winograd_instructions import WinogradConvolutionInst
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.stacks.generate_stack import generate_stack
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.kernels.winograd.convolution import generate_winograd
from glow_nb.kernels.winograd.exactness import exact_tiles
from glow_nb.kernels.winograd.nest import WinogradNest, plan_winograd, suits_winograd
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Buffer, Register, View, kernel_operands
from glow_nb.llir.stack import StackInst
from glow_nb.llir.strides import contiguous_strides
from glow_nb.numerics.cook_toom import WholeDivision, scale_of
from tests.in_turn import in_turn, marked, one_in
from tests.unit.kernels.products.test_convolution import conv
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact
from tests.unit.kernels.winograd.nests import NESTS, WHOLE_NESTS

ReluInst = instruction_for(ops.Relu)
AddInst = instruction_for(ops.Add)
MaximumInst = instruction_for(ops.Maximum)
RequantizeInst = instruction_for(ops.Requantize)

FLOAT32 = ElementKind.FLOAT32


def operands(nest: WinogradNest) -> tuple[list[Array], Array]:
    """Return input, filter as kernels take it, and bias, and the result that they give."""
    shape, random = nest.shape, np.random.default_rng(0)
    b, is_float, kind = Builder(), nest.kind.is_float, nest.kind
    sizes = (shape.batch, *shape.input, shape.channels)
    w = random.normal(size=(shape.depth, *shape.kernel, shape.channels_per_group))
    bias = random.normal(size=shape.depth)
    if is_float:
        x = random.normal(size=sizes).astype(np.float32)
        w, bias = w.astype(np.float32), bias.astype(np.float32)
    else:
        x = random.integers(*kind.limits, sizes, kind.dtype, endpoint=True)
        w = random.integers(*nest.taps_kind.limits, w.shape, nest.taps_kind.dtype, endpoint=True)
        bias = random.integers(-(2**31), 2**31, shape.depth).astype(np.int32)
    source = b.input("x", TensorType.of(x))
    factors, constant = (1 if is_float else 2), b.constant("w", w)
    filter = pack_filter(b, constant, shape.group, nest.block, factors, taps_inside=not is_float)
    if is_float:
        filter = b.emit(operators.WinogradFilter(filter, nest.tile, shape.stride))
    offsets = pack_bias(b, b.constant("b", bias), shape.group, nest.block)
    made = operators.WinogradConvolution(
        source,
        filter,
        offsets,
        depth=shape.depth,
        kernel=shape.kernel,
        tile=nest.tile,
        stride=shape.stride,
        pads=shape.pads,
        dilation=shape.dilation,
        group=shape.group,
        block=nest.block,
        pad_value=nest.outside,
    )
    for name, value in (("filter", filter), ("bias", offsets), ("y", b.emit(made))):
        b.save(value, name)
    results = evaluate(b.function(), {"x": x})
    return [x, results["filter"], results["bias"]], results["y"]


def convolution_of(nest: WinogradNest, dest: Buffer | None = None) -> WinogradConvolutionInst:
    """Return the instruction of *nest*, which writes *dest*."""
    shape, panels, kinds = (
        nest.shape,
        nest.panels // nest.shape.group,
        nest.kinds_with(nest.dot(Target.host())),
    )
    factors, groups = kinds.factors, -(-shape.channels_per_group // kinds.factors)

    def buffer(name: str, kind: ElementKind, *sizes: int) -> Buffer:
        return Buffer(name, TensorType(kind, sizes))

    inner = (groups, *shape.kernel) if nest.takes_taps else (*nest.sizes, groups)
    filter = (shape.group, panels, *inner, nest.block * factors)
    return WinogradConvolutionInst(
        dest or buffer("dest", kinds.total, shape.batch, *shape.output, shape.depth),
        buffer("input", nest.kind, shape.batch, *shape.input, shape.channels),
        buffer("filter", nest.taps_kind if nest.takes_taps else nest.kind, *filter),
        buffer("bias", kinds.total, nest.panels * nest.block),
        depth=shape.depth,
        kernel=shape.kernel,
        tile=nest.tile,
        stride=shape.stride,
        pads=shape.pads,
        dilation=shape.dilation,
        group=shape.group,
        block=nest.block,
        guarded=nest.guarded,
        pad_value=nest.outside,
    )


def check(nest: WinogradNest, target: Target, threads: int = 1, block_tiles: int = 0) -> None:
    arrays, expected = operands(nest)
    plan = plan_winograd(nest, target, block_tiles)
    source = generate_winograd(nest, plan, Fusion.of(convolution_of(nest)))
    kernel = RunningKernel(source, target)
    dest, whole = guarded(expected.shape, plan.kinds.total)
    kernel(dest, *arrays, threads=threads)
    if nest.kind.is_float:
        assert distance(expected, dest, least=1.0) <= (1e-5 if 6 in nest.tile else 5e-6)
    else:
        np.testing.assert_array_equal(dest, expected)
    assert guards_are_intact(whole)


SHOWN = ["5x5", "dilated unevenly", "images share tiles", "stride, odd tiles"]
"""Nests for the default run: of each kind of windows one; random nests and bytes have others."""


@pytest.mark.jit
@pytest.mark.parametrize(("name", "is_guarded"), in_turn(NESTS, [False, True], only=SHOWN))
def test_winograd_keeps_its_meaning(name: str, is_guarded: bool) -> None:
    """The default run has each of its nests once, every other one guarded."""
    lanes = LANE_COUNTS[len(name) % len(LANE_COUNTS)]
    shape, tile = NESTS[name]
    block = lanes * (1 + len(name) % 3)
    nest = WinogradNest(shape, tile, FLOAT32, block, guarded=is_guarded)
    check(nest, Target.host(lanes), threads=1 + len(name) % 4)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "kind"),
    in_turn(WHOLE_NESTS, [ElementKind.UINT8, ElementKind.INT8], only=["mixed", "huge pads"]),
)
def test_bytes_are_convolved_exactly(name: str, kind: ElementKind) -> None:
    lanes = LANE_COUNTS[len(name) % len(LANE_COUNTS)]
    block, outside = lanes * (1 + len(name) % 3), len(name) % 4 * 31
    nest = WinogradNest(*WHOLE_NESTS[name], kind, block, outside=outside)
    check(nest, Target.host(lanes), threads=1 + len(name) % 4)


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(2, [ElementKind.UINT8, ElementKind.INT16], first=1))
def test_filters_of_other_integers_are_transformed_too(kind: ElementKind) -> None:
    """The slow run also has bytes without a sign."""
    nest = WinogradNest(*WHOLE_NESTS["odd channels"], ElementKind.UINT8, 16, taps_kind=kind)
    check(nest, Target.host(8), threads=2)


AVX2 = "+sse2,+avx,+avx2,+fma"


def runs_here(target: Target) -> bool:
    """Return whether this processor has all instructions of *target*."""
    return target.enabled_features <= Target.host().enabled_features


@pytest.mark.jit
@pytest.mark.parametrize(
    ("features", "lanes", "instruction"),
    [
        pytest.param("+sse2", 4, "pmaddwd", marks=pytest.mark.slow),
        (AVX2, 8, "vpmaddwd"),
        (f"{AVX2},+avxvnni", 8, "vpdpwssd"),
    ],
)
def test_pairs_of_transformed_bytes_are_multiplied_by_one_instruction(
    features: str, lanes: int, instruction: str
) -> None:
    """The slow run also has a processor of short vectors, which has the same instruction."""
    target = replace(Target.host(lanes), cpu="x86-64", features=features)
    nest = WinogradNest(*WHOLE_NESTS["4x4"], ElementKind.UINT8, 16)
    assert instruction in compile_assembly(generate_kernel(convolution_of(nest), target), target)
    if runs_here(target):
        check(nest, target)


@pytest.mark.jit
@pytest.mark.parametrize("tile", marked([(2, 2), (4, 4)], slow=[(2, 2)]))
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("features", "lanes"), [(AVX2, 8), ("", 16)])
def test_the_largest_results_that_fit_are_exact(
    tile: tuple[int, int], sign: int, features: str, lanes: int
) -> None:
    """All inputs are the largest byte, and the weights as large as an exact result allows."""
    target = Target.host(lanes)
    if features:
        target = replace(target, cpu="x86-64", features=features)
    if not runs_here(target):
        pytest.skip("this processor has no AVX2")
    limit = WholeDivision.by(scale_of(tile, (3, 3))).limit
    total = limit // 255 - 1  # of an output's weights
    channels = -(-total // (9 * 127))
    weights: Array = np.zeros((16, 3, 3, channels), np.int8)
    weights.reshape(16, -1)[:, : total // 127] = 127
    weights.reshape(16, -1)[:, total // 127] = total % 127
    weights *= np.int8(sign)
    assert list(exact_tiles(weights, ElementKind.UINT8, [tile])) == [tile]
    b = Builder()
    x = np.full((1, 4, 4, channels), 255, np.uint8)
    b.save(pack_filter(b, b.constant("w", weights), 1, 16, 2, taps_inside=True), "filter")
    packed = evaluate(b.function(), {})["filter"]
    nest = WinogradNest(conv(1, channels, 16, (4, 4), (3, 3)), tile, ElementKind.UINT8, 16)
    kernel = RunningKernel(generate_kernel(convolution_of(nest), target), target)
    dest: Array = np.empty((1, 2, 2, 16), np.int32)
    kernel(dest, x, packed, np.zeros(16, np.int32))
    assert (dest == sign * total * 255).all()


@pytest.mark.jit
def test_sums_of_bytes_have_an_epilogue() -> None:
    """Sums are scaled, rounded and joined with a residual where they are made."""
    shape = conv(1, 20, 21, (7, 10), (3, 3), pads=1)
    nest = WinogradNest(shape, (4, 4), ElementKind.UINT8, 16, outside=5)
    arrays, expected = operands(nest)
    expected -= arrays[2][:21]
    arrays[2][:] = 0
    sums = Register("sums", TensorType(ElementKind.INT32, expected.shape))
    multiplier = Buffer("multiplier", TensorType(FLOAT32, (1, 1, 1, 21)))
    offset = Buffer("offset", TensorType(ElementKind.UINT8, (1, 1, 1, 1)))
    bytes_type = TensorType(ElementKind.UINT8, expected.shape)
    made, dest = Register("made", bytes_type), Buffer("dest", bytes_type)
    residual = Buffer("residual", bytes_type)
    requantize = RequantizeInst(made, sums, multiplier, offset, kind=ElementKind.UINT8)
    larger = MaximumInst(dest, made, residual)
    stack = StackInst.of([convolution_of(nest, sums), requantize, larger])
    random, target = np.random.default_rng(4), Target.host()
    factors = random.uniform(1e-4, 2e-3, (1, 1, 1, 21)).astype(np.float32)
    zero: Array = np.full((1, 1, 1, 1), 100, np.uint8)
    other = random.integers(0, 150, expected.shape, np.uint8)
    given = {multiplier: factors, offset: zero, residual: other}
    kernel = RunningKernel(generate_stack(stack, target), target)
    found, whole = guarded(expected.shape, ElementKind.UINT8)
    rest = [given[buffer] for buffer in kernel_operands(stack) if buffer in given]
    kernel(found, *arrays, *rest, threads=2)
    scaled = np.rint(expected.astype(np.float32) * factors) + 100
    np.testing.assert_array_equal(found, np.maximum(scaled.clip(0, 255), other))
    assert guards_are_intact(whole)


@pytest.mark.jit
@pytest.mark.parametrize(
    "name",
    marked(
        ["groups", "images share tiles", "5x5", "many channels", "column"],
        only=["groups"],
    ),
)
def test_cut_sums_are_the_same(name: str) -> None:
    """The slow run also has other places of the pixels, and more channels, which are cut too."""
    lanes = LANE_COUNTS[len(name) % len(LANE_COUNTS)]
    target = replace(Target.host(lanes), l1_bytes=64)
    nest = WinogradNest(*NESTS[name], FLOAT32, 2 * lanes, guarded=name == "5x5")
    whole = WinogradNest(*NESTS[name], ElementKind.UINT8, 2 * lanes)
    assert plan_winograd(nest, target).dot < nest.shape.channels_per_group
    for each in (nest, whole):
        check(each, target, threads=1 + len(name) % 3, block_tiles=9)


def random_nest(seed: int) -> tuple[WinogradNest, int]:
    random = np.random.default_rng(seed)

    def pick(low: int, high: int) -> int:
        return int(random.integers(low, high + 1))

    group, lanes = pick(1, 2), LANE_COUNTS[pick(0, 2)]
    kernel: tuple[int, ...] = (3, 3)
    if not pick(0, 2):
        kernel = ((3,), (1, 3), (5, 5), (3, 5), (7, 1), (1, 3, 3), (3, 3, 3), (3, 1, 3))[pick(0, 7)]
    stride = tuple(max(1, pick(0, 2)) for _ in kernel)
    plain, strided = {3: (2, 4, 6), 5: (2, 4), 7: (2,)}, {3: (2, 3, 4), 5: (2, 3, 4), 7: (2, 3)}
    tried = [
        (plain if step == 1 else strided).get(taps, (1,))
        for taps, step in zip(kernel, stride, strict=True)
    ]
    tile = tuple(sizes[pick(0, len(sizes) - 1)] for sizes in tried)
    tile = (1, *tile[1:]) if len(tile) == 3 else tile
    dilation = tuple(
        pick(1, 3) if step == 1 and taps > 1 else 1
        for step, taps in zip(stride, kernel, strict=True)
    )
    dilation = (1, *dilation[1:]) if len(tile) == 3 else dilation
    pads = tuple(pick(0, 2) for _ in 2 * kernel)
    smallest = [
        (taps - 1) * dilation[i] + 1 - min(pads[i], pads[i + len(kernel)])
        for i, taps in enumerate(kernel)
    ]
    shape = conv(
        pick(1, 3),
        group * pick(1, 40),
        group * pick(1, 40),
        tuple(max(1, size) + pick(0, 12) for size in smallest),
        kernel,
        stride,
        pads=pads,
        group=group,
        dilation=dilation,
    )
    assert suits_winograd(shape, tile)
    nest = WinogradNest(shape, tile, FLOAT32, lanes * pick(1, 3))
    if seed % 3 == 0 and suits_winograd(shape, tile, whole=True):
        return replace(nest, kind=ElementKind.INT8, outside=pick(-128, 127)), lanes
    return replace(nest, guarded=seed % 2 == 1), lanes


@pytest.mark.jit
@pytest.mark.parametrize("seed", marked(range(100), only=[0]))
def test_random_nests_keep_their_meaning(seed: int) -> None:
    nest, lanes = random_nest(seed)
    target = Target.host(lanes)
    if seed % 3 != 1:  # all is fetched ahead
        target = replace(target, l2_bytes=64, l3_bytes=64)
    check(nest, target, threads=1 + seed % 3, block_tiles=seed % 4 * 7)


@pytest.mark.jit
def test_epilogue_and_window_of_a_wider_tensor() -> None:
    shape = conv(1, 8, 21, (7, 10), (3, 3), pads=1)
    nest = WinogradNest(shape, (4, 4), FLOAT32, 16)
    arrays, expected = operands(nest)
    operand = np.random.default_rng(3).normal(size=(1, 7, 10, 30)).astype(np.float32)
    wide, narrow = (TensorType(FLOAT32, (1, 7, 10, channels)) for channels in (30, 21))

    def window(name: str) -> View:
        base = Buffer(f"wide_{name}", wide)
        return View(name, narrow, base=base, steps=contiguous_strides(wide.shape))

    made, total = Register("made", narrow), Register("total", narrow)
    add = AddInst(total, made, window("operand"))
    relu = ReluInst(window("dest"), total)
    target, stack = Target.host(), StackInst.of([convolution_of(nest, made), add, relu])
    kernel = RunningKernel(generate_stack(stack, target), target)
    dest, whole = guarded(wide.shape, FLOAT32)
    kernel(dest, *arrays, operand, threads=2)
    wanted = np.maximum(expected + operand[..., :21], 0)
    np.testing.assert_allclose(dest[..., :21], wanted, rtol=0, atol=1e-4)
    assert (dest[..., 21:] == 77).all()
    assert guards_are_intact(whole)


@pytest.mark.jit
def test_same_number_of_threads_gives_the_same_bits() -> None:
    shape = conv(2, 24, 40, (9, 9), (3, 3), pads=1)
    nest = WinogradNest(shape, (4, 4), FLOAT32, 16)
    arrays, expected = operands(nest)
    target = Target.host()
    kernel = RunningKernel(generate_kernel(convolution_of(nest), target), target)
    results = []
    for _ in range(2):
        dest = np.empty_like(expected)
        kernel(dest, *arrays, threads=3)
        results.append(dest)
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize(
    ("kernel", "tile", "dilation"),
    [((3, 3, 3), (2, 4, 4), 1), ((3, 1, 1), (2, 4, 4), 1), ((2, 3, 3), (1, 4, 4), (2, 1, 1))],
)
def test_tiles_over_several_planes_are_refused(
    kernel: tuple[int, ...], tile: tuple[int, ...], dilation: tuple[int, ...] | int
) -> None:
    nest = WinogradNest(conv(1, 8, 8, (5, 5, 5), kernel, dilation=dilation), tile, FLOAT32, 16)
    message = (
        r"no kernel for tiles of \[\d, 4, 4\] outputs of .* with dilation .*; choose one output"
    )
    with pytest.raises(UnsupportedError, match=message):
        generate_kernel(convolution_of(nest), Target.host())


def test_an_input_without_channels_is_refused() -> None:
    nest = WinogradNest(conv(1, 0, 8, (5, 5), (3, 3)), (2, 2), FLOAT32, 16)
    with pytest.raises(UnsupportedError, match="has no channels.*choose packed_convolution"):
        generate_kernel(convolution_of(nest), Target.host())
