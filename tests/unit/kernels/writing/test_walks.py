"""Reductions and softmax over any axes against their operators."""

import numpy as np
import pytest

from glow_nb.base.schema import map_operands
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.cpu_kernels import CPU_KERNELS, generate_kernel
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.instructions.normalization import (
    LayerNormalizationInst,
    LogSoftmaxInst,
    SoftmaxInst,
)
from glow_nb.llir.instructions.reduction import (
    ReduceMaxInst,
    ReduceMeanInst,
    ReduceMinInst,
    ReduceProdInst,
    ReduceSumInst,
)
from glow_nb.llir.instructions.shape import TransposeInst
from glow_nb.llir.program import Buffer, Instruction, View, kernel_operands, read
from tests.in_turn import each_with_one_width, left_out, one_in
from tests.unit.kernels.cases import (
    COMPUTED,
    assert_close,
    check,
    expected_of,
    instruction_of,
    random_array,
)
from tests.unit.kernels.running import RunningKernel, guarded

BOOL, FLOAT32 = ElementKind.BOOL, ElementKind.FLOAT32
TARGETS = [Target.host(lanes) for lanes in LANE_COUNTS]
REDUCTIONS = (ReduceSumInst, ReduceMeanInst, ReduceMaxInst, ReduceMinInst, ReduceProdInst)
SOFTMAXES = (SoftmaxInst, LogSoftmaxInst)

AXES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 1000), (1,)),  # rows
    ((300, 3), (1,)),  # short rows
    ((2, 7, 7, 80), (1, 2)),  # all pixels of each channel
    ((5, 7, 45), (0, 2)),
    ((4, 5, 6, 7), (1, 3)),
    ((4, 5, 6, 7), (0, 1, 2, 3)),
    ((4, 5, 6), ()),
    ((300, 3), (0,)),
    ((3, 0, 4), (1,)),  # nothing to reduce
    ((0, 3), (1,)),  # no results
    ((), ()),
    ((9, 1, 3), (1,)),
]


def _reduce(
    reduction: type[Instruction],
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    kind: ElementKind = FLOAT32,
    *,
    keep_dims: bool = False,
) -> Instruction:
    type = TensorType(kind, shape)
    return instruction_of(reduction, [type], axes=axes, keep_dims=keep_dims)


@pytest.mark.jit
@pytest.mark.parametrize(("axes", "lanes"), each_with_one_width(AXES))
def test_reduction_over_axes(axes: tuple[tuple[int, ...], tuple[int, ...]], lanes: int) -> None:
    first, target = AXES.index(axes) + LANE_COUNTS.index(lanes), Target.host(lanes)
    for number in (first, first + 1):
        reduction = REDUCTIONS[number % len(REDUCTIONS)]
        instruction = _reduce(reduction, *axes, keep_dims=number % 2 == 0)
        check(instruction, target, specials=False, ulp=64, absolute=1e-5, seed=number)


@pytest.mark.jit
@pytest.mark.parametrize("axes", AXES[:4], ids=str)
def test_nan_and_infinity_come_through(axes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    for reduction in (ReduceSumInst, ReduceMaxInst, ReduceMinInst):
        check(_reduce(reduction, *axes), Target.host(), ulp=64, absolute=1e-5)


@pytest.mark.jit
@pytest.mark.parametrize(
    "kind",
    one_in(4, [kind for kind in COMPUTED if kind is not BOOL], first=3, always=[FLOAT32]),
)
def test_kinds_are_reduced(kind: ElementKind) -> None:
    others = REDUCTIONS[2:]
    for axis, reduction in enumerate((ReduceSumInst, others[len(kind.value) % len(others)])):
        check(_reduce(reduction, (5, 37), (axis,), kind), Target.host(), specials=False, ulp=64)
    if kind.is_float:
        check(_reduce(ReduceMeanInst, (5, 37), (1,), kind), Target.host(), specials=False, ulp=64)


@pytest.mark.jit
def test_long_sums_keep_their_precision() -> None:
    numbers = np.random.default_rng(0).random((1, 400_000)).astype(np.float32)
    check(_reduce(ReduceSumInst, (1, 400_000), (1,)), Target.host(), operands=[numbers], ulp=4)


SOFTMAX_AXES: list[tuple[tuple[int, ...], int]] = [
    ((3, 1000), 1),
    ((70, 12), 1),
    ((4, 32), 1),
    ((5, 7, 45), 1),
    ((12, 40), 0),
    ((2, 9, 3, 5), 2),
    ((7,), 0),
    ((3, 1), 1),
    ((0, 4), 1),
    ((4, 0), 1),
]


@pytest.mark.jit
@pytest.mark.parametrize(
    ("case", "lanes"), each_with_one_width(SOFTMAX_AXES, slow=left_out(2, SOFTMAX_AXES))
)
def test_softmax_along_any_axis(case: tuple[tuple[int, ...], int], lanes: int) -> None:
    target = Target.host(lanes)
    shape, axis = case
    softmax = SOFTMAXES[target.lanes == 8]
    instruction = instruction_of(softmax, [TensorType(FLOAT32, shape)], axis=axis)
    check(instruction, target, specials=False, ulp=16, absolute=2e-6)


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(2, [kind for kind in ElementKind if kind.is_float]))
def test_softmax_of_every_kind(kind: ElementKind) -> None:
    """The default run has a float of each size that is computed in float32."""
    for axis in (0, 1):
        for softmax in SOFTMAXES:
            instruction = instruction_of(softmax, [TensorType(kind, (9, 21))], axis=axis)
            check(instruction, Target.host(), specials=False, ulp=16, absolute=2e-6)


@pytest.mark.jit
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_masked_rows(axis: int) -> None:
    infinity = np.float32(np.inf)
    rows = np.random.default_rng(1).standard_normal((6, 40)).astype(np.float32)
    rows[0, 10:] = -infinity  # a mask: exactly 0
    rows[1, 3] = infinity  # NaN, as is the quotient of infinities
    rows[2] = -infinity  # NaN: everything is masked
    rows[3, 7] = np.nan
    rows[4] = 1e30
    rows[5, 1:] = -200  # far below what float32 can express
    rows = rows if axis else np.ascontiguousarray(rows.T)
    for softmax in SOFTMAXES:
        instruction = instruction_of(softmax, [TensorType(FLOAT32, rows.shape)], axis=axis)
        check(instruction, Target.host(), operands=[rows], ulp=16, absolute=1e-6)
    found = instruction_of(SoftmaxInst, [TensorType(FLOAT32, rows.shape)], axis=axis)
    kernel = RunningKernel(generate_kernel(found, Target.host()), Target.host())
    result, _ = guarded(rows.shape, FLOAT32)
    kernel(result, rows)
    first = result[0] if axis else result[:, 0]
    assert (first[10:] == 0).all()


@pytest.mark.jit
def test_operands_may_be_views() -> None:
    target = Target.host()
    whole = Buffer("whole", TensorType(FLOAT32, (6, 50)))
    window = View("window", TensorType(FLOAT32, (6, 30)), base=whole, start=7, steps=(50, 1))
    every_other = View("other", TensorType(FLOAT32, (6, 25)), base=whole, steps=(50, 2))
    numbers = np.random.default_rng(2).random((6, 50)).astype(np.float32)
    for view, start, seen in ((window, 7, numbers[:, 7:37]), (every_other, 0, numbers[:, ::2])):
        dest = Buffer("dest", TensorType(FLOAT32, (6,)))
        reduction = ReduceSumInst(dest, view, axes=(1,), keep_dims=False)
        kernel = RunningKernel(generate_kernel(reduction, target), target)
        result, _ = guarded((6,), FLOAT32)
        kernel(result, numbers.reshape(-1)[start:])
        assert_close(result, seen.astype(np.float64).sum(1).astype(np.float32), ulp=8)


@pytest.mark.jit
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.lanes}-lanes")
def test_exponential_of_what_is_not_positive(target: Target) -> None:
    count, lanes = 40_000, target.lanes
    text = (
        "def kernel(dest, src, scratch, thread, threads):\n"
        f"    for i in range(0, {count}, {lanes}):\n"
        f"        store(dest, i, exp_nonpositive(load(src, i, {lanes})))\n"
    )
    x = -np.random.default_rng(4).uniform(0, 90, count).astype(np.float32)
    x[:6] = (0.0, -0.0, -np.inf, np.nan, -1e30, -1e-30)
    found = np.empty_like(x)
    RunningKernel(KernelSource("exp", text, (FLOAT32, FLOAT32)), target)(found, x)
    wanted = np.exp(x.astype(np.float64))
    wanted[wanted < 1.18e-38] = 0
    assert_close(found, wanted.astype(np.float32), ulp=1.5, absolute=1.2e-38)


def _windowed(instruction: Instruction) -> Instruction:
    """Return *instruction* with gaps between the rows of its ``dest`` and ``input``."""

    def window(buffer: Buffer) -> Buffer:
        *outer, columns = buffer.type.shape
        whole = Buffer("whole", TensorType(FLOAT32, (*outer, columns + 5)))
        return View("window", buffer.type, base=whole, start=2, steps=whole.strides)

    strided = CPU_KERNELS.traits[type(instruction)].strided
    places = {getattr(instruction, name): name for name in strided}
    return map_operands(instruction, lambda b: window(b) if b in places else b)


@pytest.mark.jit
@pytest.mark.parametrize(
    "target", one_in(3, TARGETS, first=1), ids=lambda target: f"{target.lanes}-lanes"
)
def test_declared_operands_may_be_strided(target: Target) -> None:
    """The slow run also has the other widths of vectors."""
    shape = (3, 6, 37)
    type = TensorType(FLOAT32, shape)
    weight = TensorType(FLOAT32, shape[2:])
    for instruction in (
        instruction_of(TransposeInst, [type], permutation=(1, 2, 0)),
        instruction_of(TransposeInst, [type], permutation=(1, 0, 2)),
        instruction_of(ReduceMeanInst, [type], axes=(1,), keep_dims=True),
        instruction_of(ReduceMaxInst, [type], axes=(1, 2), keep_dims=False),
        instruction_of(SoftmaxInst, [type], axis=1),
        instruction_of(LogSoftmaxInst, [type], axis=2),
        instruction_of(LayerNormalizationInst, [type, weight, weight], axis=2, epsilon=1e-5),
    ):
        _check_windowed(instruction, target)


def _check_windowed(instruction: Instruction, target: Target) -> None:
    windowed = _windowed(instruction)
    rng = np.random.default_rng(6)
    operands = [random_array(rng, buffer.type, specials=False) for buffer in read(instruction)]
    (wanted,) = expected_of(instruction, operands)
    kernel = RunningKernel(generate_kernel(windowed, target), target)
    memory = [
        np.full(buffer.root.type.size, 7, buffer.type.kind.dtype)
        for buffer in kernel_operands(windowed)
    ]
    starts = [buffer.offset for buffer in kernel_operands(windowed)]
    views = [
        np.lib.stride_tricks.as_strided(m[s:], b.type.shape, [n * m.itemsize for n in b.strides])
        for m, s, b in zip(memory, starts, kernel_operands(windowed), strict=True)
    ]
    for view, operand in zip(views[1:], operands, strict=True):
        view[...] = operand
    kernel(*(m[s:] for m, s in zip(memory, starts, strict=True)), threads=2)
    assert_close(views[0].copy(), wanted, ulp=64, absolute=1e-5)
    views[0][...] = 7
    assert (memory[0] == 7).all(), "wrote into a gap"


@pytest.mark.jit
@pytest.mark.parametrize("axis", [0, 1])
def test_long_sums_are_made_of_short_ones(axis: int) -> None:
    shape = (20_011, 9) if axis == 0 else (9, 200_003)
    numbers = np.random.default_rng(8).random(shape).astype(np.float32)
    check(_reduce(ReduceSumInst, shape, (axis,)), Target.host(), operands=[numbers], ulp=8)
