"""Running sums against their operator."""

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.ops.families import NUMBERS
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.reduction import CumSumInst
from tests.in_turn import in_turn, one_in
from tests.unit.kernels.cases import check, instruction_of

TARGETS = [Target.host(lanes) for lanes in LANE_COUNTS]
NUMBER_KINDS = [kind for kind in ElementKind if kind in NUMBERS]


def _check(
    shape: tuple[int, ...],
    axis: int,
    target: Target,
    kind: ElementKind = ElementKind.FLOAT32,
    *,
    exclusive: bool = False,
    reverse: bool = False,
) -> None:
    attributes = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    instruction = instruction_of(CumSumInst, [TensorType(kind, shape)], **attributes)
    check(instruction, target, ulp=1, specials=False)
    check(instruction, target, ulp=1, seed=1)


@pytest.mark.jit
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.lanes}-lanes")
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sums_along_every_axis(axis: int, target: Target) -> None:
    _check((5, 7, 43), axis, target)


@pytest.mark.jit
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_directions(exclusive: bool, reverse: bool) -> None:
    _check((4, 11, 9), 1, Target.host(), exclusive=exclusive, reverse=reverse)
    _check((4, 11), 1, Target.host(), exclusive=exclusive, reverse=reverse)


@pytest.mark.jit
@pytest.mark.parametrize(("exclusive", "reverse"), in_turn([False, True], [False, True]))
def test_more_lines_than_the_cache_has_sums_of(exclusive: bool, reverse: bool) -> None:
    target = Target.host().with_machine(l2_bytes=1 << 11)
    for count in (3, 4, 10):  # single steps, some together, both
        _check((2, count, 307), 1, target, exclusive=exclusive, reverse=reverse)


def test_a_cache_without_room_for_one_vector_of_sums_gets_one() -> None:
    type = TensorType(ElementKind.FLOAT32, (3, 307))
    instruction = instruction_of(CumSumInst, [type], axis=0, exclusive=False, reverse=False)
    target = Target.host().with_machine(l2_bytes=64)
    assert generate_kernel(instruction, target).scratch_bytes > 0


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(4, NUMBER_KINDS, always=[ElementKind.FLOAT32]))
def test_every_kind(kind: ElementKind) -> None:
    _check((6, 19), 0, Target.host(), kind)


@pytest.mark.jit
@pytest.mark.parametrize(("shape", "axis"), [((0, 3), 0), ((3, 0), 0), ((1,), 0)], ids=str)
def test_sizes_of_nothing(shape: tuple[int, ...], axis: int) -> None:
    _check(shape, axis, Target.host())


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_random_sums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 8, 17, 40], int(rng.integers(1, 4))))
    kind = NUMBER_KINDS[int(rng.integers(len(NUMBER_KINDS)))]
    axis = int(rng.integers(len(shape)))
    _check(shape, axis, TARGETS[seed % 3], kind, exclusive=seed % 2 == 1, reverse=seed % 4 > 1)
