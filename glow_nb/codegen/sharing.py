"""Which calls of a program threads share, and how many threads: planned by estimated times.

A call that all threads share waits at a barrier for those that it depends on, and its data come
from the caches of other cores. A call that one thread makes alone, after others that the same
thread made alone, waits for nothing. So a short call is shared only if that saves more than it
costs, and a program that is short as a whole is run by one thread.

The prices are nanoseconds of :class:`glow_nb.kernels.machine.threads.Threads`;
``experiments/benchmarks/sharing.py`` measures those of sharing on the machine at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glow_nb.base.costs import InstructionCost
from glow_nb.kernels.machine.machine import Machine


@dataclass(frozen=True)
class Sharing:
    """Who makes the calls of a program.

    Attributes:
        threads: The number of threads.
        alone: For each call, whether one of them makes it alone.
    """

    threads: int
    alone: tuple[bool, ...]


def estimate_ns(cost: InstructionCost, machine: Machine, lanes: int, passes: int = 1) -> float:
    """Return about how long one thread takes for a kernel of *cost*, beside ``call_ns``.

    Its vectors have *lanes* lanes, one if it works on one element after the other, and go
    *passes* times through the units that multiply and add.
    """
    multiply_add_ns = passes * machine.multiply_add_ns
    vectors = (
        multiply_add_ns * cost.executed.multiply_adds + machine.other_ns * cost.executed.others
    )
    return vectors / lanes + machine.byte_ns * cost.bytes


def plan_sharing(
    work_ns: Sequence[float], waits: Sequence[bool], threads: int, machine: Machine
) -> Sharing:
    """Return who makes the calls of a program, of at most *threads* threads.

    Args:
        work_ns: For each call, how long one thread takes for what threads can share.
        waits: For each call, whether a barrier stands before it if all are shared.
        threads: The largest number of threads; half of it, a quarter and so on are tried, too.
        machine: The cost of calls and barriers.
    """
    best, least = (
        Sharing(1, (True,) * len(work_ns)),
        sum(work_ns) + machine.call_ns * len(work_ns),
    )
    while threads > 1:
        sharing, total = _plan_for(work_ns, waits, threads, machine)
        if total < least:
            best, least = sharing, total
        threads //= 2
    return best


def _plan_for(
    work_ns: Sequence[float], waits: Sequence[bool], threads: int, machine: Machine
) -> tuple[Sharing, float]:
    """Return the fastest choice for a number of *threads*, and its estimated time.

    The times up to each call are known for both choices; each follows the faster of the
    two choices for the call before. A barrier is paid for where one of the two is shared.
    """
    barrier = machine.barrier_ns + machine.barrier_thread_ns * threads
    lone, shared = machine.start_ns, machine.start_ns
    came_from: list[tuple[bool, bool]] = []  # whether the call before is alone, for each choice
    for work, must_wait in zip(work_ns, waits, strict=True):
        wait = barrier if must_wait else 0.0
        came_from.append((lone <= shared + wait, lone + barrier <= shared + wait))
        lone, shared = (
            min(lone, shared + wait) + machine.call_ns + work,
            min(lone + barrier, shared + wait) + machine.call_ns + work / threads,
        )
    alone, is_alone = [], lone <= shared
    for if_alone, if_shared in reversed(came_from):
        alone.append(is_alone)
        is_alone = if_alone if is_alone else if_shared
    return Sharing(threads, tuple(reversed(alone))), min(lone, shared)
