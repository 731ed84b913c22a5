"""The k extremes of each line against their operator: order, ties and NaN."""

import numpy as np
import pytest

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.ops.families import NUMBERS
from glow_nb.kernels.registry import planned
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.reduction import TopKInst
from tests.in_turn import in_turn, left_out, one_in
from tests.unit.kernels.cases import check, instruction_of, random_array

NUMBER_KINDS = [kind for kind in ElementKind if kind in NUMBERS]


def _check(
    shape: tuple[int, ...],
    k: int,
    axis: int,
    kind: ElementKind = ElementKind.FLOAT32,
    *,
    largest: bool = True,
) -> None:
    type = TensorType(kind, shape)
    instruction = instruction_of(TopKInst, [type], k=k, axis=axis, largest=largest)
    rng = np.random.default_rng(k)
    repeating = rng.integers(0, 5, shape).astype(kind.dtype)
    ties = np.sort(repeating, axis=axis)
    places = np.arange(shape[axis]).reshape(-1, *(1,) * (len(shape) - axis - 1))
    rising = np.broadcast_to(places, shape).astype(kind.dtype)
    orders = (ties, np.flip(ties, axis), rising, np.flip(rising, axis))
    for numbers in (random_array(rng, type), repeating, *map(np.ascontiguousarray, orders)):
        check(instruction, Target.host(), operands=[numbers], ulp=0)


def _algorithm(shape: tuple[int, ...], k: int, axis: int) -> str:
    type = TensorType(ElementKind.FLOAT32, shape)
    plan = planned(instruction_of(TopKInst, [type], k=k, axis=axis), Target.host()).plan
    assert plan is not None
    return plan.algorithm


@pytest.mark.jit
@pytest.mark.parametrize("largest", [True, False], ids=["largest", "smallest"])
@pytest.mark.parametrize(
    ("shape", "k", "axis"),
    [
        ((5, 40), 7, 1),
        ((3, 20, 6), 20, 1),
        ((30, 2), 1, 0),
        ((4, 3), 0, 1),
        ((0, 3), 2, 1),
        ((1,), 1, 0),
    ],
    ids=str,
)
def test_extremes_in_order(shape: tuple[int, ...], k: int, axis: int, largest: bool) -> None:
    _check(shape, k, axis, largest=largest)


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(4, NUMBER_KINDS, first=1, always=[ElementKind.FLOAT32]))
def test_every_kind(kind: ElementKind) -> None:
    _check((4, 19), 5, 1, kind)
    _check((19, 4), 5, 0, kind, largest=False)


def test_few_are_inserted_and_many_are_sorted() -> None:
    assert _algorithm((1, 100_000), 1, 1) == _algorithm((64, 5000), 20, 1) == "insertion"
    assert _algorithm((200, 64), 8, 0) == _algorithm((200, 2), 1, 0) == "lane_insertion"
    assert _algorithm((1, 100_000), 1000, 1) == _algorithm((8, 3000), 2500, 1) == "radix_sort"


SORTED = {
    "in one sort": ((2, 300), 290, 1),
    "in several sorts": ((2, 5003), 300, 1),
    "side by side": ((2003, 2), 260, 0),
}


@pytest.mark.jit
@pytest.mark.parametrize(("name", "largest"), in_turn(SORTED, [True, False]))
def test_sorted_candidates(name: str, largest: bool) -> None:
    shape, k, axis = SORTED[name]
    assert _algorithm(shape, k, axis) == "radix_sort"
    _check(shape, k, axis, largest=largest)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "largest"),
    in_turn(
        NUMBER_KINDS,
        [True, False],
        slow=left_out(4, NUMBER_KINDS, first=2, always=[ElementKind.FLOAT64]),
    ),
)
def test_every_kind_has_keys_in_its_order(kind: ElementKind, largest: bool) -> None:
    _check((2, 2003), 260, 1, kind, largest=largest)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("kind", NUMBER_KINDS)
def test_every_kind_is_sorted_whole(kind: ElementKind) -> None:
    _check((1, 300), 300, 1, kind, largest=False)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "largest"),
    in_turn(
        NUMBER_KINDS,
        [True, False],
        slow=left_out(4, NUMBER_KINDS, first=3, always=[ElementKind.FLOAT32]),
    ),
)
def test_several_lines_at_a_time(kind: ElementKind, largest: bool) -> None:
    _check((2, 70, 37), 5, 1, kind, largest=largest)
    _check((70, 3), 1, 0, kind, largest=largest)


@pytest.mark.jit
@pytest.mark.parametrize("largest", [True, False], ids=["largest", "smallest"])
def test_vectors_that_no_element_enters_are_passed(largest: bool) -> None:
    _check((3, 1001), 3, 1, largest=largest)
    _check((3, 1001), 1, 1, ElementKind.FLOAT16, largest=largest)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("k_and_axis", "largest"), in_turn([(2, 1), (300, 1), (2, 0)], [True, False])
)
def test_all_nan_and_all_zeros_are_equal(k_and_axis: tuple[int, int], largest: bool) -> None:
    k, axis = k_and_axis
    rng = np.random.default_rng(k)
    numbers = rng.choice(np.array([0.0, -0.0, np.nan, -np.nan], np.float32), (2, 2000))
    numbers = numbers if axis else np.ascontiguousarray(numbers.reshape(200, 20))
    type = TensorType(ElementKind.FLOAT32, numbers.shape)
    instruction = instruction_of(TopKInst, [type], k=k, axis=axis, largest=largest)
    check(instruction, Target.host(), operands=[numbers], ulp=0)
    check(instruction, Target.host(), operands=[np.full_like(numbers, np.nan)], ulp=0)
