"""Pools over windows of every rank against their operators."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.plan import Plan
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.cpu_kernels import generate_kernel, planned
from glow_nb.kernels.machine.machine import Machine
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.pooling import AvgPoolInst, MaxPoolInst, MaxPoolWithArgmaxInst
from glow_nb.llir.program import Buffer, Instruction, View
from tests.in_turn import each_with_one_width, in_turn, left_out, one_in
from tests.unit.kernels.cases import COMPUTED, check, instruction_of

FLOAT32 = ElementKind.FLOAT32
TARGETS = [Target.host(lanes) for lanes in LANE_COUNTS]
POOLS: list[tuple[type[Instruction], dict[str, Any]]] = [
    (MaxPoolInst, {}),
    (AvgPoolInst, {"count_padding": False}),
    (AvgPoolInst, {"count_padding": True}),
    (MaxPoolWithArgmaxInst, {"column_major": False}),
    (MaxPoolWithArgmaxInst, {"column_major": True}),
]


def _pool(
    pool: tuple[type[Instruction], dict[str, Any]],
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    pads: tuple[int, ...],
    dilation: tuple[int, ...] | None = None,
    kind: ElementKind = FLOAT32,
    **more: Any,
) -> Instruction:
    return instruction_of(
        pool[0],
        [TensorType(kind, shape)],
        kernel=kernel,
        stride=stride,
        pads=pads,
        dilation=dilation or (1,) * len(kernel),
        **pool[1],
        **more,
    )


WINDOWS: list[tuple[Any, ...]] = [
    ((2, 9, 11, 37), (3, 3), (2, 2), (1, 1, 1, 1)),
    ((1, 8, 8, 3), (2, 2), (2, 2), (0, 0, 0, 0)),
    ((1, 5, 7, 70), (5, 5), (1, 1), (2, 2, 2, 2)),  # those with many taps by dimensions
    ((2, 19, 17, 13), (9, 7), (1, 2), (4, 3, 4, 3)),
    ((1, 23, 40), (13,), (1,), (6, 6)),
    ((2, 20, 9), (3,), (2,), (0, 1)),
    ((1, 4, 5, 6, 10), (2, 3, 2), (1, 2, 2), (1, 0, 1, 0, 2, 1)),
    ((1, 12, 12, 8), (3, 2), (2, 1), (0, 1, 3, 1), (2, 3)),
    ((0, 4, 4, 5), (2, 2), (1, 1), (0, 0, 0, 0)),
]
SMALL = ((1, 6, 6, 21), (2, 2), (2, 2), (1, 1, 0, 0))
CASES = [*itertools.product(POOLS, WINDOWS)]
NUMBERS = [kind for kind in COMPUTED if kind is not ElementKind.BOOL]


@pytest.mark.jit
@pytest.mark.parametrize(("case", "lanes"), each_with_one_width(CASES, slow=left_out(6, CASES)))
def test_pool_gives_what_its_operator_gives(case: tuple[Any, Any], lanes: int) -> None:
    """The default run has each pool with a window or two."""
    pool, window = case
    specials = "Max" in pool[0].__name__
    check(_pool(pool, *window), Target.host(lanes), ulp=8, absolute=1e-6, specials=specials)


@pytest.mark.jit
@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: f"{pool[0].__name__}{pool[1]}")
def test_window_in_padding_alone(pool: Any) -> None:
    instruction = _pool(pool, (1, 3, 3, 5), (2, 2), (1, 1), (3, 0, 0, 3))
    check(instruction, Target.host())


@pytest.mark.jit
@pytest.mark.parametrize("uncounted", [(1, 0), (1, 1)])
def test_cells_added_by_rounding_up_do_not_count(uncounted: tuple[int, int]) -> None:
    pool = (AvgPoolInst, {"count_padding": True, "uncounted": uncounted})
    check(_pool(pool, (1, 6, 6, 8), (3, 3), (2, 2), (1, 1, 2, 1)), Target.host(), specials=False)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "pool"),
    in_turn(NUMBERS, [POOLS[0], POOLS[3]], slow=left_out(4, NUMBERS, always=[FLOAT32])),
)
def test_numbers_of_every_kind_have_a_largest(
    kind: ElementKind, pool: tuple[type[Instruction], dict[str, Any]]
) -> None:
    """The default run has floats of two sizes and bytes with and without a sign."""
    check(_pool(pool, *SMALL, kind=kind), Target.host())


@pytest.mark.jit
@pytest.mark.parametrize("kind", [kind for kind in COMPUTED if kind.is_float])
def test_floats_of_every_kind_have_a_mean(kind: ElementKind) -> None:
    check(_pool(POOLS[1], *SMALL, kind=kind), Target.host(), specials=False, absolute=1e-6)


SEPARABLE = [
    ((1, 7, 9, 6), (5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    ((2, 20, 11, 5), (3, 4), (1, 2), (3, 4, 4, 0), (4, 2)),
    ((1, 6, 5, 7, 9), (3, 3, 3), (1, 2, 1), (1, 0, 1, 1, 2, 1), (1, 1, 1)),
    ((1, 3, 3, 5), (4, 4), (1, 1), (7, 5, 6, 8), (1, 1)),  # the padding is larger than the window
    ((3, 12, 4, 8), (1, 4), (1, 3), (0, 2, 0, 3), (1, 1)),
    ((1, 9, 3), (7,), (3,), (5, 6), (1,)),
]


ROWS_OF_ONE_CHANNEL = [
    ((2, 9, 19, 1), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    ((3, 45, 1), (13,), (1,), (6, 6), (1,)),
    ((2, 5, 6, 21, 1), (2, 3, 2), (1, 2, 2), (1, 0, 1, 0, 2, 1), (1, 1, 1)),
    ((1, 18, 20, 1), (11, 9), (1, 1), (5, 4, 5, 4), (1, 1)),
    ((2, 7, 30, 1), (2, 3), (3, 3), (0, 1, 0, 2), (2, 4)),
    ((2, 8, 10, 1), (3, 1), (1, 1), (1, 0, 1, 0), (1, 1)),
    ((2, 3, 23, 1), (1, 4), (1, 2), (0, 9, 0, 5), (1, 1)),
]
IN_ROWS = [*itertools.product(POOLS[:3], ROWS_OF_ONE_CHANNEL)]


@pytest.mark.jit
@pytest.mark.parametrize(
    ("case", "lanes"),
    each_with_one_width(IN_ROWS, slow=left_out(4, IN_ROWS)),
)
def test_rows_of_one_channel_give_what_their_operator_gives(
    case: tuple[Any, Any], lanes: int
) -> None:
    """Vectors are windows side by side."""
    pool, window = case
    target = Target.host(lanes)
    instruction = planned(_pool(pool, *window), target)
    assert instruction.plan is not None
    check(instruction, target, ulp=8, absolute=1e-6, specials=pool[0] is MaxPoolInst)


def _separable(pool: Any, window: tuple[Any, ...], scans: bool, rows: int) -> Instruction:
    dilation, rank = window[-1], len(window[-1]) - (window[0][-1] == 1)
    axes = tuple(axis for axis, step in enumerate(dilation[:rank]) if step == 1 and scans)
    instruction = _pool(pool, *window)
    plan = Plan.of("separable", rows=rows, lanes=4, scans=axes)
    return dataclasses.replace(instruction, plan=plan)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("window", "pool"), in_turn(SEPARABLE, [POOLS[0], POOLS[2]], slow=left_out(2, SEPARABLE))
)
def test_dimension_after_dimension_gives_what_the_taps_give(pool: Any, window: Any) -> None:
    """Channels are left over, rows are cut into parts, and specials meet in a maximum."""
    number = SEPARABLE.index(window)
    instruction = _separable(pool, window, scans=number != 2, rows=1 + number % 3)
    is_max = pool[0] is MaxPoolInst
    check(instruction, Target.host(), ulp=8, absolute=1e-6, specials=is_max)


@pytest.mark.jit
@pytest.mark.parametrize("kind", one_in(4, [kind for kind in NUMBERS if kind is not FLOAT32]))
def test_scans_take_numbers_of_every_kind(kind: ElementKind) -> None:
    """The sums of 16-bit floats are rounded once, in the end."""
    window = ((1, 11, 9, 5), (7, 6), (1, 1), (3, 2, 3, 3))
    pool = POOLS[1] if kind.is_float else POOLS[0]
    instruction = _pool(pool, *window, kind=kind)
    planned_one = planned(instruction, Target.host())
    assert planned_one.plan is not None and planned_one.plan.sizes("scans") == (1, 0)
    check(instruction, Target.host(), specials=not kind.is_float, absolute=1e-6, ulp=1)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_many_taps_become_one_dimension_after_the_other_on_every_processor(row: Machine) -> None:
    target = Target.of(row)
    few = _pool(POOLS[0], (1, 56, 56, 64), (3, 3), (2, 2), (1, 1, 1, 1))
    assert planned(few, target).plan is None
    many = planned(_pool(POOLS[0], (1, 56, 56, 64), (13, 13), (1, 1), (6,) * 4), target)
    assert many.plan is not None and many.plan.sizes("scans") == (1, 0)
    scratch = generate_kernel(many, target).scratch_bytes
    assert 0 < scratch <= row.l2_bytes * row.l2_share


@pytest.mark.parametrize("channels", [1, 8])
def test_one_row_that_the_cache_has_no_room_for_is_a_part(channels: int) -> None:
    """Rows that windows leave out let parts lie apart, however few rows each has."""
    pool = _pool(POOLS[0], (1, 9, 40, 40, channels), (1, 9, 9), (2, 1, 1), (0,) * 6)
    plan = planned(pool, Target.of(ROWS["zen3"]).with_machine(l2_bytes=1 << 11)).plan
    assert plan is not None
    assert plan.rows == 1


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"lanes": 3}, "lanes = 3 must be a power of two"),
        ({"scans": (2,)}, "must be dimensions without dilation"),
        ({"rows": 9}, "'rows' must be a whole number from 1 to 4"),
    ],
)
def test_plan_that_no_pool_has_is_refused(settings: dict[str, Any], says: str) -> None:
    instruction = _pool(POOLS[0], (1, 4, 4, 8), (3, 3), (1, 1), (1, 1, 1, 1))
    plan = Plan.of("separable", rows=4, lanes=4, scans=()).updated(**settings)
    with pytest.raises(UnsupportedError, match=says):
        generate_kernel(dataclasses.replace(instruction, plan=plan), Target.host())


@pytest.mark.jit
def test_nan_wins_wherever_it_stands() -> None:
    instruction = _pool(POOLS[0], (9, 3, 3, 1), (3, 3), (1, 1), (0, 0, 0, 0))
    images = np.random.default_rng(0).standard_normal((9, 3, 3, 1)).astype(np.float32)
    for place in range(9):
        images[place].flat[place] = np.nan
    check(instruction, Target.host(), operands=[images])


def test_channels_must_lie_side_by_side() -> None:
    whole = Buffer("whole", TensorType(FLOAT32, (1, 4, 4, 10)))
    steps = (160, 40, 10, 2)
    view = View("view", TensorType(FLOAT32, (1, 4, 4, 5)), base=whole, steps=steps)
    dest = Buffer("dest", TensorType(FLOAT32, (1, 4, 4, 5)))
    pool = MaxPoolInst(dest, view, kernel=(1, 1), stride=(1, 1), pads=(0, 0, 0, 0), dilation=(1, 1))
    with pytest.raises(UnsupportedError, match="2 elements apart"):
        generate_kernel(pool, Target.host())


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(150))
def test_random_windows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    kernel, stride, dilation = (
        tuple(int(n) for n in rng.integers(1, limit, rank)) for limit in (5, 4, 3)
    )
    pads = tuple(int(n) for n in rng.integers(0, 3, 2 * rank))
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    spatial = tuple(span + int(rng.integers(0, 6)) for span in spans)
    shape = (int(rng.integers(1, 3)), *spatial, int(rng.choice([1, 3, 8, 17, 40])))
    pool = POOLS[seed % len(POOLS)]
    target = TARGETS[int(rng.integers(3))]
    is_max = pool[0] is not AvgPoolInst
    instruction = _pool(pool, shape, kernel, stride, pads, dilation)
    if seed % 2 and pool[0] is not MaxPoolWithArgmaxInst:
        window = (shape, kernel, stride, pads, dilation)
        instruction = _separable(pool, window, scans=seed % 4 == 1, rows=1)
    check(instruction, target, ulp=8, absolute=1e-5, specials=is_max)
