"""A proof that a placement is right, which takes nothing from the allocator.

It reads lifetimes off the instructions that touch a buffer, itself or through views, and does not
believe ``alloc`` and ``dealloc``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from typing_extensions import override

from glow_nb.base.alignment import ALIGNMENT
from glow_nb.base.errors import VerifyError
from glow_nb.base.schema import operands_of
from glow_nb.base.size import hinted
from glow_nb.llir.program import Activation, Arena, Buffer, Program, is_marker


@dataclass(repr=False)
class Resident:
    """A buffer in the arena: bytes ``[begin, end)``, touched by instructions first to last."""

    buffer: Buffer
    begin: int
    end: int
    first: int
    last: int

    @override
    def __repr__(self) -> str:
        return (
            f"{self.buffer!r} in bytes [{self.begin}, {self.end}) "
            f"from instruction {self.first} to {self.last}"
        )


def check_placement(program: Program, *, alignment: int = ALIGNMENT) -> None:
    """Prove that no two activations of an allocated *program* overlap while both are needed.

    An activation is needed from the first to the last instruction that touches it, both included,
    so the operands of one instruction never overlap. Open sizes are those of the example.

    Raises:
        VerifyError: The program is not allocated; a buffer has no place, lies outside of the arena
            or not on a multiple of *alignment*; or two buffers overlap: names both, with the bytes
            they occupy and the instructions they live through, counted in ``program.instructions``.
    """
    if program.arena is None:
        raise VerifyError(program, "the program is not allocated; call allocate() first")
    residents = _residents(program, program.arena)
    for resident in residents:
        _check_place(resident, program.arena, alignment)
    found = first_overlap(residents)
    if found is not None:
        raise VerifyError(found[0], f"it overlaps with {found[1]}")


def _residents(program: Program, arena: Arena) -> list[Resident]:
    """Return the activations with bytes in the order of their first use."""
    residents: dict[Buffer, Resident] = {}
    for index, instruction in enumerate(program.instructions):
        if is_marker(instruction):
            continue
        for root in dict.fromkeys(buffer.root for buffer in operands_of(instruction)):
            if not isinstance(root, Activation) or not hinted(root.type.size_bytes):
                continue
            if root not in residents:
                if root not in arena.offsets:
                    raise VerifyError(root, f"{instruction} touches it, but it has no place")
                begin = arena.offsets[root]
                end = begin + hinted(root.type.size_bytes)
                residents[root] = Resident(root, begin, end, index, index)
            residents[root].last = index
    return list(residents.values())


def _check_place(resident: Resident, arena: Arena, alignment: int) -> None:
    if resident.begin < 0 or resident.end > arena.size_bytes:
        raise VerifyError(resident, f"it lies outside of the arena of {arena.size_bytes} bytes")
    if resident.begin % alignment:
        raise VerifyError(resident, f"the offset is not a multiple of {alignment}")


def first_overlap(residents: Iterable[Resident]) -> tuple[Resident, Resident] | None:
    """Return a resident and an earlier one that needs some of its bytes at the same time, if any.

    The *residents* come in the order of their first steps.
    """
    live: list[Resident] = []
    for newcomer in residents:
        live = [resident for resident in live if resident.last >= newcomer.first]
        for other in live:
            if newcomer.begin < other.end and other.begin < newcomer.end:
                return newcomer, other
        live.append(newcomer)
    return None
