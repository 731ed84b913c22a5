"""Layer and group normalization against their operators."""

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.normalization import GroupNormalizationInst, LayerNormalizationInst
from glow_nb.llir.program import Instruction
from tests.in_turn import in_turn
from tests.unit.kernels.cases import check, instruction_of

FLOAT32 = ElementKind.FLOAT32
TARGETS = [Target.host(lanes) for lanes in LANE_COUNTS]
CASES: list[tuple[tuple[int, ...], int]] = [
    ((3, 5, 77), 2),
    ((3, 5, 77), 1),
    ((2, 768), 1),
    ((9, 3), 1),
    ((4, 6), 0),
    ((3, 1), 1),
    ((0, 5), 1),
]


def _normalization(
    shape: tuple[int, ...], axis: int, kind: ElementKind = FLOAT32, *, has_bias: bool = True
) -> Instruction:
    weight = TensorType(kind, shape[axis:])
    operands = [TensorType(kind, shape), *[weight] * (1 + has_bias)]
    return instruction_of(LayerNormalizationInst, operands, axis=axis, epsilon=1e-5)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("case", "target"),
    in_turn(CASES, TARGETS),
    ids=lambda given: f"{given.lanes}-lanes" if isinstance(given, Target) else str(given),
)
def test_layer_normalization(case: tuple[tuple[int, ...], int], target: Target) -> None:
    instruction = _normalization(*case, has_bias=target.lanes != 4)
    check(instruction, target, specials=False, ulp=64, absolute=2e-5)


@pytest.mark.jit
@pytest.mark.parametrize("kind", [kind for kind in ElementKind if kind.is_float])
def test_kinds_are_normalized(kind: ElementKind) -> None:
    instruction = _normalization((4, 45), 1, kind)
    check(instruction, Target.host(), specials=False, ulp=8, absolute=2e-5)


@pytest.mark.jit
def test_variance_of_numbers_far_from_zero() -> None:
    """The mean of squares minus the square of the mean would lose every digit."""
    rows = 10000 + np.random.default_rng(0).random((3, 50)).astype(np.float32)
    weights = np.ones(50, np.float32)
    instruction = _normalization((3, 50), 1)
    check(instruction, Target.host(), operands=[rows, weights, weights], ulp=64, absolute=1e-2)


GROUPS: list[tuple[tuple[int, ...], int, int]] = [
    ((2, 6, 5, 7), 3, 1),  # groups of two channels
    ((2, 5, 77), 5, 1),  # instances
    ((3, 7, 2, 3, 3), 1, 1),  # all of a sample
    ((2, 3, 5, 12), 3, 3),  # the channels last
    ((2, 3, 5, 21), 21, 3),
    ((2, 4, 1), 2, 1),
    ((2, 0, 3), 2, 1),
]


def _groups(
    shape: tuple[int, ...], groups: int, axis: int, kind: ElementKind = FLOAT32
) -> Instruction:
    operands = [TensorType(kind, shape), *[TensorType(kind, (shape[axis],))] * 2]
    attributes = {"groups": groups, "channel_axis": axis, "epsilon": 1e-2}
    return instruction_of(GroupNormalizationInst, operands, **attributes)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("case", "target"),
    in_turn(GROUPS, TARGETS),
    ids=lambda given: f"{given.lanes}-lanes" if isinstance(given, Target) else str(given),
)
def test_group_normalization(case: tuple[tuple[int, ...], int, int], target: Target) -> None:
    check(_groups(*case), target, specials=False, ulp=64, absolute=2e-5)


@pytest.mark.jit
@pytest.mark.parametrize("kind", [kind for kind in ElementKind if kind.is_float])
def test_kinds_are_normalized_by_groups(kind: ElementKind) -> None:
    instruction = _groups((2, 6, 9), 3, 1, kind)
    check(instruction, Target.host(), specials=False, ulp=8, absolute=2e-5)
