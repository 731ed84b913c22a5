"""Gathers whose indices are known when kernels are written, against their operator."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.plan import Plan
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.kernels.cpu_kernels import generate_kernel, planned
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.form import form_of
from glow_nb.llir.instructions.gather import GatherInst
from glow_nb.llir.program import Buffer, Instruction, View, Weight
from tests.in_turn import one_in
from tests.unit.kernels.cases import check, instruction_of, random_array

FLOAT32, INT64 = ElementKind.FLOAT32, ElementKind.INT64
Shape = tuple[int, ...]


def _gather(
    shape: Shape, places: Array, axis: int, kind: ElementKind = FLOAT32, lanes: int = 8
) -> Instruction:
    """Return a planned gather with the constant indices *places*."""
    types = [TensorType(kind, shape), TensorType(ElementKind.of(places.dtype), places.shape)]
    bare: Any = instruction_of(GatherInst, types, axis=axis)
    known = replace(bare, indices=Weight("indices", types[1], payload=places))
    return planned(known, Target.host(lanes))


def _check(
    shape: Shape, places: Array, axis: int, kind: ElementKind = FLOAT32, lanes: int = 8
) -> None:
    instruction = _gather(shape, places, axis, kind, lanes)
    assert instruction.plan is not None and instruction.plan.algorithm == "pick"
    x = random_array(np.random.default_rng(3), instruction.input.type)  # type: ignore[attr-defined]
    check(instruction, Target.host(lanes), operands=[x, places], ulp=0)


CASES = [
    ((3, 56), np.arange(112) // 2, 1),  # every element twice
    ((2, 200), np.arange(600) // 3, 1),  # in a loop over periods of which the last overlaps
    ((2, 301), np.arange(602) // 2, 1),  # which are no whole vectors
    ((2, 1100), np.arange(550) * 2, 1),  # every second one
    ((2, 700), np.arange(700)[::-1].copy(), 1),  # backwards: an advance below zero
    ((3, 2, 37), np.random.default_rng(0).integers(-37, 37, 61), 2),  # from anywhere
    ((4, 90), np.array([3, -1, 2**40, -(2**40), 0]), 1),  # some lie outside
    ((5, 3), np.arange(21).reshape(3, 7) % 3, 1),  # an input shorter than a vector
    ((2, 1), np.zeros(70, np.int32), 1),  # an axis of one
    ((2, 9, 3), np.arange(27) // 3, 1),  # short rows
    ((4, 9), np.array(5), 1),  # one index, no axis left
]


@pytest.mark.jit
@pytest.mark.parametrize("number", one_in(3, range(len(CASES)), first=1))
@pytest.mark.parametrize("lanes", LANE_COUNTS)
def test_known_places_are_picked(number: int, lanes: int) -> None:
    _check(*CASES[number], lanes=lanes)


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(4, ElementKind, first=1))
def test_every_kind_is_picked(kind: ElementKind) -> None:
    _check((2, 40), np.arange(80) // 2, 1, kind)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_known_places(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, count, length = rng.integers(1, 400), rng.integers(1, 600), rng.integers(1, 4)
    period = rng.choice([d for d in range(1, count + 1) if count % d == 0])
    repeated = rng.integers(0, size, period)[None] + np.arange(count // period)[:, None]
    places = repeated.reshape(-1).clip(0, size - 1)
    kind = list(ElementKind)[seed % len(ElementKind)]
    lanes = LANE_COUNTS[seed % len(LANE_COUNTS)]
    shape = (3, int(size)) if length == 1 else (3, int(size), int(length))
    instruction = _gather(shape, places, 1, kind, lanes)
    x = random_array(rng, instruction.input.type)  # type: ignore[attr-defined]
    check(instruction, Target.host(lanes), operands=[x, places], ulp=0)


def test_a_plan_names_one_period() -> None:
    assert _gather((3, 56), np.arange(112) // 2, 1).plan == Plan.of(
        "pick", places=(0, 0), advance=1
    )


def test_places_are_part_of_the_form_and_contents_are_not() -> None:
    doubled, halved = (_gather((3, 56), p, 1) for p in (np.arange(28) // 2, np.arange(28) * 2))
    assert form_of(doubled) != form_of(halved)
    sources = [
        generate_kernel(replace(each, plan=None), Target.host(8)) for each in (doubled, halved)
    ]
    assert sources[0] == sources[1]


def test_a_part_of_a_constant_has_its_own_places() -> None:
    whole = Weight("whole", TensorType(INT64, (2, 8)), payload=np.arange(16).reshape(2, 8))
    part = View("part", TensorType(INT64, (8,)), base=whole, start=8)
    bare: Any = instruction_of(GatherInst, [TensorType(FLOAT32, (3, 20)), part.type], axis=1)
    plan = planned(replace(bare, indices=part), Target.host(8)).plan
    assert plan == Plan.of("pick", places=(8,), advance=1)


@pytest.mark.parametrize("count", [0, 4099])
def test_none_or_too_many_irregular_places_are_read(count: int) -> None:
    places = np.random.default_rng(0).integers(0, 20, count)
    assert _gather((3, 20), places, 1).plan is None


def test_long_rows_are_copied() -> None:
    assert _gather((3, 20, 8), np.arange(20), 1).plan is None


@pytest.mark.parametrize(
    ("places", "advance", "reason"),
    [
        ((0, 0), 2, "places outside of an axis of 56"),
        ((-1, 0), 1, "places outside"),
        ((0, 0, 0), 1, "3 places are no period of 112 indices"),
        ((), 1, "0 places are no period"),
        ((0, 0), 56, "'advance' must be"),
    ],
    ids=str,
)
def test_a_plan_of_other_places_is_refused(
    places: tuple[int, ...], advance: int, reason: str
) -> None:
    instruction = _gather((3, 56), np.arange(112) // 2, 1)
    wrong = replace(instruction, plan=Plan.of("pick", places=places, advance=advance))
    with pytest.raises(UnsupportedError, match=reason):
        generate_kernel(wrong, Target.host(8))


def test_fed_indices_have_no_plan() -> None:
    indices = Buffer("indices", TensorType(INT64, (3,)))
    bare: Any = instruction_of(GatherInst, [TensorType(FLOAT32, (3, 20)), indices.type], axis=1)
    assert planned(bare, Target.host(8)).plan is None
