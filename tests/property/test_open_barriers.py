"""Programs with open sizes wait wherever memory may be shared, for all sizes and placements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.backends.cpu.constant_block import ConstantBlock
from glow_nb.backends.cpu.planned_calls import places_of, used_weights
from glow_nb.base.size import Symbol
from glow_nb.codegen.hazards import Access, plan_barriers
from glow_nb.llir.order_placement import placed_for
from glow_nb.llir.program import Program
from glow_nb.llir.with_sizes import guards_of
from glow_nb.network.compilation import build_program, lower_for
from tests.property.test_open_sizes import STEPS, Step, function_of

Calls = list[list[Access]]


@dataclass(frozen=True)
class Tensor:
    """An activation: the calls that touch it, the first of which writes it, and its length."""

    calls: tuple[int, ...]
    spare: tuple[int, int]
    length: int

    @property
    def lives(self) -> tuple[int, int]:
        """Steps before and after each call: it may live longer than it is used."""
        before, after = self.spare
        return 10 * self.calls[0] - before, 10 * self.calls[-1] + 1 + after

    def modes(self) -> dict[int, str]:
        return {call: "in" if call > self.calls[0] else "out" for call in self.calls}


TENSORS = st.lists(
    st.builds(
        Tensor,
        st.sets(st.integers(0, 7), min_size=1, max_size=3).map(lambda calls: tuple(sorted(calls))),
        st.tuples(st.integers(0, 9), st.integers(0, 9)),
        st.integers(1, 5),
    ),
    min_size=3,
    max_size=8,
)


def _laid(tensors: Sequence[Tensor], order: Sequence[int]) -> list[int]:
    """Return offsets: each tensor in *order* at the lowest place that is free while it lives."""
    offsets: dict[int, int] = {}
    for number in order:
        own = tensors[number]
        offset = 0
        for n, at in sorted(offsets.items(), key=lambda item: item[1]):
            other = tensors[n]
            live_together = own.lives[0] < other.lives[1] and other.lives[0] < own.lives[1]
            if live_together and at < offset + own.length and offset < at + other.length:
                offset = at + other.length
        offsets[number] = offset
    return [offsets[number] for number in range(len(tensors))]


def _check(opened: Calls, placed: Calls, alone: Sequence[bool]) -> None:
    """Check that barriers planned for *opened* part what conflicts in *placed*."""
    plan = plan_barriers(opened, alone)
    for later, accesses in enumerate(placed):
        for earlier in range(later):
            for one in placed[earlier]:
                for other in accesses:
                    writes = "in" not in (one.mode, other.mode) or one.mode != other.mode
                    if writes and one.overlap(other):
                        is_one_thread = alone[earlier] and alone[later]
                        assert is_one_thread or any(plan[earlier + 1 : later + 1]), (one, other)


@settings(max_examples=20 * settings().max_examples)
@given(TENSORS, st.lists(st.booleans(), min_size=8, max_size=8), st.randoms(use_true_random=False))
def test_memory_that_may_have_been_freed_is_waited_for(
    tensors: list[Tensor], alone: list[bool], random: object
) -> None:
    order = list(range(len(tensors)))
    random.shuffle(order)  # type: ignore[attr-defined]
    offsets = _laid(tensors, order)
    opened: Calls = [[] for _ in range(8)]
    placed: Calls = [[] for _ in range(8)]
    for number, tensor in enumerate(tensors):
        for call, mode in tensor.modes().items():
            own = Access(number, 0, tensor.length, mode, lives=tensor.lives)  # type: ignore[arg-type]
            opened[call].append(own)
            begin = offsets[number]
            at = replace(own, space="arena", begin=begin, end=begin + tensor.length, lives=None)
            placed[call].append(at)
    _check(opened, placed, alone)


def _accesses(program: Program) -> Calls:
    places = places_of(program, ConstantBlock(used_weights(program)).places, 0)
    return [
        [o.access for o in places.regions(one) if o.space != "constants" or o.memory]
        for one in program.work
    ]


@given(
    st.lists(STEPS, min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(3, 6), st.integers(3, 40)), min_size=1, max_size=3),
    st.lists(st.booleans(), min_size=64, max_size=64),
)
def test_an_open_program_waits_where_that_of_any_sizes_does(
    steps: list[Step], drawn: list[tuple[int, int]], alone: list[bool]
) -> None:
    backend = CpuBackend()
    opened = function_of(steps, Symbol("batch", 4, 3, 64).size, Symbol("length", 8, 3, 512).size)
    program = build_program(lower_for(opened, backend), backend)
    calls = _accesses(program)
    guards = guards_of(program)
    for batch, length in drawn:
        if not all(guard.holds({"batch": batch, "length": length}) for guard in guards):
            continue
        placed = _accesses(placed_for(program, {"batch": batch, "length": length}))
        _check(calls, placed, alone[: len(calls)])
