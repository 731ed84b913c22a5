"""Which calls threads share, by given times; nothing here depends on how long anything takes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.costs import Cost, InstructionCost
from glow_nb.codegen.sharing import (
    Sharing,
    estimate_ns,
    plan_sharing,
)
from glow_nb.kernels.machine.rows import ZEN5

LONG, SHORT = 100_000.0, 100.0


def plan(work_ns: list[float], threads: int = 2) -> Sharing:
    """Return the plan for calls that depend on each other in a row."""
    return plan_sharing(work_ns, [number > 0 for number in range(len(work_ns))], threads, ZEN5)


def price(sharing: Sharing, work_ns: list[float], waits: list[bool]) -> float:
    """Return the time of a program, as the plan counts it."""
    if all(sharing.alone):
        return sum(work_ns) + ZEN5.call_ns * len(work_ns)
    barrier = ZEN5.barrier_ns + ZEN5.barrier_thread_ns * sharing.threads
    total, was_alone = ZEN5.start_ns, sharing.alone[0]
    for work, must_wait, alone in zip(work_ns, waits, sharing.alone, strict=True):
        starts_sharing = was_alone and not alone
        waits_for_shares = must_wait and not (was_alone and alone)
        total += barrier if starts_sharing or waits_for_shares else 0
        total += ZEN5.call_ns + (work if alone else work / sharing.threads)
        was_alone = alone
    return total


def test_an_empty_program_needs_one_thread() -> None:
    assert plan([]) == Sharing(1, ())


def test_one_thread_shares_nothing() -> None:
    assert plan([LONG], threads=1) == Sharing(1, (True,))


def test_a_long_call_is_shared() -> None:
    assert plan([LONG]) == Sharing(2, (False,))


def test_a_short_program_is_run_by_one_thread() -> None:
    assert plan([SHORT] * 10, threads=8) == Sharing(1, (True,) * 10)


def test_short_calls_between_long_ones_are_made_by_one_thread() -> None:
    sharing = plan([LONG, SHORT, SHORT, LONG])
    assert sharing == Sharing(2, (False, True, True, False))


def test_independent_short_calls_are_shared_with_long_ones() -> None:
    sharing = plan_sharing([LONG, SHORT, LONG], [False, False, False], 2, ZEN5)
    assert sharing == Sharing(2, (False, False, False))


def test_a_program_of_many_short_calls_takes_fewer_threads_than_there_are() -> None:
    barrier = ZEN5.barrier_ns + ZEN5.barrier_thread_ns * 64
    assert plan([barrier] * 200, threads=64).threads in (2, 4, 8, 16, 32)


@pytest.mark.parametrize("threads", [2, 3, 4, 16])
def test_more_work_is_never_run_by_fewer_threads(threads: int) -> None:
    used = [plan([work] * 5, threads).threads for work in (10.0, 1e3, 1e4, 1e5, 1e6)]
    assert used == sorted(used)
    assert used[-1] == threads


@given(
    st.lists(st.tuples(st.floats(0, 5000), st.booleans()), min_size=1, max_size=6),
    st.sampled_from([2, 3, 4]),
)
def test_no_other_plan_costs_less(calls: list[tuple[float, bool]], threads: int) -> None:
    work_ns, waits = [work for work, _ in calls], [False, *(wait for _, wait in calls[1:])]
    numbers = {threads, threads // 2} - {0, 1}
    plans = [
        Sharing(number, alone)
        for number in numbers
        for alone in itertools.product([True, False], repeat=len(calls))
    ]
    least = min(price(plan, work_ns, waits) for plan in plans)
    found = price(plan_sharing(work_ns, waits, threads, ZEN5), work_ns, waits)
    assert found <= least * (1 + 1e-9)


def test_work_and_bytes_take_time() -> None:
    product = InstructionCost(executed=Cost(multiply_adds=1 << 20), read_bytes=1 << 10)
    copy = InstructionCost(read_bytes=1 << 20, written_bytes=1 << 20)
    assert estimate_ns(InstructionCost(), ZEN5, 8) == 0
    assert estimate_ns(product, ZEN5, 8) > estimate_ns(product, ZEN5, 16) > 1000
    assert estimate_ns(copy, ZEN5, 8) == estimate_ns(copy, ZEN5, 16) > 1000
