"""A network in parts computes what the whole does, bit for bit, wherever it is cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_nb.backends import Backend, backend_named
from glow_nb.backends.backend import Executable, StatefulExecutable
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function
from glow_nb.llir.program import Program
from glow_nb.network.compilation import build_program, lower_for
from glow_nb.runtime.planning.split import Splitter, placed_program, stacked_program
from glow_nb.runtime.planning.units import Units, units_of
from glow_nb.system.state_store import StateStore
from tests.property.random_graphs import feeds_of, functions
from tests.property.test_stacks import stacks

RUNS = 2
"""Runs in a row, the second one on the states that the first has left."""


def outputs_of(
    programs: Sequence[Program], backend: Backend, threads: int, feeds: Sequence[dict[str, Array]]
) -> list[dict[str, Array]]:
    """Return what *programs* make in order, each fed with what is there, for each of *feeds*."""
    made = [(p, backend.compile(p, threads=threads), StateStore(p.state)) for p in programs]
    found = []
    for fed in feeds:
        known = dict(fed)
        for program, executable, state in made:
            arrays = [np.ascontiguousarray(known[buffer.name]) for buffer in program.inputs]
            results = _run(executable, state, arrays)
            known.update(zip((b.name for b in program.outputs), results, strict=True))
        found.append(known)
    return found


def _run(executable: Executable, state: StateStore, arrays: list[Array]) -> list[Array]:
    if isinstance(executable, StatefulExecutable):
        return executable.run_on(state, arrays)
    return executable.run(arrays)


def draw_parts(units: Units, data: st.DataObject) -> list[list[int]]:
    """Draw an order of the units in which each comes behind what it reads, and cut it up."""
    count = len(units.units)
    order: list[int] = []
    while len(order) < count:
        ready = [n for n in range(count) if n not in order and units.before[n] <= set(order)]
        order.append(data.draw(st.sampled_from(ready)))
    cuts = data.draw(st.sets(st.integers(1, max(1, count - 1)), max_size=4))
    pairs = pairwise([0, *sorted(cuts), count])
    return [order[first:last] for first, last in pairs if order[first:last]]


@pytest.mark.jit
@pytest.mark.parametrize("name", ["interpreter", "cpu"])
@given(st.one_of(functions(max_nodes=14), stacks()), st.data())
@settings(max_examples=max(1, settings().max_examples // 10))
def test_parts_compute_the_same_bits(name: str, function: Function, data: st.DataObject) -> None:
    threads = data.draw(st.integers(1, 2))
    backend = backend_named(name, threads=threads)
    lowered = lower_for(function, backend)
    program = stacked_program(lowered, backend)
    units = units_of(program, backend.traits)
    splitter = Splitter(program)
    parts = []
    for drawn in draw_parts(units, data):
        numbers = [number for unit in drawn for number in units.units[unit].instructions]
        parts.append(placed_program(splitter.part(numbers, "part"), backend))
    whole = build_program(lowered, backend)
    feeds = [feeds_of(function, seed) for seed in range(RUNS)]
    expected = outputs_of([whole], backend, threads, feeds)
    for wanted, got in zip(expected, outputs_of(parts, backend, threads, feeds), strict=True):
        for output in whole.outputs:
            assert wanted[output.name].tobytes() == got[output.name].tobytes(), output.name
