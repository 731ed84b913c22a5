"""Values that may lie in memory which is counted already, since all that makes them is copies.

Where a copy is read at its old place, it takes no memory of its own. Then copies that overlap have
bytes in common, and one of a region that others see too lies in that, wherever that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import filterfalse

from glow_nb.llir.instructions.shape import CopyInst
from glow_nb.llir.overlaps import Overlaps
from glow_nb.llir.program import Buffer, Program, mutated
from glow_nb.llir.stack import members_of
from glow_nb.runtime.planning.moves import is_copy, own_copies


def aliased_regions(program: Program, crossing: Set[Buffer]) -> set[Buffer]:
    """Return the regions of values that may take no memory beside what else is counted.

    Some are copied by the kernel that makes them. Each other one is copied from one region: that
    is one of those, or goes between units, as *crossing* says; or another region is a copy of the
    same bytes.
    """
    overlapping = _overlapping(program)
    twice = {copy.src.root for instruction in program.work for copy in own_copies(instruction)}
    return twice | {
        target
        for target, sources in _sources(program).items()
        if len(sources) == 1
        and target not in sources
        and (target in overlapping or not sources.isdisjoint(crossing | twice))
    }


def _sources(program: Program) -> dict[Buffer, set[Buffer]]:
    """Return which regions each region is copied from; itself, if kernels compute it."""
    found: dict[Buffer, set[Buffer]] = {}
    for target, window in _copies(program):
        found.setdefault(target, set()).add(window.root)
    for instruction in filterfalse(is_copy, program.work):
        for member in filterfalse(own_copies(instruction).__contains__, members_of(instruction)):
            for buffer in mutated(member):
                found.setdefault(buffer.root, set()).add(buffer.root)
    return found


def _overlapping(program: Program) -> set[Buffer]:
    """Return the regions that may be copies of bytes of which there is another copy."""
    found: set[Buffer] = set()
    known: dict[Buffer, Overlaps[Buffer]] = {}
    for target, window in _copies(program):
        windows = known.setdefault(window.root, Overlaps())
        others = set(windows.overlapping(window)) - {target}
        if others:
            found |= {target, *others}
        windows.add(window, target)
    return found


def _copies(program: Program) -> Iterator[tuple[Buffer, Buffer]]:
    """Yield the region that each copy writes, and the window that it reads."""
    for instruction in program.work:
        members = members_of(instruction) if is_copy(instruction) else own_copies(instruction)
        for member in members:
            if isinstance(member, CopyInst):
                yield member.dest.root, member.src
