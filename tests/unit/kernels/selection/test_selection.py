"""Choosing some of many: machine code against what the operators mean."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.selection import NonMaxSuppressionInst, NonZeroInst, UniqueInst
from tests.in_turn import in_turn, one_in
from tests.unit.kernels.cases import COMPUTED, check, instruction_of, random_array

FLOAT32 = ElementKind.FLOAT32


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(4, COMPUTED, always=[ElementKind.FLOAT32]))
def test_every_kind_is_searched_for_what_is_not_zero(kind: ElementKind) -> None:
    numbers = random_array(np.random.default_rng(0), TensorType(kind, (5, 7)))
    numbers[np.random.default_rng(1).random((5, 7)) < 0.5] = 0
    check(instruction_of(NonZeroInst, [TensorType.of(numbers)]), Target.host(), operands=[numbers])


@pytest.mark.jit
@pytest.mark.parametrize("shape", [(1,), (13,), (0,), (3, 0, 2), (2, 3, 4, 5), (1, 1, 9)])
def test_places_have_a_coordinate_for_each_dimension(shape: tuple[int, ...]) -> None:
    numbers = np.random.default_rng(0).integers(-1, 2, shape).astype(np.int32)
    check(instruction_of(NonZeroInst, [TensorType.of(numbers)]), Target.host(), operands=[numbers])


def boxes_of(rng: np.random.Generator, batches: int, count: int) -> Array:
    """Return boxes that overlap much, on a grid, so that some are equal."""
    return (rng.integers(0, 12, (batches, count, 4)) / 4).astype(np.float32)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("shape", "options"),
    in_turn(
        [(1, 1, 1), (2, 3, 17), (1, 5, 64), (1, 2, 0)],
        [*itertools.product([0, 1, 3, 1000], [False, True])],
    ),
)
def test_boxes_are_suppressed(shape: tuple[int, int, int], options: tuple[int, bool]) -> None:
    """In the default run, each shape has another of the eight options."""
    (batches, classes, count), (limit, is_centered) = shape, options
    for seed in range(4):
        rng = np.random.default_rng(seed)
        # Scores of few values, so that there are ties.
        scores = (rng.integers(0, 9, (batches, classes, count)) / 8).astype(np.float32)
        operands = [
            boxes_of(rng, batches, count),
            scores,
            np.array([0.0, 0.25, 0.5, 1.0][seed], np.float32),
            np.array([-np.inf, 0.25, 0.5, 2.0][seed], np.float32),
        ]
        instruction = instruction_of(
            NonMaxSuppressionInst,
            [TensorType.of(array) for array in operands],
            limit=limit,
            is_centered=is_centered,
        )
        check(instruction, Target.host(), operands=operands)


@pytest.mark.jit
@pytest.mark.parametrize(
    "target", [Target.host(lanes) for lanes in LANE_COUNTS], ids=lambda t: t.lanes
)
def test_scores_of_any_sign_and_boxes_without_an_area(target: Target) -> None:
    rng = np.random.default_rng(3)
    numbers = np.array([-np.inf, -1, -1e-40, -0.0, 0.0, 1e-40, 2, np.inf, np.nan], np.float32)
    boxes = boxes_of(rng, 1, 45)
    boxes[0, ::7] = rng.choice(np.array([0, np.inf, -np.inf, np.nan], np.float32), (7, 4))
    scores, overlap = rng.choice(numbers, (1, 3, 45)), np.array(0.3, np.float32)
    for threshold in (-np.inf, -0.5, 0.0):
        operands = [boxes, scores, overlap, np.array(threshold, np.float32)]
        types = [TensorType.of(array) for array in operands]
        instruction = instruction_of(NonMaxSuppressionInst, types, limit=40, is_centered=False)
        with np.errstate(invalid="ignore"):
            check(instruction, target, operands=operands)


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(4, COMPUTED, always=[ElementKind.FLOAT32]))
def test_distinct_numbers_of_every_kind(kind: ElementKind) -> None:
    numbers = random_array(np.random.default_rng(0), TensorType(kind, (40, 1)))
    instruction = instruction_of(UniqueInst, [TensorType.of(numbers)], sorted=True)
    check(instruction, Target.host(), operands=[numbers])


@pytest.mark.jit
@pytest.mark.parametrize(
    ("shape", "is_sorted"),
    in_turn(
        [(0, 3), (4, 0), (37, 3), (1, 1), (50, 2), (500, 1)], [False, True], slow=[(1, 1), (50, 2)]
    ),
)
def test_distinct_rows(shape: tuple[int, int], is_sorted: bool) -> None:
    numbers = np.random.default_rng(0).integers(-2, 3, shape).astype(np.float32)
    numbers[numbers == 2] = np.nan
    instruction = instruction_of(UniqueInst, [TensorType.of(numbers)], sorted=is_sorted)
    check(instruction, Target.host(), operands=[numbers])
