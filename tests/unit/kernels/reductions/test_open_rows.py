"""Softmax, normalizations and reductions whose sizes are open, kept and walked ones."""

import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.matrix import DeterminantInst
from glow_nb.llir.instructions.normalization import (
    GroupNormalizationInst,
    LayerNormalizationInst,
    LocalResponseNormalizationInst,
    LogSoftmaxInst,
    SoftmaxInst,
)
from glow_nb.llir.instructions.reduction import (
    ArgMaxInst,
    ArgMinInst,
    CumSumInst,
    ReduceMaxInst,
    ReduceMeanInst,
    ReduceMinInst,
    ReduceProdInst,
    ReduceSumInst,
)
from glow_nb.llir.program import Instruction
from tests.in_turn import each_with_one_width, marked
from tests.unit.kernels.cases import instruction_of
from tests.unit.kernels.open_cases import check_open, open_size

FLOAT32 = ElementKind.FLOAT32
ROWS, LENGTH = open_size("rows", 5), open_size("length", 37)
SETS = [
    {"rows": rows, "length": length}
    for rows, length in (
        (1, 1),
        (5, 37),
        (2, 8),
        (3, 31),
        (1, 32),
        (2, 33),
        (3, 63),
        (70, 2),
        (2, 1009),
    )
]
"""Lengths below, at and above vectors of all widths."""


def _softmax(
    softmax: type[Instruction], shape: tuple[int, ...], axis: int, kind: ElementKind = FLOAT32
) -> Instruction:
    return instruction_of(softmax, [TensorType(kind, shape)], axis=axis)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("softmax", "lanes"), each_with_one_width([SoftmaxInst, LogSoftmaxInst, SoftmaxInst])
)
def test_softmax_along_an_open_row(softmax: type[Instruction], lanes: int) -> None:
    instruction = _softmax(softmax, (ROWS, LENGTH), 1)
    check_open(instruction, SETS, Target.host(lanes), ulp=16, absolute=2e-6)


def test_short_runs_have_narrow_vectors() -> None:
    for length, widths in ((LENGTH, {8, 32}), (open_size("few", 5, high=20), {8}), (256, {32})):
        text = generate_kernel(_softmax(SoftmaxInst, (ROWS, length), 1), Target.host(8)).text
        found = {lanes for lanes in (4, 8, 16, 32) if f"splat_float32(-1e999, {lanes})" in text}
        assert found == widths


@pytest.mark.jit
@pytest.mark.parametrize("kind", [ElementKind.FLOAT16, ElementKind.FLOAT64])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_other_kinds_and_across_rows(kind: ElementKind, axis: int) -> None:
    instruction = _softmax(SoftmaxInst, (LENGTH, ROWS), axis, kind)
    check_open(instruction, SETS, Target.host(), ulp=16, absolute=2e-6)


WALKS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((ROWS, LENGTH), (1,)),
    ((ROWS, LENGTH), (0,)),
    ((ROWS, LENGTH, 40), (1,)),  # the mean of the tokens of a text
    ((ROWS, LENGTH, 40), (2,)),
    ((ROWS, LENGTH), (0, 1)),
    ((ROWS, LENGTH, 3, LENGTH), (1, 2)),
    ((ROWS, 2 * LENGTH + 1, 16 * ROWS), (2, 0)),
]


@pytest.mark.jit
@pytest.mark.parametrize("walk", WALKS, ids=str)
def test_reductions_over_open_axes(walk: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    shape, axes = walk
    classes = (ReduceMeanInst, ReduceMaxInst, ReduceSumInst)
    reduction = classes[WALKS.index(walk) % 3]
    instruction = instruction_of(
        reduction, [TensorType(FLOAT32, shape)], axes=axes, keep_dims=False
    )
    check_open(instruction, SETS[:-2], Target.host(), ulp=64, absolute=1e-5)


@pytest.mark.jit
@pytest.mark.parametrize("kind", [ElementKind.INT8, ElementKind.BFLOAT16, ElementKind.INT64])
@pytest.mark.parametrize("reduction", [ReduceSumInst, ReduceMinInst, ReduceProdInst])
@pytest.mark.slow
def test_reductions_of_other_kinds(reduction: type[Instruction], kind: ElementKind) -> None:
    for axis in (0, 1):
        type = TensorType(kind, (ROWS, LENGTH))
        instruction = instruction_of(reduction, [type], axes=(axis,), keep_dims=False)
        check_open(instruction, SETS[:-1], Target.host(), ulp=64)


@pytest.mark.jit
def test_an_open_axis_of_nothing_is_reduced_to_what_is_neutral() -> None:
    shape = (open_size("rows", 5, low=0), open_size("length", 37, low=0))
    sets = [{"rows": rows, "length": length} for rows in (0, 3) for length in (0, 9, 37)]
    for axis in (0, 1):
        type = TensorType(FLOAT32, shape)
        total = instruction_of(ReduceSumInst, [type], axes=(axis,), keep_dims=False)
        check_open(total, sets, Target.host(), ulp=64, absolute=1e-5)
        check_open(_softmax(SoftmaxInst, shape, axis), sets, Target.host(), ulp=16)


@pytest.mark.jit
@pytest.mark.parametrize("shape", [(ROWS, LENGTH, 40), (ROWS, LENGTH)], ids=str)
def test_layer_normalization_of_open_rows(shape: tuple[int, ...]) -> None:
    axis = len(shape) - 1
    weight = TensorType(FLOAT32, shape[axis:])
    operands = [TensorType(FLOAT32, shape), weight, weight]
    instruction = instruction_of(LayerNormalizationInst, operands, axis=axis, epsilon=1e-2)
    check_open(instruction, SETS, Target.host(), ulp=64, absolute=2e-5)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("shape", "groups", "axis"),
    [((ROWS, 6, LENGTH), 3, 1), ((ROWS, 6, LENGTH), 6, 1), ((ROWS, LENGTH, 12), 3, 2)],
    ids=str,
)
def test_group_normalization_of_open_images(shape: tuple[int, ...], groups: int, axis: int) -> None:
    operands = [TensorType(FLOAT32, shape), *[TensorType(FLOAT32, (shape[axis],))] * 2]
    instruction = instruction_of(
        GroupNormalizationInst, operands, groups=groups, channel_axis=axis, epsilon=1e-2
    )
    check_open(instruction, SETS, Target.host(), ulp=64, absolute=5e-5)


PLACES = [
    {"rows": rows, "length": length}
    for rows, length in ((1, 1), (5, 37), (2, 8), (3, 31), (1, 32), (2, 33), (70, 2), (200, 100))
]

LINES = [(ROWS, LENGTH), (LENGTH, ROWS), (LENGTH, open_size("rows", 200))]


@pytest.mark.jit
@pytest.mark.parametrize("kind", [FLOAT32, pytest.param(ElementKind.INT64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("select_last", [False, True])
def test_places_of_extremes_in_open_lines(kind: ElementKind, axis: int, select_last: bool) -> None:
    search = ArgMinInst if select_last else ArgMaxInst
    options = {"axis": axis, "keep_dims": False, "select_last": select_last}
    instruction = instruction_of(search, [TensorType(kind, (ROWS, LENGTH))], **options)
    check_open(instruction, PLACES, Target.host(), specials=True)


@pytest.mark.jit
@pytest.mark.parametrize("shape", marked(LINES, LINES[1:2]), ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_running_sums_of_open_lines(shape: tuple[int, ...], axis: int) -> None:
    options = {"axis": axis, "exclusive": axis == 0, "reverse": axis == 1}
    instruction = instruction_of(CumSumInst, [TensorType(FLOAT32, shape)], **options)
    check_open(instruction, PLACES, Target.host(), ulp=64, absolute=1e-5)


@pytest.mark.jit
def test_responses_of_open_images() -> None:
    type = TensorType(FLOAT32, (ROWS, LENGTH, 2 * LENGTH, 20))
    options = {"size": 5, "alpha": 1e-2, "beta": 0.75, "bias": 1.0}
    instruction = instruction_of(LocalResponseNormalizationInst, [type], **options)
    check_open(instruction, PLACES[:4], Target.host(), ulp=64)


@pytest.mark.jit
def test_determinants_of_an_open_number_of_matrices() -> None:
    instruction = instruction_of(DeterminantInst, [TensorType(FLOAT32, (ROWS, LENGTH, 3, 3))])
    check_open(instruction, PLACES[:4], Target.host(), ulp=64, absolute=1e-3)
