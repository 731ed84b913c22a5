"""Placements never overlap, meet the lower bound where they can, and are found fast."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.errors import GlowError, VerifyError
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.llir import allocate as allocator
from glow_nb.llir.allocate import LiveRange, Placement, Problem, allocate, place
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Activation, Alloc, Bound, Dealloc, Program

ReluInst = instruction_for(ops.Relu)

RANGES = st.lists(
    st.builds(
        lambda start, length, size: LiveRange(start, start + length, size),
        st.integers(-5, 30),
        st.integers(1, 12),
        st.integers(0, 500),
    ),
    max_size=40,
)
ALIGNMENTS = st.sampled_from((1, 16, 64))


def rounded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def check_placement(ranges: Sequence[LiveRange], placement: Placement, alignment: int) -> None:
    """Check by comparing every pair of ranges."""
    spans = [
        (r, offset, offset + rounded(r.size_bytes, alignment))
        for r, offset in zip(ranges, placement.offsets, strict=True)
    ]
    for index, (left, begin, end) in enumerate(spans):
        assert begin % alignment == 0
        assert 0 <= begin <= end <= placement.size_bytes
        for right, other_begin, other_end in spans[:index]:
            is_apart = left.end <= right.start or right.end <= left.start
            assert is_apart or end <= other_begin or other_end <= begin or begin == end


def largest_live_sum(ranges: Sequence[LiveRange], alignment: int) -> int:
    steps = {r.start for r in ranges}
    return max(
        (
            sum(rounded(r.size_bytes, alignment) for r in ranges if r.start <= step < r.end)
            for step in steps
        ),
        default=0,
    )


@given(RANGES, ALIGNMENTS)
def test_live_ranges_never_overlap(ranges: list[LiveRange], alignment: int) -> None:
    placement = place(ranges, alignment=alignment)
    check_placement(ranges, placement, alignment)
    assert placement.lower_bound_bytes == largest_live_sum(ranges, alignment)
    assert placement.lower_bound_bytes <= placement.size_bytes
    assert placement.size_bytes <= sum(rounded(r.size_bytes, alignment) for r in ranges)


@given(RANGES, st.sampled_from(allocator.ORDERS))
def test_every_order_places_every_range_once(ranges: list[LiveRange], order: object) -> None:
    assert callable(order)
    assert sorted(order(Problem(ranges, 64)).tolist()) == list(range(len(ranges)))


@given(RANGES)
def test_no_order_is_better_than_the_result(ranges: list[LiveRange]) -> None:
    problem = Problem(ranges, 64)
    sizes = [problem.attempt(order(problem)).size for order in allocator.ORDERS]
    assert place(ranges).size_bytes <= min(sizes)


def test_first_fit_takes_the_lowest_gap_that_is_large_enough() -> None:
    ranges = [LiveRange(0, 1, 64), LiveRange(0, 9, 64), LiveRange(0, 1, 192), LiveRange(0, 9, 64)]
    problem = Problem([*ranges, LiveRange(2, 9, 128), LiveRange(3, 9, 64)], 64)
    attempt = problem.attempt(allocator.in_program_order(problem))
    assert attempt.offsets.tolist() == [0, 64, 128, 320, 128, 0]


def test_ranges_that_do_not_meet_share_memory() -> None:
    placement = place([LiveRange(i, i + 1, 100) for i in range(5)])
    assert placement == Placement((0,) * 5, 128, 128)


def test_an_end_is_excluded() -> None:
    assert place([LiveRange(0, 2, 64), LiveRange(1, 3, 64)]).size_bytes == 128
    assert place([LiveRange(0, 2, 64), LiveRange(2, 3, 64)]).size_bytes == 64


NEEDED: dict[object, list[tuple[int, int, int]]] = {
    allocator.in_program_order: [(0, 1, 2), (1, 3, 1), (2, 4, 1)],
    allocator.by_fullest_step_and_size: [(0, 3, 3), (1, 2, 4), (2, 5, 3), (2, 6, 3), (4, 7, 4)],
    allocator.by_fullest_step_and_lifetime: [(0, 3, 2), (1, 2, 3), (2, 5, 3), (4, 7, 4)],
    allocator.by_size: [
        *((0, 4, 7), (3, 5, 7), (4, 8, 9), (7, 11, 8)),
        *((8, 9, 8), (8, 10, 2), (9, 10, 3), (9, 13, 3)),
    ],
    allocator.by_area: [(1, 5, 2), (3, 4, 4), (4, 8, 1), (6, 7, 4)],
    allocator.by_lifetime: [
        *((0, 4, 2), (1, 2, 4), (1, 4, 2)),
        *((3, 6, 2), (5, 7, 3), (5, 7, 4)),
    ],
}
"""For each order lifetimes (start, end, size) that no order before it places as well."""


@pytest.mark.parametrize("index", range(len(allocator.ORDERS)))
def test_every_order_is_needed(index: int) -> None:
    order, others = allocator.ORDERS[index], allocator.ORDERS[:index]
    live = [LiveRange(start, end, 64 * size) for start, end, size in NEEDED[order]]
    problem = Problem(live, 64)
    size = problem.attempt(order(problem)).size
    for other in others:
        assert size < problem.attempt(other(problem)).size
    assert place(live).size_bytes <= size


def test_repairs_meet_the_bound_where_no_order_does() -> None:
    lifetimes = [(0, 1, 4), (2, 7, 2), (3, 4, 4), (4, 9, 2), (7, 8, 4)]
    live = [LiveRange(start, end, 64 * size) for start, end, size in lifetimes]
    problem = Problem(live, 64)
    sizes = [problem.attempt(order(problem)).size for order in allocator.ORDERS]
    assert min(sizes) > problem.lower_bound
    assert place(live).size_bytes == problem.lower_bound


def test_trying_stops_at_the_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(problem: Problem) -> allocator.Integers:
        raise AssertionError(problem)

    monkeypatch.setattr(allocator, "ORDERS", (allocator.in_program_order, fail))
    assert place([LiveRange(0, 1, 64)]).size_bytes == 64


def test_nothing_takes_nothing() -> None:
    assert place([]) == Placement((), 0, 0)
    assert place([LiveRange(0, 3, 0)]) == Placement((0,), 0, 0)


@pytest.mark.parametrize(("start", "end", "size"), [(1, 1, 4), (2, 1, 4), (0, 1, -1)])
def test_impossible_ranges_are_refused(start: int, end: int, size: int) -> None:
    with pytest.raises(GlowError, match="must end after its start"):
        LiveRange(start, end, size)


def test_a_large_network_is_placed_fast() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.choice([1, 2, 3, 20], 800)
    sizes = rng.integers(1, 1_000_000, 800)
    ranges = [LiveRange(i, i + int(lengths[i]), int(sizes[i])) for i in range(800)]
    seconds = min(_timed(ranges) for _ in range(3))
    assert seconds < 0.2


def _timed(ranges: list[LiveRange]) -> float:
    begin = time.process_time()
    place(ranges)
    return time.process_time() - begin


FOUR = TensorType(ElementKind.FLOAT32, (4,))
X, Y = Bound("x", FOUR), Bound("y", FOUR)
A, B, C = (Activation(name, FOUR) for name in "abc")


def test_a_program_is_placed_by_its_lifetimes() -> None:
    work = (
        *(Alloc(A), ReluInst(A, X), Alloc(B), ReluInst(B, A), Dealloc(A)),
        *(Alloc(C), ReluInst(C, B), Dealloc(B), ReluInst(Y, C), Dealloc(C)),
    )
    arena = allocate(Program("main", (), (X,), (Y,), work)).arena
    assert arena is not None
    assert (arena.size_bytes, arena.lower_bound_bytes) == (128, 128)
    assert arena.offsets[A] == arena.offsets[C] != arena.offsets[B]


def test_an_activation_without_end_is_refused() -> None:
    program = Program("main", (), (X,), (Y,), (Alloc(A), ReluInst(A, X)))
    with pytest.raises(VerifyError, match=r"never deallocated: \[%a\]"):
        allocate(program)


def test_an_allocator_may_place_an_empty_activation_anywhere() -> None:
    many = Activation("many", TensorType(ElementKind.FLOAT32, (32,)))
    none = Activation("none", TensorType(ElementKind.FLOAT32, (0,)))
    program = Program("main", (), (), (), (Alloc(many), Alloc(none), Dealloc(none), Dealloc(many)))
    arena = allocate(program, allocator=lambda ranges: [64, 0]).arena
    assert arena is not None
    assert (arena.offsets[none], arena.size_bytes) == (64, 128)
