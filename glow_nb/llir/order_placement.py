"""From the placement of a program for the sizes of the example to one for all sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from glow_nb.base.alignment import ALIGNMENT
from glow_nb.base.placement_order import PlacementOrder
from glow_nb.llir.allocate import Problem, ranges_of
from glow_nb.llir.program import Arena, Program
from glow_nb.llir.with_sizes import Sizing, symbols_of_program, with_sizes


def placement_order(program: Program) -> PlacementOrder:
    """Return the order in which the activations of an allocated *program* are placed."""
    assert program.arena is not None
    ranges = ranges_of(program)
    offsets = program.arena.offsets
    buffers = list(program.activations)
    order = sorted(range(len(buffers)), key=lambda n: (offsets[buffers[n]], n))
    before = []
    for rank, number in enumerate(order):
        own = ranges[buffers[number]]
        others = ((other, ranges[buffers[other]]) for other in order[:rank])
        before.append(tuple(n for n, o in others if o.start < own.end and own.start < o.end))
    sizes = tuple(buffer.type.size_bytes for buffer in buffers)
    return PlacementOrder(sizes, tuple(order), tuple(before))


def placed_for(program: Program, sizes: Mapping[str, int]) -> Program:
    """Return an allocated *program* for *sizes*, placed as a run with these sizes places it."""
    sizing = Sizing(lambda size: size.at(sizes))  # type: ignore[attr-defined]
    buffers = program.activations
    offsets, end = placement_order(program).at(sizes)
    static = with_sizes(program, sizes, sizing)
    places = {
        sizing.buffer(buffer): offset for buffer, offset in zip(buffers, offsets, strict=True)
    }
    bound = Problem(tuple(ranges_of(static).values()), ALIGNMENT).lower_bound
    return dataclasses.replace(static, arena=Arena(places, end, bound))


def program_at_hints(program: Program) -> Program:
    """Return *program* for the sizes of the example; itself if its sizes are numbers."""
    symbols = symbols_of_program(program)
    if not symbols:
        return program
    hints = {symbol.name: symbol.hint for symbol in symbols}
    return with_sizes(program, hints) if program.arena is None else placed_for(program, hints)
