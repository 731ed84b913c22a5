"""Scatters against their operators: repeated indices, negative ones and wrong ones."""

import dataclasses
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.ops.families import NUMBERS
from glow_nb.hlir.ops.scatter import REDUCTIONS
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.scatter import ScatterElementsInst, ScatterNDInst
from glow_nb.llir.program import Buffer, Instruction, View
from tests.in_turn import in_turn, left_out
from tests.unit.kernels.cases import expected_of, instruction_of, random_array, random_indices, run
from tests.unit.kernels.running import RunningKernel

FLOAT32, INT32, INT64 = ElementKind.FLOAT32, ElementKind.INT32, ElementKind.INT64
Shape = tuple[int, ...]

ELEMENTS = [
    ((6, 5, 4), (3, 8, 4), 1),
    ((6, 5), (6, 9), 1),
    ((6, 5), (11, 2), 0),
    ((40, 3, 5), (33, 7, 5), 1),  # lines enough to share, not all of them written
    ((5, 40), (9, 33), 0),
    ((2, 3, 4, 5), (2, 1, 4, 1), 2),
    ((3, 4, 5), (1, 2, 1), 1),
    ((1, 5), (1, 70), 1),
    ((5, 1), (20, 1), 0),
    ((7, 3), (0, 3), 0),
    ((0, 3), (0, 3), 1),
]
ROWS = [
    ((4, 5, 6), (7, 2)),
    ((4, 5, 6), (9, 3)),
    ((4, 5, 33), (2, 3, 1)),
    ((3, 700), (8, 1)),  # columns of long rows are shared
    ((1, 3), (4, 1)),
    ((9,), (30, 1)),
    ((4, 3), (0, 1)),
    ((4, 0, 3), (2, 1)),
]
PLACES = ("elsewhere", "in place")
"""Where a result is written: beside the data, or over them."""
COMBINED = [(k, r) for k in ElementKind for r in REDUCTIONS if r == "none" or k in NUMBERS]


def _operands(
    seed: int, shape: Shape, indices: Shape, updates: Shape, kinds: tuple[ElementKind, ElementKind]
) -> list[Any]:
    """Return data, indices from all of an axis and some that lie outside, and updates."""
    kind, index_kind = kinds
    rng = np.random.default_rng(seed)
    places = random_indices(rng, shape, TensorType(index_kind, indices))
    data, news = (random_array(rng, TensorType(kind, s)) for s in (shape, updates))
    return [data, places, news]


def _check(
    instruction_class: type[Instruction],
    shape: Shape,
    indices: Shape,
    kind: ElementKind = FLOAT32,
    index_kind: ElementKind = INT64,
    places: Sequence[str] = PLACES,
    **attributes: Any,
) -> None:
    """Compare bit for bit: the order of the updates, and the rounding of each, are given."""
    updates = indices
    if instruction_class is ScatterNDInst:
        updates = (*indices[:-1], *shape[indices[-1] :])
    operands = _operands(sum(indices), shape, indices, updates, (kind, index_kind))
    types = [TensorType.of(array) for array in operands]
    instruction = instruction_of(instruction_class, types, **attributes)
    (expected,) = expected_of(instruction, operands)
    if "elsewhere" in places:
        (found,) = run(instruction, operands, Target.host())
        _assert_equal(found, expected)
    if "in place" in places:
        _check_in_place(instruction, operands, expected)


def _check_in_place(instruction: Any, operands: list[Any], expected: Any) -> None:
    """Compare what is written over the data itself."""
    data = instruction.data
    shared = View("dest", data.type, data)
    source = generate_kernel(dataclasses.replace(instruction, dest=shared), Target.host())
    kernel = RunningKernel(source, Target.host())
    for threads in (1, 2, 3):
        memory = operands[0].copy()
        kernel(memory, memory, *operands[1:], threads=threads)
        _assert_equal(memory, expected)


def _assert_equal(found: Any, expected: Any) -> None:
    """Compare bit for bit, but for what a NaN is made of."""
    assert found.dtype == expected.dtype
    kind = ElementKind.of(found.dtype)
    if kind.is_storage:
        found, expected = found.view(np.uint8), expected.view(np.uint8)
    elif kind.is_float:
        found, expected = found.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("case", "reduction"),
    in_turn(ELEMENTS, ["none", "add", "max"], slow=left_out(2, ELEMENTS, always=ELEMENTS[3:4])),
    ids=str,
)
def test_elements_are_scattered(case: tuple[Shape, Shape, int], reduction: str) -> None:
    shape, indices, axis = case
    _check(ScatterElementsInst, shape, indices, axis=axis, reduction=reduction)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("case", "reduction"),
    in_turn(ROWS, ["none", "add", "max"], slow=left_out(2, ROWS, always=ROWS[3:4])),
    ids=str,
)
def test_slices_are_scattered(case: tuple[Shape, Shape], reduction: str) -> None:
    _check(ScatterNDInst, *case, reduction=reduction)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("combined", "where"),
    in_turn(
        COMBINED,
        list(product((ScatterElementsInst, ScatterNDInst), PLACES)),
        slow=left_out(6, COMBINED),
    ),
)
def test_every_kind_is_combined_in_each_reduction(
    combined: tuple[ElementKind, str], where: tuple[type[Instruction], str]
) -> None:
    """The default run has a sixth of them, of elements or of slices, in one place each."""
    kind, reduction = combined
    scatter, place = where
    if scatter is ScatterNDInst:
        _check(scatter, (6, 19), (15, 1), kind, INT32, [place], reduction=reduction)
    else:
        _check(scatter, (6, 7), (15, 7), kind, INT32, [place], axis=0, reduction=reduction)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_scatters(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 40 if seed % 2 else 8, int(rng.integers(1, 5))))
    reduction = list(REDUCTIONS)[seed % 5]
    kind = INT64 if seed % 3 else FLOAT32
    axis = int(rng.integers(len(shape)))
    wanted = [int(rng.integers(0, n + 1)) for n in shape]
    wanted[axis] = int(rng.integers(0, 30))
    _check(ScatterElementsInst, shape, tuple(wanted), kind, axis=axis, reduction=reduction)
    points = tuple(int(n) for n in rng.integers(0, 8, int(rng.integers(0, 3))))
    depth = int(rng.integers(1, len(shape) + 1))
    _check(ScatterNDInst, shape, (*points, depth), kind, reduction=reduction)


def test_a_result_elsewhere_is_made_from_the_data() -> None:
    types = [TensorType(FLOAT32, (6, 8)), TensorType(INT64, (3, 1)), TensorType(FLOAT32, (3, 8))]
    instruction = instruction_of(ScatterNDInst, types, reduction="add")
    assert isinstance(instruction, ScatterNDInst)
    shared = View("dest", types[0], Buffer("data", types[0]))
    in_place = ScatterNDInst(shared, shared.base, instruction.indices, instruction.updates, "add")
    assert "data, " in generate_kernel(instruction, Target.host()).text.partition("\n")[2]
    assert "data, " not in generate_kernel(in_place, Target.host()).text.partition("\n")[2]
