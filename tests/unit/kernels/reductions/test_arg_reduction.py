"""ArgMax and ArgMin against their operators, with ties and NaN."""

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.ops.families import NUMBERS
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.reduction import ArgMaxInst, ArgMinInst
from glow_nb.llir.program import Instruction
from tests.in_turn import one_in
from tests.unit.kernels.cases import check, instruction_of, random_array

FLOAT32 = ElementKind.FLOAT32
BOTH = [ArgMaxInst, ArgMinInst]
TARGETS = [Target.host(lanes) for lanes in LANE_COUNTS]
NUMBER_KINDS = [kind for kind in ElementKind if kind in NUMBERS]


def _check(
    instruction_class: type[Instruction],
    shape: tuple[int, ...],
    axis: int,
    target: Target,
    kind: ElementKind = FLOAT32,
    *,
    select_last: bool = False,
) -> None:
    """Compare on numbers that repeat, every third line with NaN."""
    rng = np.random.default_rng(axis + sum(shape))
    attributes = {"axis": axis, "select_last": select_last, "keep_dims": axis % 2 == 0}
    instruction = instruction_of(instruction_class, [TensorType(kind, shape)], **attributes)
    check(instruction, target, operands=[random_array(rng, TensorType(kind, shape))])
    repeating = rng.integers(0, 4, shape).astype(kind.dtype)
    check(instruction, target, operands=[repeating])


def choices() -> list[object]:
    """Return each width with both instructions and both places of equal numbers."""
    return [
        pytest.param(
            *(target, instruction_class, select_last),
            id=f"{target.lanes}-lanes-{instruction_class.opcode}-{place}",
            marks=pytest.mark.slow if (number + other + select_last) % 2 else (),
        )
        for number, target in enumerate(TARGETS)
        for other, instruction_class in enumerate(BOTH)
        for select_last, place in ((False, "first"), (True, "last"))
    ]


@pytest.mark.jit
@pytest.mark.parametrize(("target", "instruction_class", "select_last"), choices())
def test_place_along_lines_and_across_them(
    instruction_class: type[Instruction], target: Target, select_last: bool
) -> None:
    """In the default run, each instruction takes the first or the last place, in turn."""
    for shape, axis in (((9, 131), 1), ((4, 7, 37), 1)):
        _check(instruction_class, shape, axis, target, select_last=select_last)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((5, 1), 1),
        ((6, 3), 1),
        ((1000,), 0),
        ((3, 1, 5), 1),
        ((64, 2), 0),
        ((0, 4), 1),
        ((4, 0), 0),
    ],
    ids=str,
)
def test_sizes(shape: tuple[int, ...], axis: int) -> None:
    _check(ArgMaxInst, shape, axis, Target.host())


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(4, NUMBER_KINDS, first=1, always=[ElementKind.FLOAT32]))
def test_every_kind(kind: ElementKind) -> None:
    _check(ArgMaxInst, (3, 45), 1, Target.host(), kind)
    _check(ArgMinInst, (45, 3), 0, Target.host(), kind, select_last=True)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_searches(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 8, 17, 40], int(rng.integers(1, 4))))
    kind = NUMBER_KINDS[int(rng.integers(len(NUMBER_KINDS)))]
    axis = int(rng.integers(len(shape)))
    _check(BOTH[seed % 2], shape, axis, TARGETS[seed % 3], kind, select_last=seed % 5 < 2)
